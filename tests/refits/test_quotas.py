from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.refits.load import over_quota
from app.votes.arrays import NO_DAY, VoteDates

Cast = tuple[int, int, int, int]  # annotator, day, the two halves of the id

casts = st.lists(
    st.tuples(
        st.integers(1, 4), st.sampled_from([-10_957, 0, 1, NO_DAY]), st.integers(0, 3), st.integers(0, 2**64 - 1)
    ),
    max_size=60,
    unique_by=lambda cast: cast[2:],
)


def twin(votes: list[Cast], votes_per_day: int) -> list[bool]:
    over = [False] * len(votes)
    seen: Counter[tuple[int, int]] = Counter()
    for i in sorted(range(len(votes)), key=lambda i: votes[i][2:]):
        annotator, day = votes[i][:2]
        seen[annotator, day] += 1
        over[i] = day != NO_DAY and seen[annotator, day] > votes_per_day
    return over


@given(casts, st.integers(1, 5))
def test_the_first_votes_of_a_day_count(votes: list[Cast], votes_per_day: int) -> None:
    annotator, day, high, low = zip(*votes, strict=True) if votes else ((), (), (), ())
    dates = VoteDates(np.array(day, np.int32), np.array(high, np.uint64), np.array(low, np.uint64))
    assert over_quota(np.array(annotator, np.int32), dates, votes_per_day).tolist() == twin(votes, votes_per_day)
