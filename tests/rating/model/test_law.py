import numpy as np
import pytest
from scipy import stats

from app.rating.model.law import ASSUMED, MOST_SPREAD, Law, find_law
from tests.rating.model.crowds import draw, look


@pytest.mark.parametrize("spread", [0.05, 0.3, 0.6])
def test_honest_abilities_have_the_mean_one_and_a_law_that_integrates_to_one(spread: float) -> None:
    law = Law(ASSUMED / ASSUMED.sum(), spread)
    cut = stats.truncnorm(-law.centre / spread, np.inf, law.centre, spread)
    assert cut.mean() == pytest.approx(1.0, abs=1e-9)
    density = np.exp(stats.norm.logpdf(1.0, law.centre, spread) - law.log_above)
    assert density == pytest.approx(cut.pdf(1.0))


def test_the_law_found_is_a_maximum() -> None:
    crowds, _ = look(draw(120, 40, coins=24, contrary=12))
    law = find_law(Law.assumed(), crowds.weigh).law

    def value(law: Law) -> float:
        return crowds.weigh(law).value + law.log_prior

    for shares in (law.shares * [1, 1.1, 1, 1], law.shares * [1, 0.9, 1, 1], law.shares * [1, 1, 1.1, 1]):
        assert value(Law(shares / shares.sum(), law.spread)) < value(law)
    for factor in (0.98, 1.02):
        assert value(Law(law.shares, law.spread * factor)) < value(law)


def test_shares_are_those_of_the_crowd() -> None:
    crowds, _ = look(draw(120, 100, coins=24, contrary=12))
    law = find_law(Law.assumed(), crowds.weigh).law
    assert law.shares[1] == pytest.approx(24 / 120, abs=0.05)
    assert law.shares[2] == pytest.approx(12 / 120, abs=0.03)


def test_the_spread_stays_below_where_coins_would_be_honest() -> None:
    crowds, _ = look(draw(60, 60, spread=1.0))
    assert find_law(Law.assumed(), crowds.weigh).law.spread == MOST_SPREAD


def test_a_fixed_spread_stays() -> None:
    crowds, _ = look(draw(60, 60))
    law = find_law(Law.assumed(0.45), crowds.weigh, fixed=True).law
    assert law.spread == 0.45
    assert law.shares[0] > Law.assumed().shares[0]


@pytest.mark.parametrize("spread", [0.1, 0.5])
def test_slopes_are_derivatives(spread: float) -> None:
    step = 1e-4
    less, here, more = (Law(ASSUMED, spread * np.exp(x)) for x in (-step, 0.0, step))
    kappa, mu, kappa_slope, mu_slope = here.slopes()
    assert kappa == pytest.approx((more.centre - less.centre) / (2 * step * spread), abs=1e-5)
    assert mu == pytest.approx((more.log_above - less.log_above) / (2 * step), abs=1e-5)
    assert kappa_slope == pytest.approx((more.slopes()[0] - less.slopes()[0]) / (2 * step), abs=1e-3)
    assert mu_slope == pytest.approx((more.slopes()[1] - less.slopes()[1]) / (2 * step), abs=1e-3)
