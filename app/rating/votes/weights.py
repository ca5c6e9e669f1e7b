"""Columns that say how many votes a row stands for: a row of weight w is w equal rows of the same annotator."""

import re
from collections.abc import Collection, Iterable

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
