import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import LinAlgError
from scipy.optimize import minimize
from scipy.special import expit

from app.rating.errors import (
    NoCommonRankingError,
    NoFiniteMaximumError,
    NotConvergedError,
    SaddlePointError,
)
from app.rating.plain import joint
from app.rating.plain.joint import fit_joint
from app.rating.simulation.worlds import SimulatedVotes, simulate_votes
from app.rating.votes.cells import Cells, aggregate

MakeCells = Callable[[SimulatedVotes], Cells]
CROWD: Any = {"honest": 10, "random": 2, "flip": 2}


def textbook(votes: SimulatedVotes, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Maximise the likelihood vote by vote with a general-purpose optimiser, the mean ability kept at 1."""
    models = votes.sizes["n_models"]

    def objective(z: np.ndarray) -> tuple[float, np.ndarray]:
        R, theta = z[:models], z[models:]
        d = R[votes.model_a] - R[votes.model_b]
        x = theta[votes.annotator] * d
        residual = votes.outcome - expit(x)
        gradient = np.zeros_like(z)
        np.add.at(gradient, votes.model_a, -residual * theta[votes.annotator])
        np.add.at(gradient, votes.model_b, residual * theta[votes.annotator])
        np.add.at(gradient, models + votes.annotator, -residual * d)
        return float(np.sum(np.logaddexp(0, x) - votes.outcome * x)), gradient

    constraint = {"type": "eq", "fun": lambda z: z[models:].mean() - 1.0}
    options = {"maxiter": 2000, "ftol": 1e-15}
    found = minimize(objective, start, jac=True, method="SLSQP", constraints=[constraint], options=options)
    R, theta = found.x[:models], found.x[models:]
    return R - R.mean(), theta, float(found.fun)


@given(st.integers(0, 10**6))
@settings(max_examples=4)
def test_it_agrees_with_a_general_optimiser_on_the_textbook_likelihood(seed: int) -> None:
    votes = simulate_votes(seed, n_models=6, roles=CROWD, votes_each=60)
    cells = aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)
    fit = fit_joint(cells)
    near = np.concatenate([fit.R, fit.theta]) + np.random.default_rng(seed).normal(0, 0.05, 20)
    R, theta, value = textbook(votes, near)
    assert -fit.log_likelihood <= value + 1e-6
    np.testing.assert_allclose(fit.R, R, atol=5e-4)
    np.testing.assert_allclose(fit.theta, theta, atol=5e-4)


def test_data_built_from_a_known_optimum_returns_it() -> None:
    """Expected votes of known (R, θ) have their likelihood maximum there."""
    generator = np.random.default_rng(2)
    R = np.array([1.0, 0.3, -0.2, -1.1])
    theta = np.array([0.5, 1.0, 1.4, -0.3])
    annotator, a, b = (x.ravel() for x in np.meshgrid(range(4), range(4), range(4), indexing="ij"))
    keep = a < b
    annotator, a, b = annotator[keep], a[keep], b[keep]
    n = generator.uniform(10, 20, len(a))
    s = n / (1 + np.exp(-theta[annotator] * (R[a] - R[b])))
    cells = Cells(*(x.astype(np.int32) for x in (annotator, a, b)), n, s, np.zeros(len(a)), 4, 4)
    fit = fit_joint(cells)
    R_paper, theta_paper = fit.R * fit.theta.sum(), fit.theta / fit.theta.sum()
    np.testing.assert_allclose(theta_paper, theta / theta.sum(), atol=1e-9)
    np.testing.assert_allclose(R_paper, (R - R.mean()) * theta.sum(), atol=1e-9)


def test_weight_two_is_every_vote_twice(cells_of: MakeCells) -> None:
    votes = simulate_votes(1, n_models=6, roles=CROWD)
    twice = {name: np.tile(getattr(votes, name), 2) for name in ("annotator", "model_a", "model_b", "outcome")}
    doubled = aggregate(**twice, **votes.sizes)
    weighted = aggregate(
        votes.annotator,
        votes.model_a,
        votes.model_b,
        votes.outcome,
        weight=np.full(len(votes.outcome), 2.0),
        **votes.sizes,
    )
    left, right = fit_joint(doubled), fit_joint(weighted)
    np.testing.assert_array_equal(left.R, right.R)
    assert left.log_likelihood == right.log_likelihood


def test_relabelling_relabels_the_result(cells_of: MakeCells) -> None:
    votes = simulate_votes(4, n_models=7, roles=CROWD)
    generator = np.random.default_rng(0)
    models, annotators = generator.permutation(7), generator.permutation(14)
    relabelled = aggregate(
        annotators[votes.annotator], models[votes.model_a], models[votes.model_b], votes.outcome, **votes.sizes
    )
    cells = cells_of(votes)
    one, other = fit_joint(cells), fit_joint(relabelled)
    np.testing.assert_allclose(other.R[models], one.R, atol=1e-9)
    np.testing.assert_allclose(other.theta[annotators], one.theta, atol=1e-9)


def test_a_warm_start_ends_where_a_cold_one_does(cells_of: MakeCells) -> None:
    cells = cells_of(simulate_votes(6, n_models=10, roles=CROWD))
    cold = fit_joint(cells)
    generator = np.random.default_rng(3)
    start = (cold.R + generator.normal(0, 0.1, 10), cold.theta + generator.normal(0, 0.05, 14))
    warm = fit_joint(cells, start=start)
    np.testing.assert_allclose(warm.R, cold.R, atol=1e-8)
    np.testing.assert_allclose(warm.theta, cold.theta, atol=1e-8)


def test_plain_names_annotators_without_a_finite_ability() -> None:
    """Annotator 1 always follows the ranking; annotators 0 and 2 disagree enough to make one."""
    votes = simulate_votes(8, n_models=4, roles={"honest": 6}, votes_each=80)
    order = np.argsort(-votes.world.score)
    best, worst = order[0], order[-1]
    annotator = np.append(votes.annotator, np.full(5, 6))
    cells = aggregate(
        annotator,
        np.append(votes.model_a, np.full(5, best)),
        np.append(votes.model_b, np.full(5, worst)),
        np.append(votes.outcome, np.ones(5)),
        n_annotators=7,
        n_models=4,
    )
    with pytest.raises(NoFiniteMaximumError, match="every vote of 1 annotator") as caught:
        fit_joint(cells)
    assert caught.value.annotators.tolist() == [6]


def test_plain_abilities_that_nothing_measures_are_named() -> None:
    """Two of three annotators toss coins: in units of theirs, the ability of the third lies at infinity."""
    cells = aggregate(
        np.repeat([0, 1, 2], [4, 4, 4]), np.zeros(12, int), np.ones(12, int),
        np.array([1, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0.5, 0.5]), n_annotators=3, n_models=2,
    )  # fmt: skip
    with pytest.raises(NoFiniteMaximumError, match="abilities of 1 annotator exceed") as caught:
        fit_joint(cells)
    assert caught.value.annotators.tolist() == [1]


def test_errors_survive_the_way_back_from_another_process() -> None:
    for error in (
        NoFiniteMaximumError(np.array([3, 5]), "follow"),
        NoFiniteMaximumError(np.array([3, 5]), "outgrow"),
        NoFiniteMaximumError(np.arange(12), "follow", tuple("abcdefghijkl")),
        NotConvergedError("stopped", np.zeros(2), np.ones(3)),
        SaddlePointError(np.zeros(2), np.ones(3), np.array([1.0, -1.0])),
    ):
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes
        assert type(copy) is type(error)
        assert str(copy) == str(error)
        for name, value in vars(error).items():
            np.testing.assert_array_equal(getattr(copy, name), value)


def test_the_first_ten_annotators_without_a_finite_ability_are_named() -> None:
    error = NoFiniteMaximumError(np.arange(12), "follow", tuple("abcdefghijkl"))
    assert str(error).endswith(": a, b, c, d, e, f, g, h, i, j and 2 more")
    assert str(NoFiniteMaximumError(np.arange(2), "follow", ("a", "b"))).endswith(": a, b")


def test_two_camps_of_equal_size_have_no_common_ranking(cells_of: MakeCells) -> None:
    votes = simulate_votes(1, n_models=6, roles={"honest": 2, "flip": 2}, votes_each=300, ability_sd=0.0)
    with pytest.raises(NoCommonRankingError, match="no common ranking"):
        fit_joint(cells_of(votes))


def test_groups_that_no_vote_links_have_a_unit_each() -> None:
    """The likelihood is a product over groups, and so is its maximum."""
    one, other = (simulate_votes(seed, n_models=4, roles={"honest": 12}) for seed in (1, 2))
    columns = [np.concatenate([getattr(one, x), getattr(other, x) + by]) for x, by in
               (("annotator", 12), ("model_a", 4), ("model_b", 4))]  # fmt: skip
    both = fit_joint(aggregate(*columns, np.append(one.outcome, other.outcome), n_annotators=24, n_models=8))
    for place, votes in enumerate((one, other)):
        cells = aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)
        alone = fit_joint(cells)
        np.testing.assert_allclose(both.R[4 * place :][:4], alone.R, atol=1e-8)
        np.testing.assert_allclose(both.theta[12 * place :][:12], alone.theta, atol=1e-8)
        assert both.theta[12 * place :][:12].mean() == pytest.approx(1.0)


def opposed(more: int = 0) -> Cells:
    """Annotators 0 and 1 contradict each other on models 0 and 1; nothing but `more` votes says who is the better."""
    pairs = {(0, 0, 1): 9, (0, 1, 0): 3, (1, 1, 0): 9, (1, 0, 1): 3, (0, 2, 3): 7 + more}
    for k in range(6):
        pairs |= {(k, 2, 3): pairs.get((k, 2, 3), 7), (k, 3, 2): 3}
    for k in range(2, 6):
        pairs |= {(k, a, b): 5 for a, b in ((0, 2), (2, 0), (1, 2), (2, 1))}
    rows = [(*key, 1.0) for key, times in pairs.items() for _ in range(times)]
    return aggregate(*(np.array(x) for x in zip(*rows, strict=True)), n_annotators=6, n_models=4)


def test_votes_that_two_maxima_explain_as_well_decide_nothing() -> None:
    with pytest.raises(SaddlePointError):
        fit_joint(opposed())


def test_of_two_maxima_beside_a_saddle_the_higher_is_the_fit() -> None:
    fit = fit_joint(opposed(more=2))
    assert fit.theta[0] > 1.0 > fit.theta[1]
    assert fit.R[0] > fit.R[1]


@pytest.mark.parametrize(("limit", "value"), [("MOST_ITERATIONS", 1), ("MOST_HALVINGS", 0)])
def test_a_search_that_ends_nowhere_is_no_result(
    cells_of: MakeCells, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(joint, limit, value)
    with pytest.raises(NotConvergedError, match="no maximum is near"):
        fit_joint(cells_of(simulate_votes(6, n_models=10, roles=CROWD)))


def test_a_singular_information_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise LinAlgError

    monkeypatch.setattr(joint, "cho_factor", refuse)  # of Fisher's information, beside a saddle
    with pytest.raises(NotConvergedError, match="singular"):
        fit_joint(opposed())
