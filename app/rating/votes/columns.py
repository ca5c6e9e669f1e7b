"""Checks of votes that come as arrays."""

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import AnyInts, Floats
from app.rating.errors import VotesError

TIE = 0.5  # W of a tie
OUTCOME_BITS = 2  # the lowest of a packed vote: 0 the lower-numbered model lost, 1 a tie, 2 it won

Columns = tuple[AnyInts, AnyInts, AnyInts, Floats, Floats | None]


def check_votes(
    annotator: AnyInts,
    model_a: AnyInts,
    model_b: AnyInts,
    outcome: NDArray[np.floating],
    weight: NDArray[np.floating] | None,
    *,
    n_annotators: int,
    n_models: int,
) -> Columns:
    """Return the arrays of votes as integers and floats, with `aggregate`'s parameters and errors."""
    columns = as_columns(annotator, model_a, model_b, outcome, weight)
    refuse_faults(*columns, n_annotators, n_models)
    return columns


def as_columns(
    annotator: AnyInts, model_a: AnyInts, model_b: AnyInts, outcome: NDArray[np.floating],
    weight: NDArray[np.floating] | None,
) -> Columns:  # fmt: skip
    """Return the arrays of votes as integers and floats; raise where their types or lengths are wrong."""
    annotator, model_a, model_b = (_indices(each) for each in (annotator, model_a, model_b))
    W, count = np.asarray(outcome, dtype=np.float64), None if weight is None else np.asarray(weight, dtype=np.float64)
    columns = [annotator, model_a, model_b, W, *([] if count is None else [count])]
    if any(each.ndim != 1 for each in columns):
        raise VotesError("the vote arrays must have one dimension, with one row for each vote", "shape")
    if len({len(each) for each in columns}) > 1:
        raise VotesError(f"the vote arrays differ in length: {sorted({len(each) for each in columns})}", "shape")
    return annotator, model_a, model_b, W, count


def refuse_faults(
    annotator: AnyInts, model_a: AnyInts, model_b: AnyInts, W: Floats, count: Floats | None, n_annotators: int,
    n_models: int,
) -> None:  # fmt: skip
    """Raise where a value is wrong."""
    faults = {
        "annotator out of range": (annotator < 0) | (annotator >= n_annotators),
        "model_a out of range": (model_a < 0) | (model_a >= n_models),
        "model_b out of range": (model_b < 0) | (model_b >= n_models),
        "a model against itself": model_a == model_b,
        "outcome is not 0, 0.5 or 1": ~np.isin(W, (0.0, TIE, 1.0)),
        "weight is not a positive number": np.zeros(0, dtype=bool)
        if count is None
        else ~(count > 0.0) | np.isinf(count),
    }
    for name, rows in faults.items():
        if rows.any():
            raise VotesError(f"{name} (row {int(np.argmax(rows))})", "value")
    with np.errstate(over="ignore"):
        if count is not None and not np.isfinite(count.sum()):
            raise VotesError("the weights are so large that their sum overflows", "value")


def _indices(values: AnyInts) -> AnyInts:
    """Return signed integers of 32 or 64 bits; such arrays are returned unchanged."""
    values = np.asarray(values)
    if values.dtype in (np.int32, np.int64):
        return values
    if values.dtype.kind not in "iu" and values.size:  # an empty list has the type of a float
        raise VotesError(f"annotators and models must be integers, not {values.dtype}", "type")
    return values.astype(np.int64)
