"""What the estimators return: the leaderboards of `rate`, win probabilities, rank sets, flags and charts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import vl_convert
from scipy.special import expit, ndtr

from app.rating.errors import VotesError
from app.rating.settings import SettingError, VerdictRule
from app.rating.uncertainty.covariance import contrast_errors
from app.rating.uncertainty.freedom import critical_values
from app.rating.uncertainty.ranks import rank_range
from stable_arena import AmElo, BradleyTerry, Elo, read_votes
from tests.fixtures.errors import having, naming

pytestmark = pytest.mark.filterwarnings("ignore::app.rating.errors.RatingWarning")
NATURAL = np.log(10.0) / 400.0


@pytest.fixture(scope="module")
def am_elo(votes: pl.DataFrame) -> AmElo:
    return AmElo().fit(votes)


def test_scores_are_shifted_to_the_base_and_to_the_anchor(votes: pl.DataFrame, am_elo: AmElo) -> None:
    score = dict(am_elo.leaderboard.select("model", "score").rows())
    assert np.mean([*score.values()]) == pytest.approx(1000.0)
    for estimator in (AmElo(anchor=("model 3", 1200.0)), BradleyTerry(anchor=("model 3", 1200.0))):
        shifted = dict(estimator.fit(votes).leaderboard.select("model", "score").rows())
        assert shifted["model 3"] == pytest.approx(1200.0)
    anchored = Elo(anchor=("model 3", 1200.0), shuffles=2).fit(votes).leaderboard
    assert anchored.row(by_predicate=pl.col("model") == "model 3", named=True)["score"] == 1200.0


def test_bradley_terry_needs_no_annotators(votes: pl.DataFrame) -> None:
    with_them, without = BradleyTerry().fit(votes), BradleyTerry().fit(votes.drop("annotator"))
    by_vote = BradleyTerry(interval="sandwich").fit(votes)
    assert without.leaderboard.equals(by_vote.leaderboard)
    assert without.leaderboard["score"].to_list() == pytest.approx(with_them.leaderboard["score"].to_list())
    assert without.leaderboard["se"].to_list() != pytest.approx(with_them.leaderboard["se"].to_list())


def test_elo_is_the_same_with_and_without_annotators_and_again(votes: pl.DataFrame) -> None:
    expected = Elo(shuffles=20).fit(votes)
    assert Elo(shuffles=20).fit(votes.drop("annotator")).leaderboard.equals(expected.leaderboard)
    assert not Elo(shuffles=20, random_state=1).fit(votes).leaderboard.equals(expected.leaderboard)
    assert Elo(shuffles=20, k=32.0).fit(votes).leaderboard["sd"].min() > expected.leaderboard["sd"].max()


def test_win_probabilities_follow_from_the_scores(votes: pl.DataFrame, am_elo: AmElo) -> None:
    for estimator in (am_elo, BradleyTerry().fit(votes), Elo(shuffles=20).fit(votes)):
        score = dict(estimator.leaderboard.select("model", "score").rows())
        expected = expit(NATURAL * (score["model 1"] - score["model 4"]))
        found = estimator.win_probability("model 1", "model 4")
        assert type(found) is float
        assert found == pytest.approx(expected, abs=1e-9)
        names = [f"model {i}" for i in range(6)]
        table = estimator.win_probability(np.array(names)[:, None], names)
        assert table.shape == (6, 6)
        assert table[1, 4] == pytest.approx(expected, abs=1e-9)
        np.testing.assert_allclose(table + table.T, 1.0)
        assert estimator.win_probability(["model 1"], "model 4").shape == (1,)
        with pytest.raises(ValueError, match=r"there is no model 'Model 1' in the votes; is it 'model 1'\?"):
            estimator.win_probability("Model 1", "model 4")


def test_win_probabilities_have_intervals(votes: pl.DataFrame, am_elo: AmElo) -> None:
    probability, lower, upper = am_elo.win_probability("model 0", "model 1", return_interval=True)
    assert lower < probability < upper
    _, low, high = AmElo(confidence=0.5).fit(votes).win_probability("model 0", "model 1", return_interval=True)
    assert lower < low < high < upper
    flipped = am_elo.win_probability("model 1", "model 0", return_interval=True)
    assert flipped == pytest.approx((1 - probability, 1 - upper, 1 - lower))


def test_a_model_that_only_won_has_no_score_but_a_bound(votes: pl.DataFrame) -> None:
    won = pl.DataFrame(
        {"model_a": "winner", "model_b": "model 0", "winner": "model_a", "annotator": [f"honest {i}" for i in range(5)]}
    )
    fitted = AmElo().fit(pl.concat([votes, won]))
    row = fitted.leaderboard.row(by_predicate=pl.col("model") == "winner", named=True)
    assert (row["identified"], row["score"], row["upper"]) == (False, None, None)
    assert row["lower"] is not None
    against = fitted.win_probability("winner", "model 0", return_interval=True)
    assert 0.0 < against[1] <= against[0] < against[2] == 1.0
    assert against[0] == max(against[1], 0.5), "the nearest to ½ within the bounds"
    assert row["best_rank"] <= row["rank"] <= row["worst_rank"]
    assert sorted(fitted.leaderboard["rank"].to_list()) == list(range(1, 8))
    beaten = fitted.leaderboard.row(by_predicate=pl.col("model") == "model 0", named=True)
    assert row["rank"] < beaten["rank"]
    chart = fitted.plot()
    of_it = next(value for value in chart["data"]["values"] if value["model"] == "winner")
    assert (of_it["bound"], of_it["side"], of_it["lower"]) == (row["lower"], "at least", None)
    lost = won.with_columns(winner=pl.lit("model_b"), model_a=pl.lit("loser"))
    of_it = AmElo().fit(pl.concat([votes, lost])).plot()["data"]["values"][-1]
    assert (of_it["model"], of_it["side"], of_it["upper"]) == ("loser", "at most", None)


def test_rank_sets_are_wider_than_the_ranks_of_one_model_alone(am_elo: AmElo) -> None:
    sets, alone = am_elo.rank_sets(), am_elo.leaderboard
    assert sets["model"].to_list() == alone["model"].to_list()
    assert (sets["rank_set_best"] <= alone["best_rank"]).all()
    assert (sets["rank_set_worst"] >= alone["worst_rank"]).all()
    assert sets["rank_set_worst"].max() == 6


@pytest.mark.parametrize("estimator", [AmElo(), AmElo(prior_sd=None), BradleyTerry()])
def test_rank_sets_are_those_of_the_published_scores(votes: pl.DataFrame, estimator: Any) -> None:
    """Not wider than Bonferroni's inequality makes them, and as wide as the closest pair alone does at least."""
    few = votes.gather_every(9)  # so that neighbours overlap
    fitted = estimator.set_params(min_votes=0).fit(few)
    board = fitted.leaderboard.sort("model")
    every, n, score = np.arange(len(board)), len(board), NATURAL * board["score"].to_numpy()
    gap, sets = score[:, None] - score, fitted.rank_sets().sort("model")
    sizes = []
    for level in (1 - 0.05 / (n * (n - 1) / 2), 0.95, 1.0 - 2.0 * float(ndtr(-np.sqrt(2.0) * 1.959964))):
        spread = fitted.result_.covariance
        freedom = spread.contrast_freedom(every[:, None], every, order=True)
        half = critical_values(freedom, level) * contrast_errors(spread.order, every[:, None], every)
        best, worst = rank_range((gap > half) & (half > 0))
        sizes.append((worst - best).sum())
    size = (sets["rank_set_worst"] - sets["rank_set_best"]).sum()
    assert sizes[0] >= size >= sizes[1] > 0
    assert board["best_rank"].to_list() == best.tolist()
    assert board["worst_rank"].to_list() == worst.tolist()


def test_rank_sets_are_within_components_and_unknown_without_intervals(votes: pl.DataFrame) -> None:
    apart = pl.concat([votes, votes.with_columns(pl.col("model_a", "model_b") + "'")])
    sets = BradleyTerry().fit(apart).rank_sets()
    one = BradleyTerry().fit(votes).rank_sets()
    assert sets["rank_set_worst"].max() == 6
    of_first = sets.filter(~pl.col("model").str.ends_with("'"))
    assert of_first["rank"].to_list() == one["rank"].to_list()
    none = BradleyTerry(interval="none").fit(votes).rank_sets()
    assert none["rank_set_best"].null_count() == none["rank_set_worst"].null_count() == 6


def test_flags_say_what_was_found(votes: pl.DataFrame, am_elo: AmElo) -> None:
    flags = {row["annotator"]: row for row in am_elo.flags().to_dicts()}
    assert flags.keys() == {"flip 24", "flip 25", "left 26"}
    assert (flags["left 26"]["reason"], flags["left 26"]["about"]) == ("side", "left")
    assert (flags["flip 24"]["reason"], flags["flip 24"]["about"]) == ("coin", None)
    assert all(row["strength"] >= 2 and row["standing"] == "flagged" for row in flags.values())
    by_ability = {row["annotator"]: row for row in AmElo(flag_rule="threshold").fit(votes).flags().to_dicts()}
    assert {"flip 24", "flip 25"} <= by_ability.keys()
    assert {(row["reason"], row["strength"], row["about"]) for row in by_ability.values()} == {("ability", None, None)}


def test_a_flag_names_the_model_that_was_favoured(votes: pl.DataFrame) -> None:
    fan = votes.filter(pl.col("annotator") == "honest 1").with_columns(
        annotator=pl.lit("fan"),
        winner=pl.when(pl.col("model_a") == "model 5").then(pl.lit("model_a"))
        .when(pl.col("model_b") == "model 5").then(pl.lit("model_b")).otherwise("winner"),
    )  # fmt: skip
    flags = AmElo().fit(pl.concat([votes, fan])).flags()
    row = flags.row(by_predicate=pl.col("annotator") == "fan", named=True)
    assert (row["reason"], row["about"]) == ("favour", "model 5")


def test_flagged_annotators_can_be_left_out(votes: pl.DataFrame, am_elo: AmElo) -> None:
    excluding = AmElo(exclude=True).fit(votes)
    assert set(excluding.flags()["standing"]) == {"excluded"}
    assert excluding.leaderboard["votes"].sum() == am_elo.leaderboard["votes"].sum() - 2 * 3 * 120
    annotators = excluding.annotators
    assert annotators.filter(pl.col("standing") == "excluded")["ability"].null_count() == 3
    assert annotators["ability"].drop_nulls().is_sorted(descending=True)


@pytest.mark.parametrize("estimator", [AmElo(), BradleyTerry(), Elo(shuffles=5)])
def test_a_chart_is_vega_lite_with_every_model(votes: pl.DataFrame, estimator: Any) -> None:
    chart = estimator.fit(votes).plot()
    assert json.loads(json.dumps(chart, allow_nan=False)) == chart
    svg = vl_convert.vegalite_to_svg(chart)
    assert all(f"model {i}</text>" in svg for i in range(6))
    assert "color" not in chart["encoding"]


def test_a_chart_tells_components_apart(votes: pl.DataFrame) -> None:
    apart = pl.concat([votes, votes.with_columns(pl.col("model_a", "model_b") + "'")])
    assert BradleyTerry().fit(apart).plot()["encoding"]["color"]["field"] == "component"


@pytest.mark.parametrize("name", ["v.csv", "v.csv.gz", "v.csv.zst", "v.jsonl", "v.jsonl.gz", "v.parquet"])
def test_files_are_read_as_they_are(votes: pl.DataFrame, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    numbered = votes.with_columns(annotator=pl.col("annotator").str.extract(r"(\d+)$").str.zfill(3))
    if ".csv" in name:
        numbered.write_csv(path, compression={".gz": "gzip", ".zst": "zstd"}.get(path.suffix, "uncompressed"))
    elif ".jsonl" in name:
        numbered.write_ndjson(path, compression="gzip" if path.suffix == ".gz" else "uncompressed")
    else:
        numbered.write_parquet(path)
    assert read_votes(path).equals(numbered)
    assert read_votes(str(path)).equals(numbered)


@pytest.mark.parametrize(
    ("name", "content"), [("v.xlsx", b""), ("v.csv", b""), ("v.jsonl", b"{"), ("v.parquet", b"annotator")]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(VotesError, check=naming(path)):
        read_votes(path)
    with pytest.raises(FileNotFoundError):
        read_votes(tmp_path / "none.csv")


def test_whether_the_votes_are_enough(votes: pl.DataFrame, am_elo: AmElo) -> None:
    board = am_elo.leaderboard
    strict = AmElo(confidence=0.999).fit(votes)
    found = {k: strict.decided(k) for k in range(1, len(board))}
    assert {"decided", "not-yet"} <= {one.verdict for one in found.values()}
    asked = [k for k, one in found.items() if one.verdict == "not-yet"]
    assert any(am_elo.decided(k).verdict == "decided" for k in asked), "less confidence needs fewer votes"
    for k, one in found.items():
        assert one.models["model"].to_list() == board["model"].to_list()
        assert one.models["p_top_k"].sum() == pytest.approx(k)
        assert (one.more_votes == (0.0, 0.0, 0.0)) is (one.verdict != "not-yet")
    assert am_elo.decided(3, margin=1000.0).verdict in {"decided", "equal"}
    assert BradleyTerry().fit(votes).decided().models.height == len(board)
    for k in (0, len(board), 51):
        with pytest.raises(SettingError, check=having(name="k")):
            am_elo.decided(k)
    with pytest.raises(SettingError, check=having(name="margin")):
        am_elo.decided(margin=-1.0)
    with pytest.raises(ValueError, match="needs intervals"):
        AmElo(interval="none").fit(votes).decided()
    with pytest.raises(SettingError, check=having(name="confidence")):
        VerdictRule(confidence=1.0)
