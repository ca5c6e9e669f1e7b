import pytest

from app.rating.model.law import MOST_SPREAD, Law, find_law
from tests.rating.model.crowds import draw, look


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
    crowds, _ = look(draw(60, 60, spread=1.5))
    assert find_law(Law.assumed(), crowds.weigh).law.spread == MOST_SPREAD
