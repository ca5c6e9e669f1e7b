from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.rating.errors import VotesError
from app.rating.sums import sum_by, sum_by_key

TIE = 0.5  # W of a tie


@dataclass(frozen=True)
class Cells:
    """Votes collapsed to one row per (annotator, unordered pair of models), sorted by annotator, then pair.

    Attributes
    ----------
    annotator, model_a, model_b : int32 arrays, shape (n_cells,)
        Indices; model_a < model_b in every row.
    n : float64 array, shape (n_cells,)
        Votes in the cell, > 0 (whole numbers unless votes were weighted).
    s : float64 array, shape (n_cells,)
        Sum of W over the cell's votes: 1 where model_a won, 0.5 for a tie, 0 where model_b won.
    ties : float64 array, shape (n_cells,)
        How many of the votes were ties of either kind.
    n_annotators, n_models : int
        Sizes of the index spaces; an index without a cell is allowed.
    """

    annotator: NDArray[np.int32]
    model_a: NDArray[np.int32]
    model_b: NDArray[np.int32]
    n: NDArray[np.float64]
    s: NDArray[np.float64]
    ties: NDArray[np.float64]
    n_annotators: int
    n_models: int

    @property
    def n_votes(self) -> float:
        """Total number of votes (or of their weights)."""
        return float(self.n.sum())

    def votes_by_annotator(self) -> NDArray[np.float64]:
        """Votes of each annotator, shape (n_annotators,)."""
        return sum_by(self.annotator, self.n, self.n_annotators)

    def where(self, keep: NDArray[np.bool_]) -> "Cells":
        """Return the cells for which `keep`, shape (n_cells,), is true; index spaces stay as they are."""
        return Cells(
            self.annotator[keep], self.model_a[keep], self.model_b[keep],
            self.n[keep], self.s[keep], self.ties[keep], self.n_annotators, self.n_models,
        )  # fmt: skip


def aggregate(
    annotator: NDArray[np.integer],
    model_a: NDArray[np.integer],
    model_b: NDArray[np.integer],
    outcome: NDArray[np.floating],
    *,
    n_annotators: int,
    n_models: int,
    weight: NDArray[np.floating] | None = None,
) -> Cells:
    """Collapse votes to cells; the result does not depend on the order of the votes or on the side of a model.

    Parameters
    ----------
    annotator, model_a, model_b : integer arrays, shape (n_votes,)
        Indices in [0, n_annotators) and [0, n_models).
    outcome : float array, shape (n_votes,)
        W: 1 where model_a won, 0.5 for a tie, 0 where model_b won.
    weight : float array, shape (n_votes,), optional
        How many votes a row stands for; finite and > 0. Default 1.

    Raises
    ------
    VotesError
        Arrays of different length, an index out of range, a model against itself, an outcome other than
        0, 0.5 and 1, or a weight that is not a positive number. The message names the first such row.
    """
    annotator, model_a, model_b = (np.asarray(x) for x in (annotator, model_a, model_b))
    W = np.asarray(outcome, dtype=np.float64)
    counted = np.ones(len(W)) if weight is None else np.asarray(weight, dtype=np.float64)
    _check(annotator, model_a, model_b, W, counted, n_annotators, n_models)

    swapped = model_a > model_b
    first = np.where(swapped, model_b, model_a).astype(np.int64)
    second = np.where(swapped, model_a, model_b).astype(np.int64)
    won = np.where(swapped, 1.0 - W, W)
    key = (annotator.astype(np.int64) * n_models + first) * n_models + second
    size = n_annotators * n_models * n_models
    cell, (n, s, ties) = sum_by_key(key, size, counted, counted * won, counted * (W == TIE))
    pair = cell % (n_models * n_models)
    return Cells(
        annotator=(cell // (n_models * n_models)).astype(np.int32),
        model_a=(pair // n_models).astype(np.int32),
        model_b=(pair % n_models).astype(np.int32),
        n=n,
        s=s,
        ties=ties,
        n_annotators=n_annotators,
        n_models=n_models,
    )


def _check(
    annotator: NDArray[np.integer],
    model_a: NDArray[np.integer],
    model_b: NDArray[np.integer],
    outcome: NDArray[np.float64],
    weight: NDArray[np.float64],
    n_annotators: int,
    n_models: int,
) -> None:
    sizes = {len(x) for x in (annotator, model_a, model_b, outcome, weight)}
    if len(sizes) > 1:
        raise VotesError(f"the vote arrays differ in length: {sorted(sizes)}")
    if n_annotators * n_models * n_models > np.iinfo(np.int64).max:
        raise VotesError(f"{n_annotators} annotators × {n_models} models are more than 64-bit cells can name")
    faults = {
        "annotator out of range": (annotator < 0) | (annotator >= n_annotators),
        "model_a out of range": (model_a < 0) | (model_a >= n_models),
        "model_b out of range": (model_b < 0) | (model_b >= n_models),
        "a model against itself": model_a == model_b,
        "outcome is not 0, 0.5 or 1": ~np.isin(outcome, (0.0, TIE, 1.0)),
        "weight is not a positive number": ~(np.isfinite(weight) & (weight > 0)),
    }
    for name, rows in faults.items():
        if rows.any():
            raise VotesError(f"{name} (row {int(np.argmax(rows))})")
