import pytest

from app.rating.model.law import MOST_SPREAD, Law, Posterior, find_law
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


def test_a_search_goes_no_further_than_its_nodes_serve() -> None:
    crowds, _ = look(draw(60, 200, spread=0.05))
    begin = Law.assumed()
    assert find_law(begin, crowds.weigh).law.spread < 0.5 * begin.spread
    found = find_law(begin, crowds.weigh, narrowest=0.8)
    assert found.law.spread == pytest.approx(0.8 * begin.spread)
    assert not found.inverse[3].any()
    assert found.law.shares[0] == max(found.law.shares)


def test_at_scores_far_from_the_solution_the_law_is_found_in_a_few_passes() -> None:
    drawn, laws = draw(2000, 4), []
    crowds, _ = look(drawn._replace(R=0.7 * drawn.R))

    def weigh(law: Law) -> Posterior:
        laws.append(law)
        return crowds.weigh(law)

    found = find_law(Law.assumed(), weigh)
    for factor in (0.9, 1.1):
        shares = found.law.shares * [1.0, factor, 1.0, 1.0]
        near = Law(shares / shares.sum(), found.law.spread)
        assert crowds.weigh(near).value + near.log_prior < found.value
    assert len(laws) < 20
