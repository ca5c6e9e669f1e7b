from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.rating.uncertainty.ranks import class_ranks, rank_by, rank_spread

ends = st.tuples(st.floats(-100, 100), st.floats(0, 50)).map(lambda t: (t[0], t[0] + t[1]))


@given(st.lists(st.one_of(ends, st.just((-np.inf, np.inf))), min_size=1, max_size=20))
def test_rank_spread_is_its_definition(intervals: list[tuple[float, float]]) -> None:
    lower, upper = (np.array(x) for x in zip(*intervals, strict=True))
    best, worst = rank_spread(lower, upper)
    for i in range(len(lower)):
        others = np.arange(len(lower)) != i
        assert best[i] == 1 + np.sum(lower > upper[i])
        assert worst[i] == 1 + np.sum((upper > lower[i]) & others)


def test_equal_keys_share_the_better_rank() -> None:
    assert rank_by(np.array([5.0, 7.0, 5.0, 1.0])).tolist() == [2, 1, 2, 4]


def test_a_class_is_what_reaches_its_best_model() -> None:
    score = np.array([100.0, 85.0, 70.0, 60.0, 20.0, 90.0, np.nan])
    half = np.array([10.0, 10.0, 10.0, 45.0, 1.0, 0.0, np.nan])
    rank = np.array([1, 3, 4, 5, 6, 2, 7])
    # 85 + 10 reaches 100 − 10, and 60 + 45 does; 70 + 10 reaches 85 − 10, but 85 opens no class
    assert class_ranks(rank, score - half, score + half).tolist() == [1, 1, 2, 1, 3, 1, 0]


@given(st.lists(st.one_of(ends, st.just((-np.inf, np.inf))), min_size=1, max_size=20), st.randoms())
def test_every_model_is_in_the_class_of_the_best_opener_that_it_reaches(
    intervals: list[tuple[float, float]], random: Random
) -> None:
    lower, upper = (np.array(x) for x in zip(*intervals, strict=True))
    rank = rank_by(np.where(np.isfinite(lower), lower, -200.0))
    classes = class_ranks(rank, lower, upper)
    openers: list[int] = []
    for i in sorted(np.flatnonzero(np.isfinite(lower)), key=lambda i: (rank[i], -lower[i])):
        reached = [number for number, opener in enumerate(openers, 1) if upper[i] >= lower[opener]]
        if not reached:
            openers.append(i)
            reached = [len(openers)]
        assert classes[i] == reached[0]
    assert (classes[~np.isfinite(lower)] == 0).all()
    order = list(range(len(rank)))
    random.shuffle(order)
    assert (class_ranks(rank[order], lower[order], upper[order]) == classes[order]).all()
