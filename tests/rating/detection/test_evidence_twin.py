"""The evidence's fast sums against the same written plainly: cell by cell, logarithm by logarithm."""

import sys

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from app.rating.detection import mixture
from app.rating.detection.evidence import weigh
from app.rating.detection.favouritism import (
    LAPSE,
    LEAST,
    LOG_SHIFT,
    OPINIONATED,
    SHIFT,
    Favouritism,
    find_favouritism,
    find_groups,
)
from app.rating.detection.mixture import (
    ASSUMED,
    ASSUMED_SPREAD,
    ASSUMED_TIES,
    CONVERGED,
    LEAST_SPREAD,
    MOST_SPREAD,
    ROUNDS,
    START,
)
from app.rating.detection.null_model import (
    ABILITY,
    COIN,
    CONTRARY,
    EQUAL,
    FIRST_HONEST,
    LOG_ABILITY,
    TIE_PROPENSITY,
    UNUSUAL,
    NullModel,
    fit_null_model,
    follow,
)
from app.rating.fit.lean_spread import Spread
from app.rating.settings import EVEN_ODDS, EVIDENCE_TESTS
from app.rating.simulation.worlds import NATURAL_PER_ELO
from app.rating.votes.cells import Cells
from app.rating.votes.sided_cells import SidedCells
from stable_arena_lab.attacks.arena import Setup, draw_arena

WORLDS = {
    "short records": ("mimic", Setup(n_annotators=30, votes_each=40), 1.0),
    "long records": ("mimic", Setup(n_annotators=12, votes_each=2500, n_models=8), 1.0),
    "long records on many pairs": ("mimic", Setup(n_annotators=5, votes_each=1500, n_models=40, share=0.2), 1.0),
    "weighted votes": ("mimic", Setup(n_annotators=25, votes_each=120), 0.3),
    "leaning": ("mimic", Setup(n_annotators=30, votes_each=40), 1.0),
    "scores far from 0": ("mimic", Setup(n_annotators=30, votes_each=40), 1.0),
}


def draw(world: str) -> tuple[Cells, np.ndarray, np.ndarray]:
    """Cells, scores, and the lean in each cell."""
    strategy, setup, weight = WORLDS[world]
    arena = draw_arena(5, strategy, setup)
    c = arena.votes.cells()
    cells = Cells(
        c.annotator, c.model_a, c.model_b, weight * c.n, weight * c.s, weight * c.ties, c.n_annotators, c.n_models
    )
    lean = (world == "leaning") * np.random.default_rng(8).normal(0.0, 0.7, len(c.n))
    return cells, NATURAL_PER_ELO * (arena.public - 1000.0) + 250.0 * (world == "scores far from 0"), lean


def plain_nodes(cells: Cells, R: np.ndarray, lean: np.ndarray) -> np.ndarray:
    """Log-likelihood of each annotator's votes at every node."""
    win, loss = cells.wins_a, cells.wins_b
    y = 0.5 * (ABILITY[None, :, None] * (R[cells.model_a] - R[cells.model_b])[:, None, None] + lean[:, None, None])
    denominator = np.log(np.exp(y) + np.exp(-y) + TIE_PROPENSITY)
    of_cell = (win - loss)[:, None, None] * y + cells.ties[:, None, None] * np.log(TIE_PROPENSITY)
    of_cell = of_cell - cells.n[:, None, None] * denominator
    nodes = np.zeros((cells.n_annotators, *of_cell.shape[1:]))
    np.add.at(nodes, cells.annotator, of_cell)
    return nodes


TIES = Spread(-0.3, 0.8, 1.0)


def plain_crowd(
    cells: Cells,
    R: np.ndarray,
    lean: np.ndarray,
    caution: np.ndarray,
    opinions: np.ndarray,
    doubt: np.ndarray,
) -> tuple[np.ndarray, float, float, np.ndarray]:
    """Log-likelihoods by behaviour, the honest abilities' centre and spread, by the same rounds on logarithms.

    And the probability of a coin or a contrary annotator.
    """
    sure, votes = plain_nodes(cells, R, lean), cells.votes_by_annotator()
    ties = np.bincount(cells.annotator, cells.ties, cells.n_annotators)
    equal = ties * np.log(EQUAL) + (votes - ties) * np.log((1.0 - EQUAL) / 2.0)
    follower = np.bincount(cells.annotator, follow(cells, R), cells.n_annotators)
    without, own = (
        np.nan_to_num(each, nan=unknown)[:, :, None] for each, unknown in zip(opinions, (0.0, -1e300), strict=True)
    )
    by_ties = sure.max(axis=1, keepdims=True) - sure.max(axis=(1, 2), keepdims=True)
    nodes = logsumexp([sure + without, own + by_ties], axis=0)
    nodes[:, :FIRST_HONEST] = sure[:, :FIRST_HONEST]
    nodes = (nodes + doubt[:, :, None]) / caution[:, None, None]
    equal, follower = equal / caution, follower / caution
    size = len(TIE_PROPENSITY)
    log_ties = np.log(TIE_PROPENSITY)
    edges = [-np.inf, *(log_ties[1:] + log_ties[:-1]) / 2.0, np.inf]
    begin = UNUSUAL / size + (1.0 - UNUSUAL) * np.diff(norm.cdf(edges, TIES.mean, TIES.sd))
    centre, spread, crowd, bad, share = 0.0, 0.4, begin, 0.9 * begin + 0.1 / size, START
    settled = False
    for turn in range(ROUNDS + 1):
        prior = -0.5 * ((LOG_ABILITY - centre) / spread) ** 2
        weight = (prior - logsumexp(prior))[:, None] + np.log(crowd)
        honest = logsumexp(nodes[:, FIRST_HONEST:] + weight, axis=(1, 2))
        coin = logsumexp(nodes[:, COIN] + np.log(bad), axis=1)
        contrary = logsumexp(nodes[:, :COIN] + np.log(bad), axis=(1, 2)) - np.log(len(CONTRARY))
        log = np.stack([honest, coin, contrary, equal, follower], axis=1)
        joint = log + np.log(share)
        kind = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        if settled or turn == ROUNDS:
            break
        before, share = (spread, share[1]), (kind.sum(axis=0) + ASSUMED * START) / (len(kind) + ASSUMED)
        mass = np.einsum("k,kij->ij", kind[:, 0], np.exp(nodes[:, FIRST_HONEST:] + weight - honest[:, None, None]))
        of_coins = kind[:, 1] @ np.exp(nodes[:, COIN] + np.log(bad) - coin[:, None])
        opposed = nodes[:, :COIN] + np.log(bad) - np.log(len(CONTRARY)) - contrary[:, None, None]
        of_bad = of_coins + np.einsum("k,kij->j", kind[:, 2], np.exp(opposed))
        by_ability = mass.sum(axis=1) / mass.sum()
        centre = float(by_ability @ LOG_ABILITY)
        squares = mass.sum() * by_ability @ (LOG_ABILITY - centre) ** 2 + ASSUMED * ASSUMED_SPREAD**2
        spread = float(np.clip(np.sqrt(squares / (mass.sum() + ASSUMED)), LEAST_SPREAD, MOST_SPREAD))
        crowd = (mass.sum(axis=0) + ASSUMED_TIES * begin) / (mass.sum() + ASSUMED_TIES)
        bad = (of_bad + ASSUMED * (0.9 * crowd + 0.1 / size)) / (of_bad.sum() + ASSUMED)
        settled = max(abs(spread - before[0]), abs(share[1] - before[1])) < CONVERGED
    return log, centre, spread, kind[:, 1:3].sum(axis=1)


@pytest.mark.parametrize("world", WORLDS)
def test_the_crowd_is_its_plain_twin(world: str) -> None:
    cells, R, lean = draw(world)
    generator = np.random.default_rng(9)
    caution = 1.0 + generator.random(cells.n_annotators)
    doubt = generator.random((cells.n_annotators, len(ABILITY)))
    likeliest = plain_nodes(cells, R, lean).max(axis=2)
    opinions = np.stack([np.full_like(likeliest, np.log(0.4)), likeliest + generator.normal(0.0, 2.0, likeliest.shape)])
    opinions[:, 3] = np.nan
    crowd = fit_null_model(cells, R, lean=lean, caution=caution, opinions=opinions, doubt=doubt, ties=TIES)
    log, centre, spread, low = plain_crowd(cells, R, lean, caution, opinions, doubt)
    np.testing.assert_allclose(crowd.log_likelihood, log, rtol=1e-9, atol=1e-6)
    likely = np.exp(crowd.coin_ratio()) / EVEN_ODDS
    np.testing.assert_allclose(likely / (1.0 + likely), low, rtol=1e-5, atol=1e-9)
    assert np.log(crowd.typical) == pytest.approx(centre, abs=1e-8)
    assert crowd.spread == pytest.approx(spread, abs=1e-8)


def test_a_search_that_is_given_up_is_as_its_plain_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (mixture, sys.modules[__name__]):
        monkeypatch.setattr(module, "ROUNDS", 2)
    test_the_crowd_is_its_plain_twin("short records")


def plain_favouritism(
    cells: Cells, R: np.ndarray, lean: np.ndarray, crowd: NullModel, k: int, model: int
) -> tuple[tuple[float, float], bool]:
    """Log ratios of favour and against for one annotator and one model; whether an own opinion is considered."""
    mine = np.flatnonzero(cells.annotator == k)
    a, b = cells.model_a[mine], cells.model_b[mine]
    win, loss = (side[mine] for side in (cells.wins_a, cells.wins_b))
    tie, v, ability = cells.ties[mine], crowd.tie_propensity[k], ABILITY[FIRST_HONEST:]
    weight = logsumexp(crowd.log_weight, axis=1)

    def honest(keep: np.ndarray, shift: np.ndarray) -> float:
        y = 0.5 * (ability[:, None] * (R[a] - R[b] + shift) + lean[mine])
        total = np.exp(y) + np.exp(-y) + v
        won, tied, lost = ((1.0 - LAPSE) * x / total + LAPSE / 3.0 for x in (np.exp(y), v, np.exp(-y)))
        log = win * np.log(won) + tie * np.log(tied) + loss * np.log(lost)
        return float(logsumexp((log * keep).sum(axis=1) + weight))

    everything, nothing = np.ones(len(mine)), np.zeros(len(mine))
    side = (a == model).astype(float) - (b == model)
    met, plain = side != 0, honest(everything, nothing)
    up, down = np.where(side > 0, win, loss), np.where(side > 0, loss, win)
    always, never = np.log(1.0 - LAPSE + LAPSE / 3.0), np.log(LAPSE / 3.0)
    rest = honest((~met).astype(float), nothing) - plain
    good = rest + (met * (up * always + (tie + down) * never)).sum()
    bad = rest + (met * (down * always + (tie + up) * never)).sum()
    doubted = max(good, bad) > LEAST
    if doubted:
        opinions = [honest(everything, t * side) for t in SHIFT]
        own = float(logsumexp(LOG_SHIFT + opinions)) - plain
        excuse = np.logaddexp(0.0, np.log(OPINIONATED / (1.0 - OPINIONATED)) + own)
        good, bad = good - excuse, bad - excuse
    return (good, bad), doubted


@pytest.mark.parametrize("world", WORLDS)
def test_favouritism_is_its_plain_twin(world: str) -> None:
    cells, R, lean = draw(world)
    crowd, caution = fit_null_model(cells, R, lean=lean), 1.0 + np.arange(cells.n_annotators) / 9.0
    found = find_favouritism(cells, R, crowd, lean, caution)
    any_doubted = False
    for k in (0, cells.n_annotators - 1):  # an honest annotator and an attacker
        mine = found.annotator == k
        met = np.concatenate([side[cells.annotator == k] for side in (cells.model_a, cells.model_b)])
        np.testing.assert_array_equal(np.sort(found.model[mine]), np.unique(met))
        for model, ratios in zip(found.model[mine], found.likelihood[:, mine].T, strict=True):
            expected, doubted = plain_favouritism(cells, R, lean, crowd, k, int(model))
            assert ratios * caution[k] == pytest.approx(expected, rel=1e-7, abs=1e-6)
            any_doubted |= doubted
    assert any_doubted, "no own opinion was considered"


def test_groups_are_found_together_and_one_annotator_alone_is_not() -> None:
    """The same ratio of 150 for each: of four who push one model, and of one who buries another."""
    model, likelihood = np.repeat(np.arange(20), 42), np.full((2, 20 * 42), -3.0)
    likelihood[0, :4], likelihood[1, -1] = np.log(150.0), np.log(150.0)
    pushes, buries = find_groups(model, likelihood, 20)
    assert (pushes[:4] > 0.8).all()
    assert pushes[4:].max() < 0.01
    assert buries.max() < 0.05, "alone it needs 8,000"


def test_a_group_has_to_be_likelier_than_nobody() -> None:
    """With a thousand models three judges of some have ratios of 60 by chance; those of 20,000 are a group."""
    model = np.repeat(np.arange(1000), 42)
    for ratio, least, most in ((60.0, 0.0, 0.01), (20_000.0, 0.9, 1.0)):
        likelihood = np.full((2, len(model)), -3.0)
        likelihood[1, 42:45] = np.log(ratio)
        pushes, buries = find_groups(model, likelihood, 1000)
        assert pushes.max() < 0.01
        assert ((buries[42:45] >= least) & (buries[42:45] <= most)).all()
        assert np.delete(buries, [42, 43, 44]).max() < 0.01


def test_the_strongest_row_of_every_annotator() -> None:
    posterior = np.array([[0.5, 0.9, 0.01], [0.0, 0.0, 0.0]])
    found = Favouritism(np.array([0, 0, 2]), np.array([4, 1, 4]), np.zeros((2, 3)), posterior)
    ratio, about = found.strongest(0, 4)
    assert about.tolist() == [1, -1, 4, -1]
    assert np.exp(ratio) == pytest.approx([100.0 * 9.0, 0.0, 100.0 / 99.0, 0.0])


def test_tests_that_are_not_asked_for_are_not_made() -> None:
    cells, R, _ = draw("short records")
    votes = SidedCells.unknown(cells)
    everything, some = weigh(votes, R), weigh(votes, R, tests=("equal", "favour", "side"))
    assert set(everything.log_ratio) == set(EVIDENCE_TESTS) - {"side"}  # no sides were given
    assert set(some.log_ratio) == {"equal", "favour"}
    for test, ratio in some.log_ratio.items():
        np.testing.assert_allclose(ratio, everything.log_ratio[test], rtol=1e-12)
    assert set(weigh(votes, R, tests=("coin",)).log_ratio) == {"coin"}
