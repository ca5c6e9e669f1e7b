from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.rating import arrays
from app.rating.errors import VotesError
from app.rating.votes.cells import Cells, aggregate, pool_annotators
from tests.fixtures.errors import having

MODELS, ANNOTATORS = 4, 3
vote = st.tuples(
    st.integers(0, ANNOTATORS - 1),
    st.integers(0, MODELS - 1),
    st.integers(1, MODELS - 1),
    st.sampled_from([0.0, 0.5, 1.0]),
)


def cells_from(rows: list[tuple[int, int, int, float]], weight: list[float] | None = None) -> Cells:
    columns = np.array(rows, dtype=float).reshape(-1, 4).T
    annotator, a, b = (c.astype(int) for c in columns[:3])
    counted = None if weight is None else np.array(weight)
    return aggregate(annotator, a, b, columns[3], n_annotators=ANNOTATORS, n_models=MODELS, weight=counted)


def as_rows(votes: list[tuple[int, int, int, float]]) -> list[tuple[int, int, int, float]]:
    return [(k, a, (a + step) % MODELS, w) for k, a, step, w in votes]


def assert_same(left: Cells, right: Cells) -> None:
    for name in ("annotator", "model_a", "model_b", "n", "s", "ties"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


@given(st.lists(vote, max_size=40), st.randoms())
def test_cells_do_not_depend_on_order_or_side(votes: list[Any], random: Any) -> None:
    rows = as_rows(votes)
    shuffled = [(k, b, a, 1 - w) if random.random() < 0.5 else (k, a, b, w) for k, a, b, w in rows]
    random.shuffle(shuffled)
    assert_same(cells_from(rows), cells_from(shuffled))


@given(st.lists(vote, max_size=40))
def test_cells_hold_the_naive_sums(votes: list[Any]) -> None:
    naive: dict[tuple[int, int, int], list[float]] = {}
    for k, a, b, w in as_rows(votes):
        entry = naive.setdefault((k, min(a, b), max(a, b)), [0.0, 0.0, 0.0])
        entry[0] += 1
        entry[1] += w if a < b else 1 - w
        entry[2] += w == 0.5
    cells = cells_from(as_rows(votes))
    got = {
        (int(k), int(a), int(b)): [n, s, t]
        for k, a, b, n, s, t in zip(
            cells.annotator, cells.model_a, cells.model_b, cells.n, cells.s, cells.ties, strict=True
        )
    }
    assert got == naive
    assert list(got) == sorted(naive)


def test_weight_two_is_the_row_twice() -> None:
    rows = [(0, 0, 1, 1.0), (1, 2, 1, 0.5)]
    assert_same(cells_from(rows, [2.0, 2.0]), cells_from(rows + rows))


@pytest.mark.parametrize(
    ("row", "weight", "message"),
    [
        ((3, 0, 1, 1.0), 1.0, "annotator out of range (row 1)"),
        ((0, -1, 1, 1.0), 1.0, "model_a out of range (row 1)"),
        ((0, 0, 4, 1.0), 1.0, "model_b out of range (row 1)"),
        ((0, 2, 2, 1.0), 1.0, "a model against itself (row 1)"),
        ((0, 0, 1, 0.7), 1.0, "outcome is not 0, 0.5 or 1 (row 1)"),
        ((0, 0, 1, float("nan")), 1.0, "outcome is not 0, 0.5 or 1 (row 1)"),
        ((0, 0, 1, 1.0), 0.0, "weight is not a positive number (row 1)"),
        ((0, 0, 1, 1.0), float("inf"), "weight is not a positive number (row 1)"),
    ],
)
def test_a_malformed_row_is_named(row: tuple[int, int, int, float], weight: float, message: str) -> None:
    with pytest.raises(VotesError) as caught:
        cells_from([(0, 0, 1, 1.0), row], [1.0, weight])
    assert str(caught.value) == message


def test_arrays_of_different_length_are_refused() -> None:
    with pytest.raises(VotesError, check=having(code="shape")):
        aggregate(np.zeros(2, int), np.zeros(1, int), np.ones(2, int), np.ones(2), n_annotators=1, n_models=2)


def test_votes_that_are_no_rows_of_integers_are_refused() -> None:
    one, won = np.zeros(2, int), np.ones(2)
    for names in ((one + 0.9, one, one + 1), (one, one + 0.9, one + 1), (one, one, one + 1.0), (one > 0, one, one + 1)):
        with pytest.raises(VotesError, check=having(code="type")):
            aggregate(*names, won, n_annotators=1, n_models=2)
    with pytest.raises(VotesError, check=having(code="shape")):
        aggregate(one[:, None], one[:, None], one[:, None] + 1, won[:, None], n_annotators=1, n_models=2)
    nothing: list[int] = []
    assert (
        len(aggregate(*map(np.array, (nothing,) * 4), n_annotators=1, n_models=2).n) == 0
    )  # an empty list is of floats


@pytest.mark.parametrize(
    ("weight", "code"), [(np.empty(0), "shape"), (np.ones((2, 1)), "shape"), (np.full(2, 1e308), "value")]
)
def test_weights_that_are_not_one_for_each_vote_or_not_countable_are_refused(weight: np.ndarray, code: str) -> None:
    one = np.zeros(2, int)
    with pytest.raises(VotesError, check=having(code=code)):
        aggregate(one, one, one + 1, np.ones(2), n_annotators=1, n_models=2, weight=weight)


def test_more_annotators_than_32_bits_can_number_are_refused() -> None:
    """2³² + 1 would become annotator 1."""
    with pytest.raises(VotesError, check=having(code="too-many")):
        aggregate(np.array([2**32 + 1]), np.array([0]), np.array([1]), np.ones(1), n_annotators=2**33, n_models=2)


def test_index_spaces_too_large_for_64_bits_are_refused() -> None:
    one = np.zeros(1, int)
    with pytest.raises(VotesError, check=having(code="too-many")):
        aggregate(one, one, one + 1, np.ones(1), n_annotators=10**9, n_models=10**6)


@given(st.lists(vote, max_size=40), st.booleans(), st.booleans())
def test_pooled_cells_do_not_depend_on_the_table(given_votes: list[Any], weighted: bool, many_models: bool) -> None:
    rows = as_rows(given_votes)
    weight = [1.0 + (i % 3) for i in range(len(rows))] if weighted else None
    k, a, b, outcome = np.array(rows, dtype=float).reshape(-1, 4).T
    one, weights = np.zeros(len(k), int), None if weight is None else np.array(weight)
    expected = aggregate(one, a.astype(int), b.astype(int), outcome, n_annotators=1, n_models=MODELS, weight=weights)
    with pytest.MonkeyPatch.context() as patch:
        if many_models:
            patch.setattr(arrays, "TABLE_SIZE", 0)
        assert_same(pool_annotators(cells_from(rows, weight)), expected)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.uint64])
def test_integers_of_any_width_count_the_same(dtype: type) -> None:
    rows = [(0, 0, 1, 1.0), (1, 3, 2, 0.5), (1, 2, 3, 0.0)]
    k, a, b = (np.array(column).astype(dtype) for column in list(zip(*rows, strict=True))[:3])
    outcome = np.array([row[3] for row in rows])
    assert_same(aggregate(k, a, b, outcome, n_annotators=ANNOTATORS, n_models=MODELS), cells_from(rows))


@pytest.mark.parametrize(
    ("row", "weight", "message"),
    [
        ((0, -1, 1, 1.0), 1.0, "model_a out of range (row 1)"),
        ((0, 2, 2, 1.0), 1.0, "a model against itself (row 1)"),
        ((0, 0, 1, 0.7), 1.0, "outcome is not 0, 0.5 or 1 (row 1)"),
        ((0, 0, 1, float("nan")), 1.0, "outcome is not 0, 0.5 or 1 (row 1)"),
        ((0, 0, 1, 1.0), -1.0, "weight is not a positive number (row 1)"),
    ],
)
def test_malformed_votes_are_refused_with_their_row(
    row: tuple[int, int, int, float], weight: float, message: str
) -> None:
    with pytest.raises(VotesError) as caught:
        cells_from([(0, 0, 1, 1.0), row], [1.0, weight])
    assert str(caught.value) == message
