import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stable_arena_lab.agreement import (
    area_under_curve,
    consistency,
    f1_score,
    mean_squared_error,
    published_area_under_curve,
    ranking_agreement,
)
from stable_arena_lab.spread import mean_or_none, sd_or_none, se_or_none


def test_two_rankings_and_three_reversed_are_the_papers_four_tenths() -> None:
    up = np.arange(20.0)
    assert consistency([up, -up, -up, up, -up]) == pytest.approx(0.4)
    assert consistency([up] * 5) == 1.0


def test_only_pairs_with_both_scores_count_and_a_tie_in_one_list_is_no_agreement() -> None:
    assert ranking_agreement(np.array([1.0, 2.0, np.nan]), np.array([5.0, 9.0, 0.0])) == 1.0
    assert ranking_agreement(np.array([1.0, 2.0, 3.0]), np.array([5.0, 9.0, np.nan])) == 1.0
    assert ranking_agreement(np.array([1.0, 1.0, 3.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(2 / 3)
    assert math.isnan(ranking_agreement(np.array([1.0, np.nan]), np.array([1.0, 2.0])))


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.3, 0.5, 0.9]), st.sampled_from([0.0, 0.5, 1.0])), min_size=1))
def test_auc_is_the_share_of_won_and_lost_votes_in_the_right_order(votes: list[tuple[float, float]]) -> None:
    won, lost = [p for p, w in votes if w == 1.0], [p for p, w in votes if w == 0.0]
    found = area_under_curve(np.array([p for p, _ in votes]), np.array([w for _, w in votes]))
    if not won or not lost:
        assert math.isnan(found)
    else:
        pairs = [(x > y) + 0.5 * (x == y) for x in won for y in lost]
        assert found == pytest.approx(sum(pairs) / len(pairs))


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.3, 0.5, 0.9]), st.sampled_from([0.0, 0.5, 1.0])), min_size=1))
def test_the_published_auc_is_over_all_pairs_with_different_outcomes(votes: list[tuple[float, float]]) -> None:
    pairs = [p > q for p, w in votes for q, v in votes if w > v]
    found = published_area_under_curve(np.array([p for p, _ in votes]), np.array([w for _, w in votes]))
    assert math.isnan(found) if not pairs else found == pytest.approx(sum(pairs) / len(pairs))


def test_mse_takes_a_tie_as_one_half() -> None:
    assert mean_squared_error(np.array([0.5, 0.8]), np.array([0.5, 1.0])) == pytest.approx(0.02)


def test_f1_of_finding_the_wanted() -> None:
    wanted = np.array([True, True, False, False])
    assert f1_score(wanted, wanted) == 1.0
    assert f1_score(np.array([True, False, True, False]), wanted) == 0.5
    assert f1_score(~wanted, wanted) == 0.0
    assert math.isnan(f1_score(np.zeros(4, dtype=bool), np.zeros(4, dtype=bool)))


def test_spreads_leave_out_what_is_no_number() -> None:
    assert mean_or_none([1.0, math.nan, 3.0]) == 2.0
    assert mean_or_none([math.nan]) is None
    assert sd_or_none([1.0, 3.0]) == pytest.approx(math.sqrt(2))
    assert sd_or_none([1.0, math.nan]) is None
    assert se_or_none([1.0, 3.0, math.nan]) == pytest.approx(1.0)
    assert se_or_none([1.0, math.nan]) is None
