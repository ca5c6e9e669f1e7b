"""What a vote says beside its outcome: measures of both answers, and its weight. Servers load it: no numba."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Mask
from app.rating.errors import VotesError
from app.rating.settings import SIDE


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

    @classmethod
    def none(cls, votes: int) -> "Features":
        """Return no features, of so many votes."""
        return cls((), np.zeros((votes, 0)))


def measure_features(
    names: Sequence[str], columns: Mapping[str, tuple[Floats, Floats]], votes: int, weight: Floats | None = None
) -> Features:
    """Return the features of votes from the measures of both answers.

    Counts a and b, which are never negative, become (a − b)/(a + b), other measures a − b; each is divided by its root
    mean square. The feature `side` needs no column: it is 1, in favour of the left answer.

    Parameters
    ----------
    names : at least one, each once
    columns : name → measures of the left and the right answers, shape (n_votes,) each
    votes : number of votes
    weight : how often each counts, shape (n_votes,); default once

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
        size = float(np.sqrt(np.average(difference**2, weights=weight)))
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


WEIGHT = "weight"

_UNCLEAR = frozenset(
    {
        "weight", "weights", "count", "counts", "n", "nvotes", "numvotes", "votes", "votecount", "freq", "freqs",
        "frequency", "multiplicity", "repeats",
    }
)  # fmt: skip


def find_unclear(columns: Iterable[str], used: Collection[str] = ()) -> list[str]:
    """Return the columns that may say how many votes a row stands for, where none is named weight.

    Parameters
    ----------
    used : columns with another meaning
    """
    names = list(columns)
    if WEIGHT in names:
        return []
    return [name for name in names if name not in used and re.sub(r"[^a-z0-9]", "", str(name).lower()) in _UNCLEAR]
