import numpy as np
import pytest
from app.rating.fit.result import FitResult, OwnAbilities
from app.rating.fit.scale import Scale, one_group
from app.rating.fit.unit import Unit, mean_unit, solvers_unit

from app.rating.errors import NoCommonRankingError


def unit_of(theta: np.ndarray, group: list[int] | None = None, counts: list[int] | None = None, **fit: object) -> Unit:
    """The unit, by default of one group in which every annotator counts, without a prior."""
    groups = np.array([0] * len(theta) if group is None else group)
    scale = Scale(np.unique(groups), groups, len(np.unique(groups)))
    none = np.zeros(len(theta), dtype=bool)
    fitted = FitResult(np.zeros(scale.number), theta, none, 0.0, 1, **{"undecided": none, **fit})  # type: ignore[arg-type]
    return mean_unit(fitted, scale, ~none if counts is None else np.array(counts, dtype=bool))


def test_it_is_the_mean_ability_in_each_group() -> None:
    theta, group = np.array([1.0, 2.0, 4.0, 10.0, 30.0, 3.0]), [0, 0, 0, 1, 1, 2]
    unit = unit_of(theta, group)
    np.testing.assert_allclose(unit.of_annotators, [7 / 3] * 3 + [20.0] * 2 + [3.0])
    np.testing.assert_allclose(unit.of_models, [7 / 3, 20.0, 3.0])
    assert unit.of_most == pytest.approx(7 / 3)
    np.testing.assert_allclose(np.bincount(group, unit.excess), 0.0, atol=1e-12)


def test_those_who_do_not_count_have_no_part_unless_no_annotator_of_a_group_counts() -> None:
    unit = unit_of(np.array([1.0, 2.0, 6.0, 3.0, 5.0]), [0, 0, 0, 1, 1], [1, 1, 0, 0, 0])
    np.testing.assert_allclose(unit.of_group, [1.5, 4.0])
    np.testing.assert_allclose(unit.excess, [-0.5, 0.5, 0.0, -1.0, 1.0])


def test_it_is_of_the_abilities_that_the_votes_alone_say_weighted_by_what_they_know() -> None:
    own = OwnAbilities(np.array([0.5, 1.5, 4.0]), np.array([2.0, 2.0, 3.0]), np.array([0.5, 0.5, 0.25]))
    unit = unit_of(np.array([0.75, 1.25, 1.5]), own=own)
    assert unit.of_most == pytest.approx(2.0 / 1.25)
    np.testing.assert_allclose(unit.slope, [1.0, 1.0, 0.75])
    assert unit.excess.sum() == pytest.approx(0.0)


def test_undecided_abilities_are_1() -> None:
    assert unit_of(np.array([5.0, 9.0]), undecided=np.ones(2, dtype=bool)).of_most == 1.0


@pytest.mark.parametrize("mean", [0.0999, 0.0, -1.0])
def test_a_mean_at_or_below_a_tenth_is_refused(mean: float) -> None:
    with pytest.raises(NoCommonRankingError):
        unit_of(np.full(3, mean))
    assert unit_of(np.full(3, 0.1001)).of_most == pytest.approx(0.1001)


def test_known_abilities_and_no_annotators_have_the_unit_1() -> None:
    assert solvers_unit(one_group(3, 4)).of_models.tolist() == [1.0] * 3
    assert solvers_unit(one_group(0, 0)).of_most == 1.0
