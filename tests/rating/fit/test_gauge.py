import numpy as np
import pytest

from app.rating.errors import NoCommonRankingError
from app.rating.fit import scale as gauge
from app.rating.fit.scale import typical_ability, unit_widths


def test_the_typical_ability_solves_its_equation_in_each_group() -> None:
    theta, group = np.array([1.0, 2.0, 4.0, 10.0, 30.0, 3.0]), np.array([0, 0, 0, 1, 1, 2])
    unit, width = typical_ability(theta, group), unit_widths(group)
    sums = np.bincount(group, np.tanh((theta / unit - 1) / width))
    np.testing.assert_allclose(sums, 0.0, atol=1e-12)
    assert unit[5] == pytest.approx(3.0)
    assert len(np.unique(unit)) == 3


@pytest.mark.parametrize("spread", [0.05, 0.3, 1.0])
def test_in_a_large_crowd_it_is_the_median(spread: float) -> None:
    theta = np.exp(spread * np.random.default_rng(0).standard_normal(20_000))
    error = 1.25 * spread / np.sqrt(20_000)  # the median's standard error
    assert typical_ability(theta)[0] == pytest.approx(np.median(theta), abs=1.5 * error)


def test_no_extreme_ability_moves_it_by_more_than_one_share() -> None:
    theta = np.random.default_rng(1).normal(1.0, 0.3, 200)
    wild = np.append(theta, [1e9, -1e9, 1e9])
    assert typical_ability(wild)[0] == pytest.approx(typical_ability(theta)[0], abs=0.03)


@pytest.mark.parametrize("typical", [0.0999, 0.0, -1.0])
def test_a_unit_at_or_below_a_tenth_is_refused(typical: float) -> None:
    with pytest.raises(NoCommonRankingError):
        typical_ability(np.full(3, typical))
    assert typical_ability(np.full(3, 0.1001))[0] == pytest.approx(0.1001)


def test_the_last_round_counts_where_rounding_keeps_the_equation_from_its_tolerance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theta = np.random.default_rng(2).normal(1.0, 0.3, 50)
    expected = typical_ability(theta)
    monkeypatch.setattr(gauge, "CONVERGED", -1.0)
    np.testing.assert_allclose(typical_ability(theta), expected, rtol=1e-12)


def test_no_annotators_have_no_unit() -> None:
    assert len(typical_ability(np.zeros(0))) == 0
