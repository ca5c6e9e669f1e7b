"""How votes come beside what is predicted of them."""

from dataclasses import replace

import numpy as np
import pytest

from app.rating.settings import EVIDENCE_TESTS, LoopSettings
from app.rating.simulation.worlds import Role, simulate_votes
from app.rating.types.evidence import Weigher
from app.rating.verdict.calibration import FEWEST, PUSHED, calibrate
from app.rating.verdict.rating import Rating
from app.rating.verdict.round import run_round
from app.rating.votes.cells import aggregate
from app.rating.votes.features import SidedCells

SETTINGS = LoopSettings(min_votes=0)
MIXED: dict[Role, int] = {"honest": 40, "random": 5, "flip": 5, "equal": 3}


def rate(seed: int, roles: dict[Role, int], settings: LoopSettings = SETTINGS, votes_each: int = 150) -> Rating:
    votes = simulate_votes(seed, n_models=12, roles=roles, votes_each=votes_each)
    columns = votes.annotator, votes.model_a, votes.model_b, votes.outcome
    weigher = Weigher(SidedCells.of_votes(*columns, **votes.sizes), EVIDENCE_TESTS)
    return run_round(aggregate(*columns, **votes.sizes), settings, weigher=weigher)


@pytest.mark.parametrize("roles", [{"honest": 60}, MIXED], ids=["honest", "mixed"])
def test_a_calibrated_arena_lies_inside_the_band(roles: dict[Role, int]) -> None:
    """Voters of different abilities, coins and contrary ones among them: each is predicted by the own ability."""
    for seed in range(4):
        rating = rate(seed, roles)
        bins = calibrate(rating)
        outside = [one for one in bins if not one.lower <= one.observed <= one.upper]
        assert len(bins) >= 8
        assert outside == []
        predicted, observed, votes = (np.array([getattr(one, name) for one in bins]) for name in
                                      ("predicted", "observed", "votes"))  # fmt: skip
        assert (np.diff(predicted) > 0).all()
        assert votes @ np.abs(predicted - observed) / votes.sum() < 0.04
        cells = rating.cells
        pushed = 0.0 if cells.trust is None else (cells.n - cells.ties)[cells.trust < PUSHED].sum()
        assert votes.sum() + pushed == (cells.n - cells.ties).sum(), "every decided vote is in one, or pushes a model"
        assert min(votes) >= FEWEST


def test_scores_that_promise_too_much_lie_outside() -> None:
    rating = rate(1, {"honest": 60})
    bold = replace(rating, fit=replace(rating.fit, R=1.5 * rating.fit.R))
    bins = calibrate(bold)
    below = [one for one in bins if one.observed < one.lower]
    assert len(below) >= len(bins) / 2
    assert not [one for one in bins if one.observed > one.upper]


def test_no_vote_predicts_itself() -> None:
    """Five votes each: predicted with the vote itself, the sure predictions would come true too often."""
    bins = calibrate(rate(0, {"honest": 400}, votes_each=5))
    surest = bins[-3:]
    assert all(one.lower <= one.observed <= one.upper for one in surest)
    assert sum(one.votes * (one.observed - one.predicted) for one in surest) / sum(one.votes for one in surest) < 0.02


def test_without_abilities_or_errors_nothing_is_predicted() -> None:
    assert calibrate(rate(0, {"honest": 30}, replace(SETTINGS, interval="none"))) == ()
    assert calibrate(rate(0, {"honest": 30}, replace(SETTINGS, method="m-elo", flag_rule="threshold"))) == ()
