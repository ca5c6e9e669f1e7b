"""Votes that say the same, found by content alone."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.imports.formats.timestamps import TIMESTAMP
from app.imports.matching import match_votes, vote_keys

START = datetime(2026, 1, 31, 12, 30, tzinfo=UTC)
Said = tuple[int, datetime | None, bool]

TIMES = st.none() | st.sampled_from([0.0, 0.25, 1, 30, 59.5, 60, 3600, 86_400]).map(lambda s: START + timedelta(0, s))
VOTES = st.lists(st.tuples(st.integers(0, 2), TIMES, st.booleans()), max_size=12)


def frame(votes: list[Said], name: str) -> pl.DataFrame:
    keys, times, battles = ([one[i] for one in votes] for i in range(3))
    columns = {name: range(len(votes)), "key": keys, "voted_at": times, "has_battle": battles}
    return pl.DataFrame(
        columns, {name: pl.Int64, "key": pl.Int64, "voted_at": TIMESTAMP, "has_battle": pl.Boolean}, strict=False
    )


def pairs(votes: list[Said], recorded: list[Said]) -> list[tuple[int, int]]:
    return list(match_votes(frame(votes, "number"), frame(recorded, "vote")).iter_rows())


def agree(one: Said, other: Said) -> bool:
    """Say, one pair at a time, what `match_votes` says of columns."""
    if one[0] != other[0] or (one[2] and other[2]):
        return False
    if one[1] is None or other[1] is None:
        return True
    units = [timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)]
    zero = datetime(1970, 1, 1, tzinfo=UTC)
    floors = [[(t - zero) // unit for t in (one[1], other[1])] for unit in (timedelta(seconds=1), *units)]
    whole = [any((t - zero) % unit == timedelta(0) for t in (one[1], other[1])) for unit in units]
    return any(a == b and fits for (a, b), fits in zip(floors, [True, *whole], strict=True))


@given(VOTES, VOTES)
def test_pairs_agree_and_use_each_vote_once(votes: list[Said], recorded: list[Said]) -> None:
    found = pairs(votes, recorded)
    assert all(agree(votes[i], recorded[j]) for i, j in found)
    assert len({i for i, _ in found}) == len({j for _, j in found}) == len(found)
    left = set(range(len(votes))) - {i for i, _ in found}
    spare = set(range(len(recorded))) - {j for _, j in found}
    assert not any(agree(votes[i], recorded[j]) for i in left for j in spare)


@given(VOTES)
def test_the_same_votes_are_all_found(votes: list[Said]) -> None:
    bare = [(key, time, False) for key, time, _ in votes]
    assert len(pairs(bare, bare)) == len(votes)


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_votes_without_times_match_as_often_as_both_sides_have_them(here: list[int], there: list[int]) -> None:
    found = pairs([(key, None, False) for key in here], [(key, None, False) for key in there])
    assert len(found) == (Counter(here) & Counter(there)).total()


@pytest.mark.parametrize(
    ("a", "b", "outcome", "same"),
    [(1, 2, 0, True), (2, 1, 1, True), (2, 1, 0, False), (1, 2, 2, False), (1, 3, 0, False)],
)
def test_a_key_is_that_of_the_swapped_vote(a: int, b: int, outcome: int, same: bool) -> None:
    votes = pl.DataFrame({"annotator_id": [7, 7], "model_a_id": [1, a], "model_b_id": [2, b], "outcome": [0, outcome]})
    votes = votes.with_columns(criterion=pl.lit(None, pl.String), ranking=pl.lit(None, pl.String))
    keys = votes.select(key=vote_keys())["key"]
    assert (keys[0] == keys[1]) is same
