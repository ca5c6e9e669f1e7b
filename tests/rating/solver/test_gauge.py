import numpy as np
import pytest

from app.rating.errors import NoCommonRankingError
from app.rating.solver.gauge import threshold_in_paper_gauge, to_paper_gauge, typical_ability


def test_both_gauges_give_every_vote_the_same_probability() -> None:
    R, theta = np.array([1.0, -0.5]), np.array([0.5, 1.5, 2.0])
    paper_R, paper_theta = to_paper_gauge(R, theta)
    assert paper_theta.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(np.outer(paper_theta, paper_R), np.outer(theta, R))


def test_the_papers_better_threshold_is_about_a_fifth_of_the_typical_ability_at_its_size() -> None:
    assert threshold_in_paper_gauge(0.21, np.ones(42)) == pytest.approx(0.005)


def test_typical_ability_is_the_median_of_each_scale_group() -> None:
    theta = np.array([1.0, 2.0, 4.0, 10.0, 30.0])
    assert typical_ability(theta).tolist() == [4.0] * 5
    assert typical_ability(theta, np.array([0, 0, 0, 1, 1])).tolist() == [2.0, 2.0, 2.0, 20.0, 20.0]


@pytest.mark.parametrize("median", [0.1, 0.0, -1.0])
def test_a_median_at_or_below_a_tenth_is_refused(median: float) -> None:
    with pytest.raises(NoCommonRankingError):
        typical_ability(np.array([-5.0, median, 9.0]))
    assert typical_ability(np.array([-5.0, 0.1001, 9.0]))[0] == 0.1001


def test_the_papers_gauge_needs_a_positive_sum() -> None:
    with pytest.raises(NoCommonRankingError):
        to_paper_gauge(np.zeros(2), np.array([1.0, -1.0]))
