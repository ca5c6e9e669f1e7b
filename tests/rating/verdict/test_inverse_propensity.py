"""Votes weighted by the inverse of their propensities."""

from dataclasses import replace

import numpy as np
import pytest

from app.rating.arrays import Floats
from app.rating.errors import RatingWarning, VotesError
from app.rating.votes.indexed import IndexedVotes
from stable_arena import AmElo, BradleyTerry

ANNOTATORS = 12
WINS = {("a", "b"): 0.75, ("b", "c"): 0.75, ("a", "c"): 0.5}
"""Not transitive: no scores explain all three."""


def votes(number: dict[tuple[str, str], int], *, told: bool = True) -> dict[str, list[object]]:
    """Return so many votes of each annotator on each pair, with the win rates above, and the pairs' propensities."""
    columns: dict[str, list[object]] = {
        name: [] for name in ("annotator", "model_a", "model_b", "winner", "propensity")
    }
    for k in range(ANNOTATORS):
        for pair, n in number.items():
            for i in range(n):
                won = i < n * WINS[pair]
                row = (f"k{k}", *pair, "model_a" if won else "model_b", n / sum(number.values()))
                for column, value in zip(columns.values(), row, strict=True):
                    column.append(value)
    if not told:
        del columns["propensity"]
    return columns


UNIFORM = votes(dict.fromkeys(WINS, 16))
CHOSEN = votes({("a", "b"): 32, ("b", "c"): 8, ("a", "c"): 8})


@pytest.mark.parametrize("estimator", [BradleyTerry(), AmElo(min_votes=0, flag_rule="threshold")])
def test_the_scores_are_those_of_uniform_pairs(estimator: BradleyTerry | AmElo) -> None:
    uniform, chosen, weighted = (
        fit.leaderboard.sort("model")
        for fit in (
            replace(estimator).fit(UNIFORM),
            replace(estimator).fit(CHOSEN),
            replace(estimator, inverse_propensity=True).fit(CHOSEN),
        )
    )
    assert np.abs(chosen["score"] - uniform["score"]).max() > 20.0
    np.testing.assert_allclose(weighted["score"], uniform["score"], atol=1e-6)
    assert weighted["votes"].sum() == pytest.approx(uniform["votes"].sum())  # of annotators as many as they cast


def test_where_pairs_are_uniform_nothing_changes() -> None:
    plain, weighted = (AmElo(min_votes=0, inverse_propensity=it).fit(UNIFORM).leaderboard for it in (False, True))
    for column in ("score", "lower", "upper"):
        np.testing.assert_allclose(weighted[column], plain[column], atol=1e-6)


def test_intervals_widen_by_what_the_weights_cost() -> None:
    """Where Bradley-Terry is right, weights only cost: the error grows as the effective votes say."""
    generator = np.random.default_rng(2)
    n = 30_000
    annotator, first = generator.integers(0, 300, n), generator.random(n) < 0.9
    pair = np.where(first, 0, 1 + generator.integers(0, 2, n))
    model_a, model_b = np.array([0, 1, 0])[pair], np.array([1, 2, 2])[pair]
    R = np.array([0.4, 0.0, -0.4])
    won = generator.random(n) < 1.0 / (1.0 + np.exp(R[model_b] - R[model_a]))
    table = {
        "annotator": annotator, "model_a": model_a, "model_b": model_b, "winner": won.astype(float),
        "propensity": np.array([0.9, 0.05, 0.05])[pair],
    }  # fmt: skip
    plain = BradleyTerry().fit(table)
    with pytest.warns(RatingWarning, match=r"as much as \d+ % of them with equal weights .uneven-propensities"):
        weighted = BradleyTerry(inverse_propensity=True).fit(table)
    boards = (fit.leaderboard.sort("model") for fit in (plain, weighted))
    one, other = ({name: board[name].to_numpy() for name in ("score", "se", "lower", "upper")} for board in boards)
    np.testing.assert_allclose(other["score"], one["score"], atol=25.0)
    assert (other["se"][:2] > 1.1 * one["se"][:2]).all()
    truth = 1000.0 + 400.0 / np.log(10.0) * R
    assert ((other["lower"] < truth) & (truth < other["upper"])).all()


def weights(annotator: list[int], propensity: list[float]) -> Floats:
    k, one = np.array(annotator, dtype=np.int32), np.ones(len(annotator), dtype=np.int32)
    return IndexedVotes(
        list("xyz"), list("ab"), k, one, 1 - one, 1.0 * one, propensity=np.array(propensity)
    ).choice_weights()


def test_weights() -> None:
    found = weights([0, 0, 1, 1, 1], [0.5, 0.25, 0.1, 0.1, 0.1])
    np.testing.assert_allclose(found, [2 / 3, 4 / 3, 1, 1, 1])


@pytest.mark.parametrize("wrong", [0.0, -0.1, 1.5, np.nan, np.inf])
def test_a_propensity_is_a_probability(wrong: float) -> None:
    with pytest.raises(VotesError, match=r"2 of 3 have none, or another \(row 1\)"):
        weights([0, 0, 0], [0.5, wrong, wrong])


def test_what_is_refused() -> None:
    with pytest.raises(VotesError, match="need the column propensity"):
        BradleyTerry(inverse_propensity=True).fit(votes(dict.fromkeys(WINS, 4), told=False))
    with pytest.raises(VotesError, match="have weights"):
        BradleyTerry(inverse_propensity=True).fit({**UNIFORM, "weight": np.ones(len(UNIFORM["winner"]))})
    with pytest.raises(ValueError, match="interval clustered or none, not sandwich"):
        BradleyTerry(inverse_propensity=True, interval="sandwich").fit(UNIFORM)
    pooled = {name: column for name, column in UNIFORM.items() if name != "annotator"}
    with pytest.raises(ValueError, match="not sandwich"):
        BradleyTerry(inverse_propensity=True).fit(pooled)
    with pytest.raises(VotesError, match="two annotators"):
        AmElo(inverse_propensity=True, min_votes=0).fit({**UNIFORM, "annotator": ["k"] * len(UNIFORM["winner"])})
    without = BradleyTerry(inverse_propensity=True, interval="none").fit(pooled)
    assert without.leaderboard["score"].is_finite().all()
