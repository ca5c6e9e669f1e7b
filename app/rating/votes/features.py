"""What the answers of a vote differ in, beside their models: the side, the length, lists."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Indices, Ints, Mask, sum_by
from app.rating.errors import VotesError
from app.rating.votes.cells import TIE, Cells
from app.rating.votes.compact import Compact
from app.rating.votes.indexed import IndexedVotes

SIDE = "side"
MAX_FEATURES = 16  # of a vote, or of a policy
LEAST_WITHIN = 0.05  # share of a feature's variance that lies within pairs of models, below which scores absorb it


@dataclass(frozen=True)
class Features:
    """Features of votes.

    Attributes
    ----------
    names : of the columns of `values`
    values : of the left answer less the right one, shape (n_votes, n_features)
    """

    names: tuple[str, ...]
    values: Floats


def measure_features(names: Sequence[str], columns: Mapping[str, tuple[Floats, Floats]], votes: int) -> Features:
    """Return the features of votes from the measures of both answers.

    Counts a and b, which are never negative, become (a − b)/(a + b), other measures a − b; each is divided by its root
    mean square. The feature `side` needs no column: it is 1, in favour of the left answer.

    Parameters
    ----------
    names : at least one, each once
    columns : name → measures of the left and the right answers, shape (n_votes,) each
    votes : number of votes

    Raises
    ------
    VotesError
        A name is repeated, a feature has no column, or it never differs.
    """
    if repeated := [name for name in names if list(names).count(name) > 1]:
        raise VotesError(f"the feature {repeated[0]} is given twice", "value")
    values = np.ones((votes, len(names)))
    for place, name in enumerate(names):
        if name == SIDE:
            continue
        if name not in columns:
            raise VotesError(f"missing columns: {name}_a, {name}_b, for the feature {name}", "column")
        left, right = columns[name]
        difference, total = left - right, left + right
        if min(left.min(initial=0.0), right.min(initial=0.0)) >= 0.0:
            difference = np.divide(difference, total, out=np.zeros(votes), where=total > 0.0)
        size = float(np.sqrt(np.mean(difference**2)))
        if size == 0.0:
            raise VotesError(f"the feature {name} never differs between the two answers", "value")
        values[:, place] = difference / size
    return Features(tuple(names), values)


def measure_known(columns: Mapping[str, tuple[Floats, Floats]]) -> Features | None:
    """Return the features that some votes have and differ in, NaN for votes that lack one; None without any.

    Parameters
    ----------
    columns : as for `measure_features`, NaN where a vote has no measure
    """
    read = {name: both for name, both in columns.items() if np.isfinite(both[0] - both[1]).any()}
    if not read:
        return None
    whole: Mask = np.all([np.isfinite(left - right) for left, right in read.values()], axis=0)
    kept = {name: (a[whole], b[whole]) for name, (a, b) in read.items() if (a != b)[whole].any()}
    if not kept:
        return None
    values = np.full((len(whole), len(kept)), np.nan)
    values[whole] = measure_features(tuple(kept), kept, int(whole.sum())).values
    return Features(tuple(kept), values)


def featured_cells(votes: IndexedVotes, features: Features, small: Compact, weight: Floats) -> tuple[Cells, Cells]:
    """Return the votes that a fit counted one by one, with their features: weighted as in the fit, and unweighted.

    Parameters
    ----------
    small : the cells of the fit; votes outside are left out
    weight : of a vote of each of its cells, shape (n_cells,)
    """
    size, cells = len(small.models), small.cells
    model, annotator = _places(small.models, len(votes.models)), _places(small.annotators, len(votes.annotators))
    k, left, right = annotator[votes.annotator], model[votes.model_a], model[votes.model_b]
    kept = np.flatnonzero((k >= 0) & (left >= 0) & (right >= 0))
    order = kept[np.argsort(k[kept], kind="stable")]
    k, left, right, outcome = k[order], left[order], right[order], votes.outcome[order]
    turned = left > right
    a, b = np.where(turned, right, left), np.where(turned, left, right)
    n = np.ones(len(order)) if votes.weight is None else votes.weight[order]
    cell = np.searchsorted(_key(cells.annotator, cells.model_a, cells.model_b, size), _key(k, a, b, size))
    z = np.where(turned[:, None], -features.values[order], features.values[order])
    W = np.where(turned, 1.0 - outcome, outcome)

    def count(n: Floats) -> Cells:
        trust = None if cells.trust is None else cells.trust[cell]
        return Cells(k, a, b, n, n * W, n * (outcome == TIE), cells.n_annotators, size, trust, z)

    return count(n * weight[cell]), count(n)


def refuse_constant(cells: Cells, names: Sequence[str]) -> None:
    """Refuse features that hardly vary between the votes on a pair of models: scores could stand for them as well.

    Raises
    ------
    VotesError
    """
    if cells.features is None:
        return
    pair, size = cells.model_a.astype(np.int64) * cells.n_models + cells.model_b, cells.n_models**2
    pairs, row = np.unique(pair, return_inverse=True) if size > len(pair) else (np.arange(size), pair)
    count = np.maximum(sum_by(row, cells.n, len(pairs)), np.finfo(float).tiny)
    for name, z in zip(names, cells.features.T, strict=True):
        away = z - (sum_by(row, cells.n * z, len(pairs)) / count)[row]
        within = float(cells.n @ away**2 / (cells.n @ z**2))
        if within < LEAST_WITHIN:
            raise VotesError(
                f"the feature {name} hardly varies within pairs of models ({within:.0%} of its variance): its effect "
                "cannot be told from the models' scores",
                "value",
            )


def _places(kept: Indices, size: int) -> Ints:
    place: Ints = np.full(size, -1, dtype=np.int32)
    place[kept] = np.arange(len(kept), dtype=np.int32)
    return place


def _key(annotator: Ints, a: Ints, b: Ints, size: int) -> Indices:
    key: Indices = (annotator.astype(np.int64) * size + a) * size + b
    return key
