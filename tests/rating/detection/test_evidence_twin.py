"""The evidence's fast sums against the same written plainly: cell by cell, logarithm by logarithm."""

import sys

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from app.rating.detection import mixture
from app.rating.detection.evidence import weigh
from app.rating.detection.favouritism import OPINION_SD, SHIFT, find_favouritism
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
    LOG_ALWAYS,
    LOG_SLIP,
    TIE_PROPENSITY,
    UNUSUAL,
    NullModel,
    fit_null_model,
    follow,
)
from app.rating.detection.sided_cells import SidedCells
from app.rating.detection.spread import Spread
from app.rating.settings import EVIDENCE_TESTS
from app.rating.simulation.worlds import NATURAL_PER_ELO
from app.rating.votes.cells import Cells
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
    taste: np.ndarray,
    opinions: np.ndarray,
    doubt: np.ndarray,
) -> tuple[np.ndarray, float, float, np.ndarray, np.ndarray]:
    """Log-likelihoods by behaviour, the honest abilities' centre and spread, by the same rounds on logarithms.

    And P(a ≤ 0.05), by the annotators' own nodes, the coin's and those below; and what the doubt adds to honesty.
    """
    sure, votes = plain_nodes(cells, R, lean), cells.votes_by_annotator()
    ties = np.bincount(cells.annotator, cells.ties, cells.n_annotators)
    equal = ties * np.log(EQUAL) + (votes - ties) * np.log((1.0 - EQUAL) / 2.0)
    follower = np.bincount(cells.annotator, follow(cells, R), cells.n_annotators)
    without, own = (
        np.nan_to_num(each, nan=unknown)[:, :, None] for each, unknown in zip(opinions, (0.0, -1e300), strict=True)
    )
    by_ties = sure.max(axis=1, keepdims=True) - sure.max(axis=(1, 2), keepdims=True)
    plainly = sure.max(axis=2, keepdims=True) + without
    doubt = logsumexp([plainly + doubt[:, :, None], own], axis=0) - logsumexp([plainly, own], axis=0)
    nodes = logsumexp([sure + without, own + by_ties], axis=0)
    nodes[:, COIN] = sure[:, COIN]
    nodes = (nodes + doubt) / caution[:, None, None]
    equal, follower = equal / caution, follower / caution
    nodes[:, COIN] -= taste[:, None]
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
    plain = logsumexp(nodes[:, FIRST_HONEST:] - doubt[:, FIRST_HONEST:] + weight, axis=(1, 2))
    return log, centre, spread, kind[:, 1:3].sum(axis=1), honest - plain


@pytest.mark.parametrize("world", WORLDS)
def test_the_crowd_is_its_plain_twin(world: str) -> None:
    cells, R, lean = draw(world)
    generator = np.random.default_rng(9)
    caution, taste = 1.0 + generator.random(cells.n_annotators), generator.normal(0.0, 2.0, cells.n_annotators)
    doubt = generator.random((cells.n_annotators, len(ABILITY)))
    likeliest = plain_nodes(cells, R, lean).max(axis=2)
    opinions = np.stack([np.full_like(likeliest, np.log(0.4)), likeliest + generator.normal(0.0, 2.0, likeliest.shape)])
    opinions[1, :, COIN] = -1e300
    opinions[:, 3] = np.nan
    crowd = fit_null_model(cells, R, lean=lean, caution=caution, taste=taste, opinions=opinions, doubt=doubt, ties=TIES)
    log, centre, spread, low, benefit = plain_crowd(cells, R, lean, caution, taste, opinions, doubt)
    edge = (ABILITY[COIN] + ABILITY[FIRST_HONEST]) / 2.0
    np.testing.assert_allclose(crowd.probability_low(edge), low, rtol=1e-7, atol=1e-9)
    assert np.all(np.diff([crowd.probability_low(x) for x in (-3.0, -0.5, 0.2, 1.0, 9.0)], axis=0) >= 0.0)
    assert np.all(crowd.probability_low(-3.0) == 0.0)
    np.testing.assert_allclose(crowd.log_likelihood, log, rtol=1e-9, atol=1e-6)
    assert np.log(crowd.typical) == pytest.approx(centre, abs=1e-8)
    assert crowd.spread == pytest.approx(spread, abs=1e-8)
    likely = low < 1.0 - 1e-9  # of the others honesty is too unlikely for what doubt adds to it
    np.testing.assert_allclose(crowd.benefit[likely], benefit[likely], rtol=1e-6, atol=1e-6)


def test_a_search_that_is_given_up_is_as_its_plain_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (mixture, sys.modules[__name__]):
        monkeypatch.setattr(module, "ROUNDS", 2)
    test_the_crowd_is_its_plain_twin("short records")


def plain_favouritism(
    cells: Cells, R: np.ndarray, lean: np.ndarray, crowd: NullModel, k: int, model: int
) -> tuple[tuple[float, float, float], bool]:
    """Log ratios of favour, against and mimic for one annotator and one model; whether an own opinion is considered."""
    mine = np.flatnonzero(cells.annotator == k)
    a, b = cells.model_a[mine], cells.model_b[mine]
    win, loss = (side[mine] for side in (cells.wins_a, cells.wins_b))
    tie, v, ability = cells.ties[mine], crowd.tie_propensity[k], ABILITY[FIRST_HONEST:]
    weight = logsumexp(crowd.log_weight, axis=1)

    def honest(keep: np.ndarray, shift: np.ndarray) -> float:
        y = 0.5 * (ability[:, None] * (R[a] - R[b] + shift) + lean[mine])
        log = (win - loss) * y + tie * np.log(v) - (win + tie + loss) * np.log(np.exp(y) + np.exp(-y) + v)
        return float(logsumexp((log * keep).sum(axis=1) + weight))

    everything, nothing = np.ones(len(mine)), np.zeros(len(mine))
    side = (a == model).astype(float) - (b == model)
    met, plain = side != 0, honest(everything, nothing)
    up, down = np.where(side > 0, win, loss), np.where(side > 0, loss, win)
    good = (met * (up * LOG_ALWAYS + (tie + down) * LOG_SLIP)).sum()
    bad = (met * (down * LOG_ALWAYS + (tie + up) * LOG_SLIP)).sum()
    rest = honest((~met).astype(float), nothing) - plain
    by_ranking = float((follow(cells, R)[mine] * ~met).sum()) + good - plain
    excuse, prior = 0.0, -0.5 * (SHIFT / OPINION_SD) ** 2
    doubted = max(rest + max(good, bad), by_ranking) > np.log(cells.n_models)
    if doubted:
        opinions = [honest(everything, t * side) for t in SHIFT]
        excuse = max(0.0, float(logsumexp(prior - logsumexp(prior) + opinions)) - plain)
    return (rest + good - excuse, rest + bad - excuse, by_ranking - excuse), doubted


@pytest.mark.parametrize("world", WORLDS)
def test_favouritism_is_its_plain_twin(world: str) -> None:
    cells, R, lean = draw(world)
    crowd = fit_null_model(cells, R, lean=lean)
    found = find_favouritism(cells, R, crowd, lean)
    any_doubted = False
    for k in (0, cells.n_annotators - 1):  # an honest annotator and an attacker
        met = np.unique(np.concatenate([side[cells.annotator == k] for side in (cells.model_a, cells.model_b)]))
        for model in met:
            expected, doubted = plain_favouritism(cells, R, lean, crowd, k, int(model))
            ratios = (found.favour[k, model], found.against[k, model], found.mimic[k, model])
            assert ratios == pytest.approx(expected, rel=1e-7, abs=1e-6)
            any_doubted |= doubted
    assert any_doubted, "no own opinion was considered"


def test_tests_that_are_not_asked_for_are_not_made() -> None:
    cells, R, _ = draw("short records")
    votes = SidedCells.unknown(cells)
    everything, some = weigh(votes, R), weigh(votes, R, tests=("equal", "favour", "side"))
    assert set(everything.log_ratio) == set(EVIDENCE_TESTS) - {"side"}  # no sides were given
    assert set(some.log_ratio) == {"equal", "favour"}
    for test, ratio in some.log_ratio.items():
        np.testing.assert_allclose(ratio, everything.log_ratio[test], rtol=1e-12)
    assert set(weigh(votes, R, tests=("coin",)).log_ratio) == {"coin"}
