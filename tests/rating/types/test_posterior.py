"""The posterior of types: against plain integrals, the truth of simulated crowds, and what it must not depend on."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import norm

from app.rating.arrays import Floats
from app.rating.settings import EVEN_ODDS
from app.rating.types.evidence import weigh
from app.rating.types.favouritism import LEAST, OPINION_SD, OPINIONATED, find_favouritism, find_groups
from app.rating.types.habits import Typing, find_taste_variance
from app.rating.types.law import COIN, CONTRARY, EQUAL, FOLLOWER, HONEST, LEFT, LOG_PROPENSITY
from app.rating.votes.cells import Cells
from app.rating.votes.features import SidedCells
from tests.rating.model.crowds import draw

LAPSED = 0.05 / 3.0  # probability of either other answer by a slip
CELLS = ("annotator", "model_a", "model_b", "n", "s", "ties")
THETA = np.linspace(-6.0, 9.0, 15_001)
LEAN_STEP = 0.1
LEANS = np.linspace(-7.0, 7.0, 141)
"""Narrow enough for bells wider than a step; a grid of a fifth of the step gives the same to rounding."""


def world(seed: int = 0, *, lean: float = 0.0) -> tuple[SidedCells, Floats]:
    """Draw 30 annotators with 120 votes: two coins, two contrary, one always left, one always tied, one a follower."""
    generator, R = np.random.default_rng(seed), np.linspace(-1.2, 1.2, 8)
    ability = np.exp(generator.normal(0.0, 0.3, 30))
    ability[:4] = 0.0, 0.0, -1.0, -1.0
    k = np.repeat(np.arange(30), 120)
    a = generator.integers(0, 8, len(k))
    b = (a + generator.integers(1, 8, len(k))) % 8
    x = ability[k] * (R[a] - R[b]) + lean * generator.normal(size=30)[k]
    tie = 0.25 * np.exp(-np.abs(x))
    u = generator.random(len(k))
    outcome = np.where(u < tie, 0.5, np.where(u < tie + (1.0 - tie) * expit(x), 1.0, 0.0))
    outcome = np.select([k == 4, k == 5, k == 6], [1.0, 0.5, (R[a] > R[b]).astype(float)], outcome)
    return SidedCells.of_votes(k, a, b, outcome, n_annotators=31, n_models=8), R


def log_decided(typing: Typing, k: int, theta: Floats, lean: Floats) -> Floats:
    """Return log P(decided votes of k) at each θ and λ, by the definition; shape (θ, λ)."""
    mine = typing.cells.annotator == k
    x = theta[:, None, None] * typing.d[mine] + lean[:, None] * typing.side[mine]
    n, won = typing.decided[mine], typing.won[mine]
    log: Floats = (won * x - n * np.logaddexp(0.0, x)).sum(axis=2)
    return log


def plain_nodes(typing: Typing, k: int, theta: Floats) -> Floats:
    """Return log ∫ P(decided votes of k | θ, λ) dΛ(λ) on a grid of leans."""
    if not len(typing.leans):
        return log_decided(typing, k, theta, np.zeros(1))[:, 0]
    (narrow, wide), (crowd, others) = np.sqrt(typing.leans[:2]), typing.leans[2:]
    assert narrow == 0.0 or narrow > LEAN_STEP, "the grid is too coarse"
    near = norm.pdf(LEANS, 0.0, narrow) if narrow else np.where(LEANS == 0.0, 1.0 / LEAN_STEP, 0.0)
    weight = np.log(LEAN_STEP * (crowd * near + others * norm.pdf(LEANS, 0.0, wide)) + 1e-300)
    log: Floats = logsumexp(log_decided(typing, k, theta, LEANS) + weight, axis=1)
    return log


@pytest.mark.parametrize("lean", [None, 0.0, 0.8])
def test_odds_are_those_of_plain_integrals(lean: float | None) -> None:
    """Coin, contrary and equal against honesty, at the law that was found; without sides, and with leans to a side."""
    sided, R = world(1, lean=lean or 0.0)
    typing = Typing(SidedCells.unknown(sided.cells) if lean is None else sided, R)
    law, odds = typing.law, typing.posterior.log_odds
    assert (typing.caution == 1.0).all()
    theta = THETA[::25]
    density = np.exp(-0.5 * ((np.log(np.abs(theta) + 1e-9) - np.log(law.centre)) / law.spread) ** 2)
    density /= (np.abs(theta) + 1e-9) * law.spread * np.sqrt(2.0 * np.pi)
    step = theta[1] - theta[0]
    for k in range(0, 30, 3):
        joint = plain_nodes(typing, k, theta) + np.log(density * step + 1e-300)
        honest = logsumexp(joint[theta > 0.0]) + np.log(law.share[HONEST])
        coin = plain_nodes(typing, k, np.zeros(1))[0] + np.log(law.share[COIN])
        contrary = logsumexp(joint[theta < 0.0]) + np.log(law.share[CONTRARY])
        assert odds[k, COIN] == pytest.approx(coin - honest, abs=0.3, rel=0.04)
        if contrary - honest > -10.0:
            assert odds[k, CONTRARY] == pytest.approx(contrary - honest, abs=0.3, rel=0.04)
        mine = typing.cells.annotator == k
        y = 0.5 * (typing.at[k, 0] * typing.d[mine] + typing.at[k, 1] * typing.side[mine])
        tied = typing.cells.ties[mine]
        share = np.exp(LOG_PROPENSITY[:, None]) / (2.0 * np.cosh(y) + np.exp(LOG_PROPENSITY[:, None]))
        log = (tied * np.log(share) + typing.decided[mine] * np.log1p(-share)).sum(axis=1)
        of_crowd = logsumexp(log + law.log_ties())
        n, t = typing.decided[mine].sum(), tied.sum()
        equal = t * np.log(0.99) + n * np.log(0.01 / 2.0) - of_crowd + np.log(law.share[EQUAL])
        assert odds[k, EQUAL] == pytest.approx(equal - honest, abs=0.3, rel=0.04)


def test_each_type_is_the_diagnosis_of_its_annotators() -> None:
    sided, R = world(8)
    evidence, types = weigh(sided, R), Typing(sided, R).posterior.types
    assert types[:30].argmax(axis=1)[:7].tolist() == [COIN, COIN, CONTRARY, CONTRARY, LEFT, EQUAL, FOLLOWER]
    assert (types[7:30, HONEST] > 0.5).all()
    assert evidence.strongest()[0][[0, 2, 4, 5, 6]].tolist() == ["coin", "coin", "side", "equal", "follower"]
    assert not evidence.flagged()[7:].any()
    low = evidence.probability_low(0.2)
    assert (low[:6] > 0.9).all()
    assert (low[6:30] < 0.5).all(), "a follower is not low"
    assert np.isnan(low[30])
    habits = evidence.habits
    assert (habits.own[2:4] < -0.5).all(), "by the votes themselves, not drawn to the crowd"
    assert habits.ability[7:30].mean() == pytest.approx(1.0, abs=0.05), "the mean honest ability is the unit"
    assert np.abs(habits.ability[[0, 1, 4, 5]]).max() < 0.2, "types without an ability have 0"
    assert habits.ability[6] > 2.0, "a follower has what the votes say"


def test_an_ability_and_what_flags_it_are_one_posterior() -> None:
    """E[θ] and E[θ²] by the distribution function that the rule reads, followers apart."""
    sided, R = world(8)
    habits, theta = weigh(sided, R).habits, np.linspace(-8.0, 8.0, 4_001)
    some = [k for k in range(30) if k != 6]
    mass = np.diff([habits.probability_low(at)[some] for at in theta], axis=0)
    middle = 0.5 * (theta[1:] + theta[:-1])
    np.testing.assert_allclose(mass.sum(axis=0), 1.0, atol=1e-6)
    np.testing.assert_allclose(middle @ mass, habits.ability[some], atol=0.01)
    np.testing.assert_allclose(np.sqrt(middle**2 @ mass - (middle @ mass) ** 2), habits.ability_se[some], rtol=0.1)


def test_annotators_outside_the_crowd_are_judged_by_its_law_and_change_nothing() -> None:
    """One of them has the votes of annotator 10; none is tested."""
    sided, R = world(2)
    cells, alone = sided.cells, weigh(sided, R)
    twin = cells.where(cells.annotator == 10)
    columns = [np.concatenate([getattr(one, name) for one in (cells, twin)]) for name in CELLS[1:]]
    annotator = np.append(cells.annotator, np.full(len(twin.n), 31)).astype(np.int32)
    both = SidedCells(Cells(annotator, *columns, 32, 8), np.append(sided.side, sided.side[cells.annotator == 10]))
    found = weigh(both, R, np.arange(32) < 31)
    assert found.habits.ability[31] == pytest.approx(alone.habits.ability[10])
    np.testing.assert_allclose(found.habits.ability[:30], alone.habits.ability[:30])
    for test, ratio in alone.log_ratio.items():
        np.testing.assert_allclose(found.log_ratio[test][:31], ratio)
        assert found.log_ratio[test][31] == -np.inf
    assert np.isnan([found.judges[31], found.habits.own[31], found.habits.lean[31]]).all()
    assert not np.isnan(weigh(both, R).judges[31]), "where asked, it is one of the crowd"


def test_ties_say_nothing_of_coins() -> None:
    """Neither the tied votes nor their absence, apart from annotators who always tie."""
    sided, R = world(3)
    cells = sided.cells.where(sided.cells.annotator != 5)
    decided = cells.n > cells.ties
    without = replace(cells, n=cells.n - cells.ties, s=cells.s - cells.ties / 2.0, ties=np.zeros(len(cells.n))).where(
        decided
    )
    both = [Typing(SidedCells.unknown(one), R).posterior.log_odds[:30, [COIN, CONTRARY]] for one in (cells, without)]
    near = both[0] > -10.0
    np.testing.assert_allclose(both[0][near], both[1][near], atol=0.1)


def test_stated_probabilities_hold() -> None:
    """Of annotators whose probability of a coin is stated so, about so many are coins."""
    stated, true = [], []
    for seed in range(12):
        coins = 12
        drawn = draw(120, 60, coins=coins, seed=seed)
        odds = weigh(SidedCells.unknown(drawn.cells), drawn.R, tests=("coin",)).log_ratio["coin"] - np.log(EVEN_ODDS)
        stated += expit(odds).tolist()
        true += (np.arange(120) < coins).tolist()
    likely, coin = np.array(stated), np.array(true)
    for low, high in ((0.0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1.0)):
        some = (likely >= low) & (likely <= high)
        error = 2.5 * np.sqrt(0.25 / some.sum()) if low else 0.02
        assert coin[some].mean() == pytest.approx(likely[some].mean(), abs=error)


def with_pushers(pushers: int) -> tuple[Cells, Floats]:
    """Draw 40 annotators; the last ones always vote for model 2."""
    drawn = draw(40, 60, seed=5)
    cells = drawn.cells
    fan = cells.annotator >= 40 - pushers
    won, lost = fan & (cells.model_a == 2), fan & (cells.model_b == 2)
    s, either = np.where(won, cells.n, np.where(lost, 0.0, cells.s)), won | lost
    return replace(cells, s=s, ties=np.where(either, 0.0, cells.ties)), drawn.R


def test_ratios_of_pushers_are_those_of_plain_integrals() -> None:
    cells, R = with_pushers(3)
    typing = Typing(SidedCells.unknown(cells), R)
    found = find_favouritism(typing)
    some = np.flatnonzero(found.likelihood.max(axis=0) > LEAST)
    assert len(some) >= 3
    for row in some:
        expected = plain_ratios(typing, int(found.annotator[row]), int(found.model[row]))
        for ratio, plain in zip(found.likelihood[:, row], expected, strict=True):
            assert ratio == pytest.approx(plain, abs=0.3)


def plain_ratios(typing: Typing, k: int, m: int) -> tuple[float, float]:
    """Return the log-likelihood ratios of pushing and of burying model m, on a grid of abilities and opinions."""
    cells, law, theta = typing.cells, typing.law, THETA[THETA > 0.0][::20]
    here = (cells.annotator == k) & ((cells.model_a == m) | (cells.model_b == m))
    way, nu = np.where(cells.model_a[here] == m, 1.0, -1.0), float(np.exp(typing.propensity[k]))
    won, tied, lost = cells.wins_a[here], cells.ties[here], cells.wins_b[here]
    x = theta[:, None] * typing.d[here]
    others = log_decided(typing, k, theta, np.zeros(1))[:, 0] - (won * x - (won + lost) * np.logaddexp(0.0, x)).sum(
        axis=1
    )
    others += norm.logpdf(np.log(theta), np.log(law.centre), law.spread) - np.log(theta)

    def honest(shift: float) -> float:
        up = np.exp(0.5 * theta[:, None] * (typing.d[here] + way * shift))
        share = 0.95 / (up + nu + 1.0 / up)
        log = (
            won * np.log(share * up + LAPSED) + tied * np.log(share * nu + LAPSED) + lost * np.log(share / up + LAPSED)
        )
        return float(logsumexp(others + log.sum(axis=1)))

    shifts = np.linspace(-2.5, 2.5, 11)
    opinion = np.exp(-0.5 * shifts**2) / np.exp(-0.5 * shifts**2).sum()
    own = logsumexp([honest(shift * OPINION_SD * typing.scale) for shift in shifts], b=opinion)
    fair = np.logaddexp(honest(0.0), own + np.log(OPINIONATED / (1.0 - OPINIONATED)))
    good, bad = np.where(way > 0.0, won, lost).sum(), np.where(way > 0.0, lost, won).sum()
    always, slips = np.log(0.95 + LAPSED), np.log(LAPSED)
    total = logsumexp(others) - fair
    return total + good * always + (bad + tied.sum()) * slips, total + bad * always + (good + tied.sum()) * slips


def test_pushers_are_found_as_a_group_and_their_votes_lose_weight() -> None:
    cells, R = with_pushers(4)
    evidence = weigh(SidedCells.unknown(cells), R)
    assert evidence.flagged(("favour",)).tolist() == [False] * 36 + [True] * 4
    assert set(evidence.about["favour"][36:]) == {2}
    assert evidence.favouritism is not None
    nobody = np.zeros(40, dtype=bool)
    trust = evidence.favouritism.trust(cells, nobody)
    assert trust is not None
    pushed = (cells.annotator >= 36) & ((cells.model_a == 2) | (cells.model_b == 2))
    assert (trust[pushed] < 0.5).all()
    assert (trust[~pushed] == 1.0).all()
    assert evidence.favouritism.trust(cells, ~nobody) is None


def test_groups_by_hand() -> None:
    """Two together where one alone is not; none where most of a model's judges would be in it."""
    model, judges = np.array([0, 0, 0, 1, 2, 2]), np.array([40.0, 40.0, 3.0])
    likelihood = np.full((2, 6), -np.inf)
    likelihood[0] = np.log([500.0, 500.0, 500.0, 500.0, 1e6, 1e6])
    odds = find_groups(model, likelihood, judges)
    assert (odds[0, :3] > 0.0).all()
    assert odds[0, 3] < 0.0
    assert np.isneginf(odds[0, 4:]).all()
    assert np.isneginf(odds[1]).all()


def test_a_variance_of_tastes_must_be_certain() -> None:
    ones = np.ones(50)
    assert find_taste_variance(0.5 * ones, ones, 0.01 * ones) == pytest.approx(0.5)
    assert find_taste_variance(0.5 * ones, ones, 100.0 * ones) == 0.0
    assert find_taste_variance(np.zeros(3), np.zeros(3), np.zeros(3)) == 0.0


def test_weights_are_counts_of_votes() -> None:
    """A row of two votes is two rows of one, and those four of a half."""
    sided, R = world(4)
    cells, found = sided.cells, []
    for parts in (1, 2, 4):
        rows = np.repeat(np.arange(len(cells.n)), parts)
        share = {name: getattr(cells, name)[rows] / parts for name in ("n", "s", "ties")}
        whose = {name: getattr(cells, name)[rows] for name in ("annotator", "model_a", "model_b")}
        found.append(Typing(SidedCells.unknown(replace(cells, **share, **whose)), R))
    for other in found[1:]:
        np.testing.assert_allclose(found[0].posterior.types, other.posterior.types, atol=1e-6)


def test_a_name_or_a_side_changes_nothing() -> None:
    sided, R = world(5)
    cells, turned = sided.cells, np.array([3, 1, 7, 0, 2, 6, 5, 4])
    a, b = turned[cells.model_a], turned[cells.model_b]
    swap = a > b
    won = np.where(swap, cells.n - cells.s, cells.s)
    named = replace(cells, model_a=np.minimum(a, b).astype(np.int32), model_b=np.maximum(a, b).astype(np.int32), s=won)
    other = SidedCells(named, np.where(swap, -sided.side, sided.side))
    scores = np.empty(8)
    scores[turned] = R
    one, two = weigh(sided, R), weigh(other, scores)
    for test, ratio in one.log_ratio.items():
        np.testing.assert_allclose(ratio, two.log_ratio[test], rtol=1e-6, atol=1e-6)
