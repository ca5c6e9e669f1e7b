"""What the answers of a vote differ in, beside their models: the side, the length, lists."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.rating.arrays import AnyInts, Floats, Indices, Mask, sum_by
from app.rating.errors import VotesError
from app.rating.votes.cells import Cells, Compact, aggregate, find_places
from app.rating.votes.columns import TIE
from app.rating.votes.indexed import IndexedVotes
from app.rating.votes.measures import Features

LEAST_WITHIN = 0.05  # share of a feature's variance that lies within pairs of models, below which scores absorb it


def featured_cells(votes: IndexedVotes, features: Features, small: Compact) -> Cells:
    """Return the votes that a fit counted one by one, with their features.

    Parameters
    ----------
    small : the cells of the fit; votes outside are left out
    """
    cells, size = small.cells, len(small.models)
    model, annotator = (
        find_places(kept, len(names))
        for kept, names in ((small.models, votes.models), (small.annotators, votes.annotators))
    )
    k, left, right = annotator[votes.annotator], model[votes.model_a], model[votes.model_b]
    kept = np.flatnonzero((k >= 0) & (left >= 0) & (right >= 0))
    order = kept[np.argsort(k[kept], kind="stable")]
    k, left, right = k[order], left[order], right[order]
    a, b, sign = np.minimum(left, right), np.maximum(left, right), np.where(left < right, 1.0, -1.0)
    W, n = 0.5 + sign * (votes.outcome[order] - 0.5), _weights(votes, order)
    trust = cells.trust
    if trust is not None:
        own, theirs = ((x.astype(np.int64) * size + y) * size + z for x, y, z in (
            (k, a, b), (cells.annotator, cells.model_a, cells.model_b)
        ))  # fmt: skip
        trust = trust[np.searchsorted(theirs, own)]
    z = sign[:, None] * features.values[order]
    return Cells(k, a, b, n, n * W, n * (W == TIE), cells.n_annotators, size, trust, z)


def single_cells(votes: IndexedVotes, values: Floats, keep: Mask) -> Cells:
    """Return the votes for which `keep` is true one by one, with features, model_a on the left.

    Parameters
    ----------
    values : shape (n_votes, n_features)
    """
    kept = np.flatnonzero(keep)
    order = kept[np.argsort(votes.annotator[kept], kind="stable")]
    (k, left, right), W = (x[order] for x in (votes.annotator, votes.model_a, votes.model_b)), votes.outcome[order]
    n = _weights(votes, order)
    sizes = len(votes.annotators), len(votes.models)
    return Cells(k, left, right, n, n * W, n * (W == TIE), *sizes, features=values[order])


def refuse_constant(cells: Cells, names: Sequence[str]) -> None:
    """Refuse features that hardly vary between the votes on a pair of models: scores could stand for them as well.

    Raises
    ------
    VotesError
    """
    if cells.features is None:
        return
    size = cells.n_models**2
    pair = cells.model_a.astype(np.int64) * cells.n_models + cells.model_b
    if size > len(pair):
        pairs, pair = np.unique(pair, return_inverse=True)
        size = len(pairs)
    count = np.maximum(sum_by(pair, cells.n, size), np.finfo(float).tiny)
    for name, z in zip(names, cells.features.T, strict=True):
        weighted = cells.n * z
        between = float(np.sum(sum_by(pair, weighted, size) ** 2 / count) / (weighted @ z))
        within = max(1.0 - between, 0.0)
        if within < LEAST_WITHIN:
            raise VotesError(
                f"the feature {name} hardly varies within pairs of models ({within:.0%} of its variance): its effect "
                "cannot be told from the models' scores",
                "value",
            )


def _weights(votes: IndexedVotes, rows: Indices) -> Floats:
    return np.ones(len(rows)) if votes.weight is None else votes.weight[rows]


def features_of(cells: Cells) -> Floats:
    """Return the features of votes that have some, shape (n_cells, n_features)."""
    if cells.features is None:
        raise ValueError("the votes have no features")
    return cells.features


@dataclass(frozen=True)
class SidedCells:
    """Cells with the side of their first model: one row for each (annotator, pair, side).

    Attributes
    ----------
    cells : sorted by annotator
    side : 1 where model_a was shown on the left, −1 on the right, 0 where it is not known, shape (n_cells,)
    """

    cells: Cells
    side: Floats

    @classmethod
    def unknown(cls, cells: Cells) -> "SidedCells":
        """Return cells whose sides are not known."""
        return cls(cells, np.zeros(len(cells.n)))

    @classmethod
    def of_votes(
        cls,
        annotator: AnyInts,
        left: AnyInts,
        right: AnyInts,
        outcome: Floats,
        *,
        n_annotators: int,
        n_models: int,
        weight: Floats | None = None,
    ) -> "SidedCells":
        """Collapse votes to cells, apart by side.

        Parameters
        ----------
        annotator, left, right, outcome, weight : as for `app.rating.votes.cells.aggregate`; outcome is W for the left
            model
        """
        on_left = np.asarray(left) < np.asarray(right)
        twice = 2 * np.asarray(annotator, dtype=np.int64) + on_left  # each annotator as two, one for each side
        apart = aggregate(twice, left, right, outcome, n_annotators=2 * n_annotators, n_models=n_models, weight=weight)
        side = np.where(apart.annotator & 1, 1.0, -1.0)
        cells = replace(apart, annotator=apart.annotator >> 1, n_annotators=n_annotators, kind="side")
        return cls(cells, side)

    @classmethod
    def of_indexed(cls, votes: IndexedVotes) -> "SidedCells":
        """Collapse indexed votes to cells, apart by side."""
        return cls.of_votes(
            votes.annotator, votes.model_a, votes.model_b, votes.outcome,
            n_annotators=len(votes.annotators), n_models=len(votes.models), weight=votes.weight,
        )  # fmt: skip

    @property
    def known(self) -> bool:
        """Whether the sides are known."""
        return bool(self.side.any())

    def where(self, keep: Mask) -> "SidedCells":
        """Return the cells for which `keep`, shape (n_cells,), is true."""
        return self if keep.all() else SidedCells(self.cells.where(keep), self.side[keep])
