import math
from collections.abc import Callable

import pytest
from sqlalchemy import delete, func, insert, select, text, update

from app.annotators.service import decide
from app.database.engine import Database
from app.database.ids import new_id
from app.database.tables import (
    annotators,
    models,
    retracted_votes,
    retractions,
    snapshot_annotators,
    snapshot_models,
    snapshots,
    votes,
)
from app.errors import NotFoundError
from app.rating.errors import VotesError
from app.rating.method import METHOD
from app.refits.load import NotReproducibleError
from app.refits.reproduce import reproduce
from app.refits.schemas import Refit

DoRefit = Callable[..., Refit]
ChangePolicy = Callable[..., None]


def retract_some(database: Database, how_many: int) -> None:
    with database.begin() as conn:
        retraction_id = new_id()
        values = {"id": retraction_id, "target": "vote", "target_id": "x", "reason": "a test", "votes": how_many}
        conn.execute(insert(retractions).values(retracted_by="a test", **values))
        left = select(votes.c.id).where(votes.c.id.not_in(select(retracted_votes.c.vote_id)))
        chosen = conn.execute(left.order_by(func.random()).limit(how_many)).scalars().all()
        conn.execute(insert(retracted_votes), [{"vote_id": one, "retraction_id": retraction_id} for one in chosen])


def add_votes(database: Database, how_many: int) -> None:
    """Votes of a new annotator on a new model and an old one."""
    with database.begin() as conn:
        person = {"public_id": new_id(), "key": f"person {new_id()}"}
        annotator = conn.execute(insert(annotators).values(person).returning(annotators.c.id)).scalar_one()
        model = conn.execute(insert(models).values(name=f"model {new_id()}").returning(models.c.id)).scalar_one()
        vote = {"annotator_id": annotator, "model_a_id": 1, "model_b_id": model}
        conn.execute(insert(votes), [{"id": new_id(), "outcome": i % 3, **vote} for i in range(how_many)])


def test_a_snapshot_is_made_again_after_everything_has_changed(
    database: Database, stored_crowd: None, run_refit: DoRefit, store_policy: ChangePolicy
) -> None:
    retract_some(database, 30)
    with database.begin() as conn:
        decide(conn, "honest 1", "exclude", reason="a test", decided_by="a test")
        decide(conn, "honest 2", "exclude", reason="a test", decided_by="a test")
        decide(conn, "honest 2", "withdraw", reason="a test", decided_by="a test")
        decide(conn, "flip 12", "trust", reason="a test", decided_by="a test")
    store_policy(max_votes_per_day=117, on_low_ability="exclude")
    with database.begin() as late:
        late.execute(select(func.pg_current_xact_id()))
        published = run_refit(accept_exclusions=True)
        assert published.state == "done"
        # Begun before the snapshot, committed after it: not among its votes.
        vote = {"annotator_id": 1, "model_a_id": 1, "model_b_id": 2, "outcome": 1}
        late.execute(insert(votes), [{"id": new_id(), **vote} for _ in range(20)])
    retract_some(database, 60)
    add_votes(database, 80)
    with database.begin() as conn:
        decide(conn, "honest 1", "reinstate", reason="a test", decided_by="a test")
        decide(conn, "honest 3", "exclude", reason="a test", decided_by="a test")
        decide(conn, "flip 12", "withdraw", reason="a test", decided_by="a test")
    store_policy(min_votes=10, min_ability=0.5)
    assert run_refit(accept_exclusions=True).state == "done"
    for number in ("1", "2"):
        made = reproduce(database, number)
        assert (made.same_votes, made.largest_difference, made.reproduced) == (True, 0.0, True), made.differences
    assert reproduce(database, str(published.snapshot_id)).number == 1
    assert {"score", "se", "rank", "ability", "rule_standing"} <= made.differences.keys()


@pytest.mark.comparisons
def test_a_number_that_was_changed_is_found(database: Database, stored_crowd: None, run_refit: DoRefit) -> None:
    run_refit()
    with database.begin() as conn:
        c = snapshot_models.c
        conn.execute(update(snapshot_models).where(c.model_id == 1, c.method == "m-elo").values(score=c.score + 0.5))
        conn.execute(update(snapshot_annotators).where(snapshot_annotators.c.annotator_id == 2).values(se=None))
    made = reproduce(database, "1")
    assert made.same_votes
    assert made.differences["score"] == pytest.approx(0.5)
    assert made.differences["se"] == made.largest_difference == math.inf
    assert not made.reproduced


def test_other_numbers_of_another_method_are_explained_and_other_votes_are_not(
    database: Database, stored_crowd: None, run_refit: DoRefit
) -> None:
    run_refit()
    with database.begin() as conn:
        conn.execute(update(snapshot_models).values(score=snapshot_models.c.score + 0.5))
    made = reproduce(database, "1")
    assert (made.same_votes, made.same_method, made.explained) == (True, True, False)
    with database.begin() as conn:
        before = snapshots.c.diagnostics.op("-")("method_version")
        conn.execute(update(snapshots).values(diagnostics=before, code_version="0.1.0"))
    made = reproduce(database, "1")
    assert (made.code_version, made.same_method, made.reproduced, made.explained) == ("0.1.0", False, False, True)
    with database.begin() as conn:
        conn.execute(delete(votes).where(votes.c.id == select(votes.c.id).limit(1).scalar_subquery()))
    assert not reproduce(database, "1").explained


def test_votes_that_this_method_cannot_rate_name_the_version_that_did(
    database: Database, stored_crowd: None, run_refit: DoRefit
) -> None:
    run_refit()
    with database.begin() as conn:
        settings = snapshots.c.settings.concat({"min_votes": 10_000})
        conn.execute(update(snapshots).values(settings=settings))
    with pytest.raises(VotesError):
        reproduce(database, "1")
    with database.begin() as conn:
        before = snapshots.c.diagnostics.concat({"method_version": METHOD - 1})
        conn.execute(update(snapshots).values(diagnostics=before, code_version="0.1.0"))
    with pytest.raises(NotReproducibleError, match=r"version 0\.1\.0 made it"):
        reproduce(database, "1")


def test_a_vote_that_was_lost_is_found(database: Database, stored_crowd: None, run_refit: DoRefit) -> None:
    run_refit()
    with database.begin() as conn:
        conn.execute(delete(votes).where(votes.c.id == select(votes.c.id).limit(1).scalar_subquery()))
    made = reproduce(database, "1")
    assert (made.votes, made.same_votes, made.reproduced) == (1679, False, False)


def test_a_snapshot_whose_annotators_were_pruned(database: Database, stored_crowd: None, run_refit: DoRefit) -> None:
    run_refit()
    with database.begin() as conn:
        conn.execute(delete(snapshot_annotators))
    made = reproduce(database, "1")
    assert made.reproduced
    assert "ability" not in made.differences


def test_votes_of_another_cluster_are_told_apart(database: Database, stored_crowd: None, run_refit: DoRefit) -> None:
    run_refit()
    with database.begin() as conn:
        conn.execute(text("UPDATE votes SET recorded_in = '4000000000' WHERE annotator_id = 3"))
    with pytest.raises(NotReproducibleError):
        reproduce(database, "1")


def test_a_removed_setting_that_had_no_effect(database: Database, stored_crowd: None, run_refit: DoRefit) -> None:
    run_refit()
    with database.begin() as conn:
        conn.execute(update(snapshots).values(settings=snapshots.c.settings.concat({"flag_probability": 0.95})))
    assert reproduce(database, "1").reproduced


@pytest.mark.parametrize("prior_sd", [1.0, "estimated"])
def test_settings_of_the_method_before_are_left_out(
    database: Database, stored_crowd: None, run_refit: DoRefit, prior_sd: object
) -> None:
    """The votes are compared, and the version that made the snapshot by another method is named."""
    run_refit()
    settings = {"ability_cap": 1.75, "bias_correction": True, "prior_sd": prior_sd}
    with database.begin() as conn:
        recorded = {
            "settings": snapshots.c.settings.concat(settings),
            "diagnostics": snapshots.c.diagnostics.concat({"method_version": METHOD - 1, "published_cap": 1.7}),
        }
        conn.execute(update(snapshots).values(recorded | {"code_version": "0.2.0"}))
    made = reproduce(database, "1")
    assert (made.code_version, made.same_votes, made.same_method, made.explained) == ("0.2.0", True, False, True)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"tilt": 1}, "tilt"),
        ({"evidence_tests": ["coin", "copy"]}, "copy"),
        ({"flag_rule": "probability", "flag_probability": 0.95}, "probability"),
    ],
)
def test_settings_of_another_version(
    database: Database, stored_crowd: None, run_refit: DoRefit, settings: dict[str, object], named: str
) -> None:
    run_refit()
    with database.begin() as conn:
        conn.execute(update(snapshots).values(settings=settings))
    with pytest.raises(NotReproducibleError, match=f"unknown now: {named}$"):
        reproduce(database, "1")


def test_no_such_snapshot(database: Database) -> None:
    with pytest.raises(NotFoundError):
        reproduce(database, "1")
