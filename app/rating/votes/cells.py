from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import AnyInts, Floats, Indices, Ints, Mask, sum_by, sum_by_key
from app.rating.errors import VotesError
from app.rating.exchange import ASSOCIATIVE, join
from app.rating.threads import count_parts
from app.rating.votes.columns import OUTCOME_BITS, as_columns, refuse_faults

CELLS_WORTH_A_THREAD = 50_000
SORTABLE_BITS = 63  # of a signed 64-bit integer
LARGEST_INDEX = np.iinfo(np.int32).max  # that `Cells` can hold


class CellArrays(NamedTuple):
    """Cells as compiled loops read them: the arrays of `Cells`, and `starts`."""

    starts: Indices
    annotator: Ints
    model_a: Ints
    model_b: Ints
    n: Floats
    s: Floats
    ties: Floats


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
    trust : float64 array, shape (n_cells,), or None
        How often each of a cell's votes counts in a fit that weighs votes, in (0, 1]; None: once. Elsewhere in full.
    features : float64 array, shape (n_cells, n_features), or None
        What answers differ in, model_a's less model_b's. Then a pair has a row for each of its votes.
    kind : what a row is
        "cell": as above; "side": a pair has one for each side that model_a was shown on; "pair": of the pair table.

    The arrays may be shared with other Cells: do not write to them.
    """

    annotator: Ints
    model_a: Ints
    model_b: Ints
    n: Floats
    s: Floats
    ties: Floats
    n_annotators: int
    n_models: int
    trust: Floats | None = None
    features: Floats | None = None
    kind: Literal["cell", "side", "pair"] = "cell"

    @property
    def n_votes(self) -> float:
        """Total number of votes (or of their weights)."""
        return float(self.n.sum())

    @property
    def wins_a(self) -> Floats:
        """Votes for model_a in each cell, shape (n_cells,)."""
        return self.s - self.ties / 2.0

    @property
    def wins_b(self) -> Floats:
        """Votes for model_b in each cell, shape (n_cells,)."""
        return self.n - self.s - self.ties / 2.0

    def votes_by_annotator(self) -> Floats:
        """Votes of each annotator, shape (n_annotators,)."""
        return sum_by(self.annotator, self.n, self.n_annotators)

    @cached_property
    def starts(self) -> Indices:
        """Index of each annotator's first cell, and the number of cells at the end, shape (n_annotators + 1,)."""
        ends = np.arange(self.n_annotators + 1, dtype=self.annotator.dtype)  # another type would copy all cells
        return np.searchsorted(self.annotator, ends).astype(np.int64)

    @property
    def pairs(self) -> "Cells":
        """The pair table, as if one annotator had cast all votes, those of other parts included."""
        return join(_add_pairs, self._own_pairs)  # not kept: other parts may have other cells, and so ask for theirs

    @cached_property
    def _own_pairs(self) -> "Cells":
        return _sum_pairs(self)

    @cached_property
    def arrays(self) -> CellArrays:
        """The cells for a compiled loop."""
        return CellArrays(self.starts, self.annotator, self.model_a, self.model_b, self.n, self.s, self.ties)

    def of_annotators(self, first: int, last: int) -> "Cells":
        """Return the cells of annotators first … last−1, these numbered from 0."""
        here = self._at(slice(int(self.starts[first]), int(self.starts[last])))
        return replace(here, annotator=here.annotator - here.annotator.dtype.type(first), n_annotators=last - first)

    def split_annotators(self, number: int | None = None) -> list[tuple[int, int]]:
        """Return (first, last + 1) annotator of parts with about equally many cells, whose sums add up on threads.

        Parameters
        ----------
        number : most parts; default by the number of cells
        """
        if number is None:
            number = count_parts(len(self.n), max(CELLS_WORTH_A_THREAD, min(self.n_models**2, len(self.n))))
        cuts = np.searchsorted(self.starts, np.linspace(0, len(self.n), number + 1)[1:-1])
        edges = [0, *(int(cut) for cut in cuts), self.n_annotators]
        return [(a, b) for a, b in pairwise(edges) if b > a] or [(0, 0)]

    def trusted(self) -> "Cells":
        """Return the votes as a fit that weighs votes counts them: each times its trust."""
        if self.trust is None:
            return self
        return replace(self, n=self.trust * self.n, s=self.trust * self.s, ties=self.trust * self.ties, trust=None)

    def merged(self) -> "Cells":
        """Return the votes without their sides: one row per (annotator, pair)."""
        if self.kind != "side":
            return self
        size = self.n_models
        key = (self.annotator.astype(np.int64) * size + self.model_a) * size + self.model_b
        key, (n, s, ties) = sum_by_key(key, self.n_annotators * size**2, self.n, self.s, self.ties)
        k, pair = np.divmod(key, size**2)
        pairs = pair_cells(pair, n, s, ties, size)
        return replace(pairs, annotator=k.astype(np.int32), n_annotators=self.n_annotators, kind="cell")

    def where(self, keep: Mask) -> "Cells":
        """Return the cells for which `keep`, shape (n_cells,), is true; index spaces stay as they are."""
        return self if keep.all() else self._at(keep)

    def _at(self, rows: slice | Mask) -> "Cells":
        columns = ("annotator", "model_a", "model_b", "n", "s", "ties", "trust", "features")
        given = {name: column for name in columns if (column := getattr(self, name)) is not None}
        return replace(self, **{name: column[rows] for name, column in given.items()})


def aggregate(
    annotator: AnyInts,
    model_a: AnyInts,
    model_b: AnyInts,
    outcome: NDArray[np.floating],
    *,
    n_annotators: int,
    n_models: int,
    weight: NDArray[np.floating] | None = None,
) -> Cells:
    """Collapse votes to cells; neither the order of the votes nor the side of a model matters.

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
        Arrays of different length, indices that are not integers, an index out of range, a model against itself, an
        outcome other than 0, 0.5 and 1, or a weight that is not a positive number: the message names the first such
        row. Also weights whose sum overflows, and more annotators or models than 32-bit indices can number.

    Notes
    -----
    Each vote is packed into one integer; those are sorted, and equal cells merged.
    """
    n_annotators, n_models = int(n_annotators), int(n_models)
    bits = max(1, (n_models - 1).bit_length())
    if n_annotators.bit_length() + 2 * bits + OUTCOME_BITS >= SORTABLE_BITS:
        raise VotesError(f"{n_annotators} annotators × {n_models} models do not fit into 64-bit cells", "too-many")
    if (most := max(n_annotators, n_models)) > LARGEST_INDEX:
        raise VotesError(f"{most} annotators or models do not fit into 32-bit indices", "too-many")
    from app.rating.votes.packing import merge_votes, pack_votes  # noqa: PLC0415  numba, without which servers start

    columns = as_columns(annotator, model_a, model_b, outcome, weight)
    *indices, W, weight = columns
    packed = np.empty(len(W), dtype=np.int64)
    k, a, b = (np.require(each, np.int64, ("C", "W")) for each in indices)  # of one type: the loop is compiled once
    W = np.require(W, np.float64, ("C", "W"))
    if not pack_votes(k, a, b, W, n_annotators, n_models, bits, packed) or weight is not None:
        refuse_faults(*columns, n_annotators, n_models)
    if weight is None:
        packed.sort()
        weight = np.empty(0)
    else:
        order = np.argsort(packed, kind="stable")
        packed, weight = packed[order], weight[order]
    return Cells(*merge_votes(packed, weight, bits), n_annotators, n_models)


def stack_cells(parts: Sequence[Cells], *, apart: bool = False) -> Cells:
    """Return the votes of several parts, a row for each cell of each, sorted by annotator.

    Parameters
    ----------
    apart : whether the models of each part are numbered after those of the one before
    """
    size, names = parts[0].n_models, ("annotator", "model_a", "model_b", "n", "s", "ties")
    columns: dict[str, Any] = {name: np.concatenate([getattr(cells, name) for cells in parts]) for name in names}
    if apart:
        shift = np.repeat(np.arange(len(parts), dtype=np.int32) * size, [len(cells.n) for cells in parts])
        columns |= {name: columns[name] + shift for name in ("model_a", "model_b")}
    order = np.argsort(columns["annotator"], kind="stable")
    stacked: dict[str, Any] = {name: column[order] for name, column in columns.items()}
    n_models = size * len(parts) if apart else size
    return replace(parts[0], trust=None, features=None, n_models=n_models, **stacked)


def pair_cells(pair: Indices, n: Floats, s: Floats, ties: Floats, n_models: int) -> Cells:
    """Return cells of one annotator; `pair` is model_a · n_models + model_b, ascending."""
    return Cells(
        annotator=np.zeros(len(pair), dtype=np.int32),
        model_a=(pair // n_models).astype(np.int32),
        model_b=(pair % n_models).astype(np.int32),
        n=n,
        s=s,
        ties=ties,
        n_annotators=1,
        n_models=n_models,
        kind="pair",
    )


def _sum_pairs(cells: Cells) -> Cells:
    key = cells.model_a.astype(np.int64) * cells.n_models + cells.model_b
    pair, (n, s, ties) = sum_by_key(key, cells.n_models**2, cells.n, cells.s, cells.ties)
    return pair_cells(pair, n, s, ties, cells.n_models)


def _add_pairs(tables: list[Cells]) -> Cells:
    """Return the sum of pair tables."""
    return tables[0] if len(tables) == 1 else _sum_pairs(join_cells(tables))


ASSOCIATIVE.add(_add_pairs)


def join_cells(parts: Sequence[Cells]) -> Cells:
    """Return the cells of several parts as one; the annotators of a part are numbered from those before on."""
    first, number = parts[0], sum(cells.n_annotators for cells in parts)
    before = np.cumsum([0, *(cells.n_annotators for cells in parts)], dtype=np.int32)
    annotator = [cells.annotator + k for cells, k in zip(parts, before[:-1], strict=True)]
    names = ("model_a", "model_b", "n", "s", "ties", *(("trust",) if first.trust is not None else ()))
    given: dict[str, Any] = {name: np.concatenate([getattr(cells, name) for cells in parts]) for name in names}
    return replace(first, annotator=np.concatenate(annotator), n_annotators=number, **given)


@dataclass(frozen=True)
class Compact:
    """Cells renumbered to the models and annotators that occur in them.

    Attributes
    ----------
    cells : with indices 0 … n−1 and no gaps
    models, annotators : the original index of each new one, ascending
    """

    cells: Cells
    models: Indices
    annotators: Indices


def compact(cells: Cells, present: Mask | None = None) -> Compact:
    """Drop the models and annotators that have no cell.

    Parameters
    ----------
    present : which models have a cell, shape (n_models,); default: found from the cells
    """
    if present is None:
        pairs = pool_annotators(cells)
        present = np.zeros(cells.n_models, dtype=bool)
        present[pairs.model_a] = present[pairs.model_b] = True
    models = np.flatnonzero(present)
    annotators = np.flatnonzero(np.diff(cells.starts))
    if len(models) == cells.n_models and len(annotators) == cells.n_annotators:
        return Compact(cells, models, annotators)
    return Compact(renumber(cells, models, annotators), models, annotators)


def renumber(cells: Cells, models: Indices, annotators: Indices) -> Cells:
    """Return the votes of these annotators between these models, renumbered by their places among them."""
    model, annotator = find_places(models, cells.n_models), find_places(annotators, cells.n_annotators)
    k, a, b = annotator[cells.annotator], model[cells.model_a], model[cells.model_b]
    found = replace(cells, annotator=k, model_a=a, model_b=b, n_annotators=len(annotators), n_models=len(models))
    return found.where((k >= 0) & (a >= 0) & (b >= 0))


def find_places(kept: Indices, size: int) -> Ints:
    """Return the place of each of 0 … size−1 among those kept, −1 for the others, shape (size,)."""
    place = np.full(size, -1, dtype=np.int32)
    place[kept] = np.arange(len(kept), dtype=np.int32)
    return place


def pool_annotators(cells: Cells) -> Cells:
    """Merge all annotators into one: the pair table, at most n_models² / 2 cells."""
    return cells if cells.kind == "pair" else cells.pairs
