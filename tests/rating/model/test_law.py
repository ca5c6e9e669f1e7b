import numpy as np
import pytest
from scipy import stats

from app.rating.model.law import ASSUMED, MOST_SPREAD, Law, Posterior, find_law
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
    law = find_law(Law.assumed(), crowds.weigh)

    def value(law: Law) -> float:
        return crowds.weigh(law).value + law.log_prior

    for shares in (law.shares * [1, 1.1, 1, 1], law.shares * [1, 0.9, 1, 1], law.shares * [1, 1, 1.1, 1]):
        assert value(Law(shares / shares.sum(), law.spread)) < value(law)
    for factor in (0.85, 1.15):  # the step of the spread leaves out that the law is cut at 0
        assert value(Law(law.shares, law.spread * factor)) < value(law)


def test_shares_are_those_of_the_crowd() -> None:
    crowds, _ = look(draw(120, 100, coins=24, contrary=12))
    law = find_law(Law.assumed(), crowds.weigh)
    assert law.shares[1] == pytest.approx(24 / 120, abs=0.05)
    assert law.shares[2] == pytest.approx(12 / 120, abs=0.03)


def test_the_spread_stays_below_where_coins_would_be_honest() -> None:
    far = Posterior(np.array([100.0, 0.0, 0.0, 0.0]), 400.0, 0.0)
    assert find_law(Law.assumed(), lambda _: far).spread == MOST_SPREAD
