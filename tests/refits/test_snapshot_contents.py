"""What a refit publishes beside the board: other boards, boards by tag, pairs, evidence."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from httpx import Client
from sqlalchemy import Connection, func, select, text, update

from app.annotators.service import decide, find_annotator
from app.database.engine import Database
from app.database.tables import annotators, snapshot_annotators, snapshot_matchups, snapshot_models, snapshots, votes
from app.errors import ConflictError
from app.rating.verdict import categories
from app.refits.fit import comparisons
from app.refits.fit.fit import fit_snapshot
from app.refits.fit.interface import LeaderboardName
from app.refits.fit.parts import Parts
from app.refits.load import load_fit_input
from app.refits.reproduce import reproduce
from app.refits.schemas import Refit
from app.snapshots.queries import list_leaderboards
from app.snapshots.service import find_snapshot
from app.votes.queries import most_voted_tags
from app.votes.retractions.service import retract_votes
from app.wording import plural
from tests.fixtures.crowds import RANK_EVERYTHING
from tests.fixtures.fit_inputs import fit_main

DoRefit = Callable[..., Refit]
ChangePolicy = Callable[..., None]


def board(conn: Connection, method: str, tag: str = "") -> dict[int, Any]:
    c = snapshot_models.c
    newest = select(snapshots.c.id).order_by(snapshots.c.number.desc()).limit(1).scalar_subquery()
    rows = conn.execute(select(snapshot_models).where(c.snapshot_id == newest, c.method == method, c.tag == tag))
    return {row.model_id: row for row in rows}


def tag_votes(database: Database, condition: str, tag: str) -> int:
    with database.begin() as conn:
        # a vote's row cannot be changed, but by whoever owns the table
        conn.execute(text("ALTER TABLE votes DISABLE TRIGGER USER"))
        done = conn.execute(update(votes).where(text(condition)).values(tags=func.array_append(votes.c.tags, tag)))
        conn.execute(text("ALTER TABLE votes ENABLE TRIGGER USER"))
        return done.rowcount


@pytest.mark.comparisons
def test_the_methods_side_by_side(
    database: Database, stored_crowd: None, run_refit: DoRefit, store_policy: ChangePolicy
) -> None:
    store_policy(on_low_ability="exclude", max_excluded_share=1.0)
    run_refit()
    with database.read() as conn:
        found = {method: board(conn, method) for method in ("am-elo", "m-elo", "m-elo-all", "elo")}
        counted = select(func.count()).select_from(votes)
        everything = conn.execute(counted).scalar_one()
    used = {method: sum(row.votes for row in rows.values()) // 2 for method, rows in found.items()}
    assert used == {"am-elo": 1440, "m-elo": 1440, "m-elo-all": everything, "elo": 1440}
    assert all(len(rows) == 6 for rows in found.values())
    order = {method: sorted(rows, key=lambda model: rows[model].rank) for method, rows in found.items()}
    assert order["elo"] == order["am-elo"]
    spread = {method: np.ptp([row.score for row in rows.values()]) for method, rows in found.items()}
    assert spread["m-elo-all"] < spread["m-elo"], "two who vote against the truth blur it"
    for row in found["elo"].values():
        assert row.se > 0
        assert (row.lower, row.upper, row.best_rank, row.worst_rank) == (None, None, None, None)
        assert (row.rank_set_best, row.rank_set_worst, row.class_rank) == (None, None, None)
    for row in found["am-elo"].values():
        assert row.best_rank <= row.rank <= row.worst_rank
        assert row.rank_set_best <= row.rank <= row.rank_set_worst
        assert (row.class_rank == 1) == (row.best_rank == 1), "no model is certainly above those of the first class"


def test_elo_is_left_out_where_it_is_not_cheap(
    database: Database, stored_crowd: None, run_refit: DoRefit, monkeypatch: pytest.MonkeyPatch
) -> None:

    with database.read() as conn:
        task = load_fit_input(conn)
    cells = task.cells()
    fitted = fit_main(task)
    names = {name.method for name in comparisons.fit_other_methods(task, cells, fitted, Parts())}
    assert names == {"m-elo", "m-elo-all", "elo"}
    monkeypatch.setattr(comparisons, "ELO_UPDATES", 19 * 1680)
    assert {name.method for name in comparisons.fit_other_methods(task, cells, fitted, Parts())} == {
        "m-elo",
        "m-elo-all",
    }
    assert {name.method for name in fit_snapshot(task).leaderboards} == {"am-elo", "m-elo", "m-elo-all"}


def test_whoever_counts_counts_on_every_board(database: Database, stored_crowd: None) -> None:
    """Two who only met a model that never lost have no ability, and votes that the board counts."""
    with database.read() as conn:
        task = load_fit_input(conn)
    unbeaten, votes_of_them = len(task.model_ids), 60
    newcomers = np.repeat(len(task.annotator_ids) + np.arange(2), votes_of_them)
    task = replace(
        task,
        annotator=np.append(task.annotator, newcomers).astype(np.int32),
        model_a=np.append(task.model_a, np.full(len(newcomers), unbeaten)).astype(np.int32),
        model_b=np.append(task.model_b, np.zeros(len(newcomers))).astype(np.int32),
        outcome=np.append(task.outcome, np.ones(len(newcomers))),
        annotator_ids=np.arange(1, len(task.annotator_ids) + 3, dtype=np.int32),
        model_ids=np.arange(1, unbeaten + 2, dtype=np.int32),
        overrides=np.append(task.overrides, ["", ""]),
        rule_standings=np.append(task.rule_standings, ["pending", "pending"]),
    )
    found = fit_snapshot(task)
    made = found.leaderboards
    counted = {name.method: int(board.votes.sum()) // 2 for name, board in made.items()}
    assert set(counted.values()) == {len(task.outcome)}
    assert not made[LeaderboardName("am-elo")].identified[unbeaten]
    table = found.matchups
    assert table is not None
    of_it = table.model_b == unbeaten
    assert of_it.sum() == unbeaten, "with every other model, also those it never met"
    assert np.isnan(table.predicted[of_it]).all()
    assert (table.lower[of_it] == 0.0).all()
    assert (table.upper[of_it] < 0.5).any(), "it beat the first model 120 times"


def test_one_vote_is_a_board(database: Database, stored_crowd: None, store_policy: ChangePolicy) -> None:
    """Of two models without a score, on every board but Elo's, which is of the votes' order alone."""
    store_policy(min_votes=0)
    with database.read() as conn:
        task = load_fit_input(conn)
    first = {name: getattr(task, name)[:1] for name in ("annotator", "model_a", "model_b", "outcome")}
    made = fit_snapshot(replace(task, **first))
    assert {name.method for name in made.leaderboards} == {"am-elo", "m-elo", "m-elo-all", "elo"}
    for board in made.leaderboards.values():
        assert (board.votes.sum(), board.wins.sum(), board.losses.sum()) == (2, 1, 1)
    assert np.isnan(made.leaderboards[LeaderboardName("am-elo")].score).all()


@pytest.mark.comparisons
def test_boards_by_tag(database: Database, stored_crowd: None, run_refit: DoRefit, store_policy: ChangePolicy) -> None:
    """Tagged all: the whole's own scores. Half the votes: close to them. Past the number of boards: none."""
    assert tag_votes(database, "true", "all") == 1680
    half = tag_votes(database, "outcome = 2 OR model_a_id + model_b_id < 8", "half")
    assert tag_votes(database, "annotator_id = 1", "one") == 120
    store_policy(max_tag_boards=2)
    run_refit()
    with database.read() as conn:
        whole, everything, some = board(conn, "am-elo"), board(conn, "am-elo", "all"), board(conn, "am-elo", "half")
        assert board(conn, "am-elo", "one") == {}
    for model, row in whole.items():
        assert everything[model].score == row.score
        assert (everything[model].votes, everything[model].wins) == (row.votes, row.wins)
        assert some[model].score == pytest.approx(row.score, abs=120)
    assert sum(row.votes for row in some.values()) == 2 * half
    assert reproduce(database, "1").largest_difference == 0.0


@pytest.mark.comparisons
def test_boards_by_category(
    database: Database,
    stored_crowd: None,
    run_refit: DoRefit,
    store_policy: ChangePolicy,
    ask: Callable[..., Any],
    client: Client,
) -> None:
    """Model 0 wins in French where it is on the left; one vote has an unknown value, most have none."""
    french = tag_votes(database, "annotator_id <= 7", "language=fr")
    english = tag_votes(database, "annotator_id IN (8, 9, 10)", "language=en")
    tag_votes(database, "annotator_id = 11", "language=it")
    with database.begin() as conn:
        conn.execute(text("ALTER TABLE votes DISABLE TRIGGER USER"))
        conn.execute(text("UPDATE votes SET outcome = 0 WHERE model_a_id = 1 AND 'language=fr' = ANY (tags)"))
        conn.execute(text("ALTER TABLE votes ENABLE TRIGGER USER"))
    weights = {"language=fr": 1.0, "language=de": 0.5, "language=en": 0.5}
    store_policy(dimensions={"language": ["fr", "de", "en"]}, category_weights=weights)
    run_refit()
    with database.read() as conn:
        found, warnings = (find_snapshot(conn).diagnostics[name] for name in ("categories", "warnings"))
        french_board, weighted = board(conn, "am-elo", "language=fr"), board(conn, "weighted")
        whole, boards = board(conn, "am-elo"), list_leaderboards(conn, find_snapshot(conn).id)
    assert [tag for _, tag in boards if tag] == ["language=en", "language=fr"]
    assert list(found) == ["language"]
    assert [one["detail"] for one in warnings if one["code"] == "weight-without-votes"] == [
        "the weight of language=de is for no vote: no counted vote has the tag"
    ]
    assert found["language"]["votes"] == {
        "language=fr": french, "language=de": 0, "language=en": english, "": 1680 - french - english,
    }  # fmt: skip
    outliers = {(one["model"], one["tag"]): one for one in found["language"]["outliers"]}
    first = outliers.pop(("model 0", "language=fr"))
    assert 0 < first["lower"] < first["difference"] < first["upper"]
    assert all(key == ("model 0", "language=en") and one["upper"] < 0 for key, one in outliers.items())
    assert first["difference"] == pytest.approx(french_board[1].score - whole[1].score)
    assert whole[1].score < weighted[1].score < french_board[1].score
    table = ask("GET", "/leaderboard/categories").json()
    assert list(table["dimensions"]) == ["language"]
    row = next(one for one in table["models"] if one["model"] == "model 0")
    assert (row["score"], set(row["categories"])) == (whole[1].score, {"language=fr", "language=en"})
    assert row["categories"]["language=fr"]["stands_out"]
    assert row["categories"]["language=fr"]["difference"] == pytest.approx(first["difference"])
    assert sum(one["categories"]["language=fr"]["votes"] for one in table["models"]) == 2 * french
    outliers = len(found["language"]["outliers"])
    assert f'href="/categories">{plural(outliers, "category score")} that stand out' in client.get("/").text
    assert f"The category has {plural(french, 'vote')}" in client.get("/?tag=language%3Dfr").text
    page = client.get("/?method=weighted")
    assert page.status_code == 200
    assert "modelling annotators" not in page.text.lower()
    assert reproduce(database, "1").largest_difference == 0.0


def test_a_dimension_that_cannot_be_rated_holds_nothing_up(
    database: Database, stored_crowd: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag_votes(database, "true", "all")
    tag_votes(database, "annotator_id < 5", "few")
    with database.read() as conn:
        task = load_fit_input(conn)
    monkeypatch.setattr(categories, "LARGEST", 0)
    made = fit_snapshot(task)
    assert {name.tag for name in made.leaderboards} == {"", "all"}
    assert [notice.code for notice in made.notices] == ["tag-board-omitted"]


@pytest.mark.comparisons
def test_a_tag_of_no_annotator_in_the_fit_has_no_board(
    database: Database, stored_crowd: None, run_refit: DoRefit, store_policy: ChangePolicy
) -> None:
    tag_votes(database, "annotator_id = 1", "one")
    with database.begin() as conn:
        decide(conn, "honest 0", "exclude", reason="a test", decided_by="a test")
    run_refit()
    with database.read() as conn:
        assert board(conn, "am-elo", "one") == {}
        assert board(conn, "am-elo")


@pytest.mark.comparisons
def test_a_tag_that_coins_judged_has_the_board_of_all_votes_with_wide_intervals(
    database: Database, store_crowd: Callable[..., None], run_refit: DoRefit, store_policy: ChangePolicy
) -> None:
    store_policy(**RANK_EVERYTHING)
    store_crowd(honest=12, random=4)
    tag_votes(database, "annotator_id > 12", "coins")
    run_refit()
    with database.read() as conn:
        coins, whole = board(conn, "am-elo", "coins"), board(conn, "am-elo")
    for model, row in coins.items():
        assert row.se > whole[model].se
        assert abs(row.score - whole[model].score) < row.upper - row.score


@pytest.mark.comparisons
def test_weights_of_the_one_category_of_all_votes(
    database: Database, stored_crowd: None, run_refit: DoRefit, store_policy: ChangePolicy
) -> None:
    tag_votes(database, "true", "language=fr")
    store_policy(dimensions={"language": ["fr", "en"]}, category_weights={"language=fr": 1.0, "language=en": 2.0})
    run_refit()
    with database.read() as conn:
        whole, weighted = board(conn, "am-elo"), board(conn, "weighted")
    assert {model: row.score for model, row in weighted.items()} == {model: row.score for model, row in whole.items()}


@pytest.mark.comparisons
def test_tags_that_overlap_are_told_apart_again(
    database: Database, stored_crowd: None, run_refit: DoRefit, store_policy: ChangePolicy
) -> None:
    """In the order of their votes (p, s, q, r) the tags form three dimensions, by their names two."""
    for tag, last, first in (("p", 6, 0), ("q", 7, 5), ("r", 8, 6), ("s", 12, 7)):
        tag_votes(database, f"annotator_id > {first} AND annotator_id <= {last}", tag)
    run_refit()
    with database.read() as conn:
        assert len(find_snapshot(conn).diagnostics["categories"]) == 3
    assert reproduce(database, "1").reproduced


def test_no_tag_of_a_vote_is_taken_for_a_criterion(database: Database, stored_crowd: None) -> None:
    tag_votes(database, "true", "criterion=overall")
    tag_votes(database, "annotator_id = 1", "one")
    with database.read() as conn:
        assert most_voted_tags(conn, 2) == ["one"]


def test_retracted_votes_give_a_tag_no_weight(database: Database, stored_crowd: None) -> None:
    tag_votes(database, "annotator_id = 1", "many")
    tag_votes(database, "annotator_id = 2 AND outcome = 0", "few")
    with database.begin() as conn:
        assert most_voted_tags(conn, 2) == ["many", "few"]
        assert most_voted_tags(conn, 1) == ["many"]
        retract_votes(conn, "annotator", "honest 0", reason="a test", retracted_by="a test")
        assert most_voted_tags(conn, 2) == ["few"]


def test_pairs_observed_and_predicted(database: Database, stored_crowd: None, run_refit: DoRefit) -> None:
    run_refit()
    with database.read() as conn:
        pairs = conn.execute(select(snapshot_matchups)).all()
        scores = {model: row.score for model, row in board(conn, "am-elo").items()}
        raw = conn.execute(text("SELECT model_a_id, model_b_id, outcome, count(*) FROM votes GROUP BY 1, 2, 3")).all()
    assert len(pairs) == 15
    for pair in pairs:
        a, b = pair.model_a_id, pair.model_b_id
        seen = {(left, right, outcome): count for left, right, outcome, count in raw if {left, right} == {a, b}}
        assert pair.wins_a == seen.get((a, b, 0), 0) + seen.get((b, a, 1), 0)
        assert pair.wins_b == seen.get((a, b, 1), 0) + seen.get((b, a, 0), 0)
        assert pair.ties == seen.get((a, b, 2), 0) + seen.get((b, a, 2), 0)
        assert pair.predicted == pytest.approx(1 / (1 + 10 ** ((scores[b] - scores[a]) / 400)), abs=1e-9)
        assert pair.lower < pair.predicted < pair.upper


def test_a_flag_says_why(database: Database, stored_crowd: None, run_refit: DoRefit) -> None:
    run_refit()
    with database.read() as conn:
        c = snapshot_annotators.c
        found = dict(conn.execute(select(annotators.c.key, c.evidence).where(annotators.c.id == c.annotator_id)).all())
        rules = find_snapshot(conn).diagnostics["rules"]
    for name in ("flip 12", "flip 13"):
        assert found[name]["rule"] == "coin"
        assert found[name]["tests"]["coin"] == found[name]["strength"] > 2
        assert 10 < found[name]["judges"] <= 14, "of 14 who vote alike on all models"
    assert rules == {"coin": {"annotators": 2, "votes": 240}}
    assert all(row is None or row["rule"] is None for name, row in found.items() if name.startswith("honest"))


def test_too_few_judges_are_on_record_where_they_spare_an_annotator(
    database: Database, stored_crowd: None, run_refit: DoRefit, store_policy: ChangePolicy
) -> None:
    store_policy(evidence_tests=["equal"])
    run_refit()
    with database.read() as conn:
        c = snapshot_annotators.c
        columns = annotators.c.key, c.evidence, c.probability_low, c.rule_standing
        found = conn.execute(select(*columns).where(annotators.c.id == c.annotator_id)).all()
    spared = {row.key: row.evidence for row in found if row.evidence and row.probability_low > 0.5}
    assert set(spared) == {"flip 12", "flip 13"}
    others = [row.evidence for row in found if row.evidence and row.key not in spared]
    assert [one for one in others if one["rule"] or one["tests"]] == [], "their votes weigh less, that is all"
    assert all(one["weights"]["many"] > 0 for one in others)
    assert {(one["rule"], one["judges"] < 20) for one in spared.values()} == {(None, True)}
    assert all(row.probability_low > 0.95 and row.rule_standing == "active" for row in found if row.key in spared)


def test_a_dismissed_flag_opens_when_the_evidence_is_a_hundred_times_stronger(
    database: Database, stored_crowd: None, run_refit: DoRefit
) -> None:
    run_refit()
    with database.begin() as conn:
        found, _ = decide(conn, "flip 12", "dismiss", reason="a test", decided_by="a test")
    assert found.standing == "active"
    run_refit()
    with database.begin() as conn:
        standing = select(snapshot_annotators.c.standing).where(snapshot_annotators.c.annotator_id == 13)
        assert set(conn.execute(standing).scalars()) == {"flagged", "active"}
        with pytest.raises(ConflictError):
            decide(conn, "flip 12", "dismiss", reason="again", decided_by="a test")
        # as if the evidence had been weaker on the day
        weaker = annotators.c.dismissed_above - 3.0
        conn.execute(update(annotators).where(annotators.c.key == "flip 12").values(dismissed_above=weaker))
    run_refit()
    with database.begin() as conn:
        decide(conn, "flip 12", "dismiss", reason="it is open again", decided_by="a test")


def test_whom_the_margin_holds_is_on_record_and_made_again(
    database: Database, stored_crowd: None, run_refit: DoRefit, store_policy: ChangePolicy
) -> None:
    """Excluded by a high ε, then held by the margin of a lower one: what a later refit cannot tell from votes."""
    store_policy(flag_rule="threshold", min_ability=0.9, on_low_ability="exclude", max_excluded_share=1.0)
    run_refit()
    store_policy(
        flag_rule="threshold", min_ability=0.3, release_margin=0.9, on_low_ability="exclude", max_excluded_share=1.0
    )
    run_refit()
    with database.read() as conn:
        held = conn.execute(select(snapshots.c.held).order_by(snapshots.c.number)).scalars().all()
        c = snapshot_annotators.c
        second = select(snapshots.c.id).where(snapshots.c.number == 2).scalar_subquery()
        marked = select(c.annotator_id).where(c.snapshot_id == second, c.standing.in_(("excluded", "flagged")))
        out = set(conn.execute(marked).scalars())
    assert held[0] == []
    assert held[1]
    assert set(held[1]) <= out
    store_policy(flag_rule="threshold", min_ability=0.5)
    run_refit()
    made = reproduce(database, "2")
    assert made.reproduced
    assert made.largest_difference == 0.0


def test_whose_votes_are_all_retracted_is_pending_again(
    database: Database, stored_crowd: None, run_refit: DoRefit
) -> None:
    """Else the flag would wait for a reviewer for ever, without a vote to look at."""
    run_refit()
    with database.begin() as conn:
        assert find_annotator(conn, "flip 12").standing == "flagged"
        retract_votes(conn, "annotator", "flip 12", reason="a test", retracted_by="a test")
    run_refit()
    with database.read() as conn:
        assert find_annotator(conn, "flip 12").standing == "pending"
        assert find_annotator(conn, "flip 13").standing == "flagged"
    assert reproduce(database, "1").largest_difference == 0.0
    assert reproduce(database, "2").largest_difference == 0.0
