import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.rating.inference.ranks import rank_by, rank_spread

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
