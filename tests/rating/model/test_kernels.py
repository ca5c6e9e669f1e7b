import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.rating.model.crowd import laplacian
from app.rating.model.kernels import exponentiate, raise_powers
from app.rating.model.score_kernels import pull_of


@given(st.lists(st.floats(-700.0, 700.0), min_size=1, max_size=40))
def test_exponentials_have_fifteen_digits(values: list[float]) -> None:
    x = np.array(values)
    exponentiate(x, np.empty(len(x)))
    np.testing.assert_allclose(x, np.exp(values), rtol=1e-15 * 8, atol=0.0)


def test_powers() -> None:
    e = np.empty(12)
    raise_powers(0.3, 1.7, 12, e)
    np.testing.assert_allclose(e, 0.3 * 1.7 ** np.arange(12), rtol=1e-14)


def test_able_annotators_pull_no_more_than_typical_ones() -> None:
    pulls = [pull_of(theta) for theta in (-1.0, 0.0, 0.5, 1.0, 2.0, 8.0)]
    assert pulls[:2] == [0.0, 0.0]
    assert pulls[3] == pytest.approx(1.0)
    assert max(pulls) < 1.05
    assert pulls[5] == pytest.approx(2.0**0.25 * 8.0**-0.25, rel=1e-3)


def test_a_laplacian_is_the_sum_over_pairs() -> None:
    pairs = np.triu(np.random.default_rng(0).random((4, 4)), 1)
    total = sum(pairs[i, j] * np.outer(e := np.eye(4)[i] - np.eye(4)[j], e) for i in range(4) for j in range(i + 1, 4))
    np.testing.assert_allclose(laplacian(pairs), total)
