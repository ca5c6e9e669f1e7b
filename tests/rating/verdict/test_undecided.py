"""Tiny crowds, and annotators who contradict each other: every fit has a result or a specific error."""

import numpy as np
import pytest

from app.rating.errors import (
    NoCommonRankingError,
    NoFiniteMaximumError,
    NotConvergedError,
)
from app.rating.plain import joint
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import Role, simulate_votes
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate

ALL = LoopSettings(min_votes=0)
PLAIN = LoopSettings(min_votes=0, prior_sd=None, interval="none")


def opposed() -> Cells:
    """Two annotators who say the opposite of each other about two models."""
    annotator, outcome = np.repeat([0, 1], 10), np.repeat([1.0, 0.0], 10)
    zero, one = np.zeros(20, dtype=int), np.ones(20, dtype=int)
    return aggregate(annotator, zero, one, outcome, n_annotators=2, n_models=2)


def crowd() -> Cells:
    votes = simulate_votes(8, n_models=6, roles={"honest": 28}, votes_each=51)
    return aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)


def test_two_opposed_annotators_make_the_models_equals() -> None:
    rating = run_round(opposed(), ALL)
    np.testing.assert_allclose(rating.models.score, 1000.0)
    assert np.isfinite(rating.models.se).all()


def test_maximum_likelihood_says_that_it_has_no_answer() -> None:
    with pytest.raises(NoFiniteMaximumError):
        run_round(opposed(), PLAIN)


def test_maximum_likelihood_that_does_not_converge_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "MOST_ITERATIONS", 1)
    with pytest.raises(NotConvergedError, match="no maximum is near after 1 iterations"):
        run_round(crowd(), PLAIN)


def test_annotators_without_a_finite_ability_are_named_by_their_own_indices() -> None:
    """Annotator 0 has no vote, and annotator 29 always follows the ranking."""
    cells = crowd()
    score = run_round(cells, ALL).models.score
    a, b = sorted((int(score.argmax()), int(score.argmin())))
    more = [[29], [a], [b], [5.0], [5.0 if a == score.argmax() else 0.0], [0.0]]
    columns = [cells.annotator + 1, cells.model_a, cells.model_b, cells.n, cells.s, cells.ties]
    joined = [np.append(one, other).astype(one.dtype) for one, other in zip(columns, more, strict=True)]
    with pytest.raises(NoFiniteMaximumError) as caught:
        run_round(Cells(*joined, 30, 6), PLAIN)
    assert caught.value.annotators.tolist() == [29]


def tiny_world(seed: int) -> Cells:
    """A few annotators of every kind, with few votes."""
    generator = np.random.default_rng(seed)
    roles: dict[Role, int] = {"honest": int(generator.integers(2, 10))}
    if generator.random() < 0.5:
        roles |= {role: 1 for role in ("random", "flip", "equal", "clique") if generator.random() < 0.5}  # type: ignore[misc]  # all four are roles
    votes = simulate_votes(
        seed,
        n_models=int(generator.integers(2, 21)),
        roles=roles,
        votes_each=int(generator.integers(1, 31)),
        score_sd=float(generator.choice([0, 50, 140, 400])),
        tie_share=float(generator.choice([0, 0.35])),
    )
    return aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)


@pytest.mark.parametrize("worlds", [10, pytest.param(100, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("settings", [ALL, PLAIN], ids=["default", "plain"])
def test_every_tiny_world_ends_well(settings: LoopSettings, worlds: int) -> None:
    ended = 0
    for seed in range(worlds):
        try:
            rating = run_round(tiny_world(seed), settings)
        except (NoCommonRankingError, NoFiniteMaximumError):
            continue
        except NotConvergedError:
            assert settings is PLAIN  # its maximum may lie at infinity in more than one way
            continue
        known = rating.models.identified
        assert np.isfinite(rating.models.score[known]).all()
        assert np.isnan(rating.models.score[~known]).all()
        assert not np.isinf(rating.annotators.ability).any()
        ended += 1
    assert ended >= worlds * (0.2 if settings is PLAIN else 0.8)
