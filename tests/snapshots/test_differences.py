"""The words for differences, as they are stored and read."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.snapshots.differences import WORDS, Differences, pack, unpack


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_what_is_packed_is_unpacked(n: int, seed: int) -> None:
    sureness = np.random.default_rng(seed).integers(0, 3, (n, n)).astype(np.int8)
    packed = pack(sureness)
    assert len(packed) == n
    assert all(len(row) == 2 * -(-n // 8) for row in packed)
    np.testing.assert_array_equal(unpack(packed), sureness)


def test_words_are_of_models_of_one_group_that_have_a_rank() -> None:
    sureness = np.zeros((5, 5), dtype=np.int8)
    sureness[0, 1], sureness[0, 2], sureness[1, 2] = 2, 1, 1
    found = Differences("abcde", [0, 0, 0, 1, None], [False, True, False, False, False], sureness)
    assert [found.between("a", other) for other in "abcdef"] == [None, "better", "likely-better", None, None, None]
    assert [found.between(other, "a") for other in "bc"] == ["worse", "likely-worse"]
    assert found.digits("b", "abc") == f"{WORDS.index('worse')}-{WORDS.index('likely-better')}"
    assert found.describe("a") == "likely better than 1", "the archived model is not counted"
    assert found.describe("c") == "likely worse than 1"
    assert found.describe("d") == ""
