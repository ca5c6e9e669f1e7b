import numpy as np
import pytest

from app.rating import arrays as sums
from app.rating.arrays import sum_by_key


def test_sums_by_key_are_the_same_without_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    key, weight = np.array([5, 1, 5, 3]), np.array([1.0, 2.0, 3.0, 4.0])
    for size in (sums.TABLE_SIZE, 0):
        monkeypatch.setattr(sums, "TABLE_SIZE", size)
        keys, (total,) = sum_by_key(key, 6, weight)
        assert keys.tolist() == [1, 3, 5]
        assert total.tolist() == [2.0, 4.0, 4.0]
