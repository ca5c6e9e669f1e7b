"""Copies of one annotator are found, and honest annotators are not taken for copies."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from app.rating.arrays import Floats, Indices
from app.rating.model import copies
from app.rating.model.copies import Answers, Copies, find_copies
from app.rating.model.covariance import find_covariance
from app.rating.model.scores import fit_scores
from app.rating.model.start import fit_bradley_terry
from app.rating.settings import LoopSettings
from app.rating.verdict.rating import estimate
from app.rating.votes.cells import Cells, aggregate, pool_annotators
from tests.rating.model.crowds import draw


class Crowd:
    """Votes of a crowd on random battles, or all on the same ones; the first few may be copies of annotator 0.

    Parameters
    ----------
    spread : R is evenly from −spread to spread
    common : standard deviation of what all see alike in the answers of a battle
    slips : share of the votes in which a copy says something else
    """

    def __init__(
        self, annotators: int, each: int, models: int = 10, *, ability: float | None = None, spread: float = 1.2,
        same: bool = False, common: float = 0.0, taste: float = 0.0, many: int = 1, slips: float = 0.03, seed: int = 0,
    ) -> None:  # fmt: skip
        generator = np.random.default_rng(seed)
        size, k = annotators * each, np.repeat(np.arange(annotators), each)
        able = np.exp(generator.normal(0.0, 0.3, annotators)) if ability is None else np.full(annotators, ability)
        R = np.linspace(-spread, spread, models) + taste * generator.normal(size=(annotators, models))
        battle = np.tile(np.arange(each), annotators) if same else np.arange(size)
        a, b = generator.integers(0, models, size), generator.integers(1, models, size)
        a, b = a[battle], ((a + b) % models)[battle]
        p = expit(able[k] * (R[k, a] - R[k, b] + common * generator.normal(size=size)[battle]))
        tie, u = p * (1.0 - p), generator.random(size)
        W = np.where(u < p - tie / 2.0, 1.0, np.where(u < p + tie / 2.0, 0.5, 0.0))
        for copy in range(1, many):
            mine, slip = slice(copy * each, (copy + 1) * each), generator.random(each) < slips
            a[mine], b[mine], battle[mine] = a[:each], b[:each], battle[:each]
            W[mine] = np.where(slip, generator.choice([0.0, 0.5, 1.0], each), W[:each])
        self.k, self.a, self.b, self.W, self.battle, self.models = k, a, b, W, battle, models

    def cells(self, W: Floats | None = None) -> Cells:
        """Return the votes as cells, by default as they were cast."""
        outcome = self.W if W is None else W
        size = {"n_annotators": int(self.k.max()) + 1, "n_models": self.models}
        return aggregate(self.k, self.a, self.b, outcome, **size)


def find(cells: Cells, battle: Indices | None = None) -> Copies:
    return find_copies(Answers.of(cells, fit_bradley_terry(pool_annotators(cells)), battle))


@pytest.mark.parametrize(
    "crowd",
    [
        Crowd(42, 200, many=5), Crowd(42, 100, 20, many=5), Crowd(8, 200, many=5, same=True),
        Crowd(8, 500, many=5, same=True, common=1.0), Crowd(5, 500, many=5, same=True),
    ],
    ids=["of a crowd", "with 100 votes", "a judge five times", "beside judges of the same answers", "no others"],
)  # fmt: skip
def test_five_copies_are_one_group(crowd: Crowd) -> None:
    found = find(crowd.cells())
    assert (found.groups, found.annotators) == (1, 5)
    assert len(set(found.cluster[:5].tolist())) == 1
    assert len(set(found.cluster.tolist())) == crowd.k.max() - 3


def test_copies_are_found_among_more_annotators_than_are_compared_with_each() -> None:
    assert find(Crowd(copies.ALL_PAIRS + 50, 300, 30, many=5).cells()).annotators >= 4


def half_of(vote: Callable[[Crowd], Floats]) -> Cells:
    """Return the votes of a crowd on the same battles, of which the second half vote otherwise."""
    crowd = Crowd(30, 150, same=True)
    return crowd.cells(np.where(crowd.k < 15, crowd.W, vote(crowd)))


HONEST = {
    "a crowd": Crowd(42, 100).cells(),
    "many votes": Crowd(20, 2000, 6).cells(),
    "two models": Crowd(20, 300, 2).cells(),
    "few annotators": Crowd(3, 1000, 5).cells(),
    "able ones on easy pairs": Crowd(60, 200, spread=3.0, ability=2.0).cells(),
    "able ones on the same easy battles": Crowd(60, 60, 6, spread=3.0, ability=2.0, same=True).cells(),
    "the same battles": Crowd(12, 500, same=True).cells(),
    "the same answers": Crowd(12, 500, same=True, common=1.0).cells(),
    "tastes": Crowd(42, 200, taste=0.4).cells(),
    "coins": Crowd(42, 200, ability=0.0).cells(),
    "equal models": Crowd(42, 200, spread=0.0).cells(),
    "followers": half_of(lambda crowd: (crowd.a > crowd.b).astype(np.float64)),
    "always a tie": half_of(lambda crowd: np.full(len(crowd.W), 0.5)),
    "more than are compared with each": Crowd(400, 100, 6).cells(),
}


@pytest.mark.parametrize("world", HONEST)
def test_honest_annotators_are_no_copies(world: str) -> None:
    assert find(HONEST[world]).groups == 0


def test_battles_tell_copies_that_pairs_of_models_do_not() -> None:
    """Three models: on three pairs two sums are often alike, on 300 battles 300 votes are not."""
    crowd = Crowd(12, 300, 3, many=5, same=True)
    ordered = np.lexsort((crowd.battle, crowd.k))
    low, high = np.minimum(crowd.a, crowd.b), np.maximum(crowd.a, crowd.b)
    W = np.where(crowd.a < crowd.b, crowd.W, 1.0 - crowd.W)
    columns = (x[ordered] for x in (crowd.k, low, high, np.ones(len(W)), W, (W == 0.5).astype(float)))
    by_battle = Cells(*columns, n_annotators=12, n_models=3)  # type: ignore[arg-type]  # as they come
    assert find(crowd.cells()).groups == 0
    assert find(by_battle, crowd.battle[ordered]).annotators == 5


def test_annotators_with_few_votes_and_models_without_scores_say_nothing() -> None:
    crowd = Crowd(10, copies.FEWEST - 1, many=5, slips=0.0)
    assert find(crowd.cells()).groups == 0
    cells = Crowd(42, 200, many=5).cells()
    assert find_copies(Answers.of(cells, np.full(10, np.nan))).groups == 0
    assert find_copies(Answers.of(cells.where(np.zeros(len(cells.n), dtype=bool)), np.zeros(10))).groups == 0


def test_copies_of_one_annotator_are_one_cluster() -> None:
    """One of eight judges five times: as five its errors would be a third of what they are."""
    alone = draw(8, 400, models=10).cells
    mine = alone.where(alone.annotator == 0)
    again = [replace(mine, annotator=mine.annotator + 8 + i) for i in range(4)]
    names = ("annotator", "model_a", "model_b", "n", "s", "ties")
    columns = {name: np.concatenate([getattr(each, name) for each in (alone, *again)]) for name in names}
    copied = replace(alone, **columns, n_annotators=12)
    settings = LoopSettings(min_votes=0)
    rating, honest = estimate(copied, settings), estimate(alone, settings)
    assert rating.covariance is not None
    assert rating.covariance.clusters == 8
    assert "copies" in {notice.code for notice in rating.diagnostics.warnings}
    assert np.median(rating.models.se) > 0.8 * np.median(honest.models.se)
    fit = fit_scores(copied)
    separate = find_covariance(fit).scores
    assert np.trace(separate) < 0.8 * np.trace(rating.covariance.scores)
