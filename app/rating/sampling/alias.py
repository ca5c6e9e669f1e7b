"""Draws from a discrete distribution in constant time."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from app.rating.data.arrays import Floats, Indices


class Random(Protocol):
    """A source of uniform numbers: `random.SystemRandom`, or a numpy Generator."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...


@dataclass(frozen=True)
class AliasTable:
    """A distribution over 0 … n−1 as n equally likely buckets, each shared by two outcomes.

    Attributes
    ----------
    probability : of the outcomes, sum 1, shape (n,)
    own : share of bucket i that is outcome i, shape (n,)
    other : the outcome of the rest of bucket i, shape (n,)
    """

    probability: Floats
    own: Floats
    other: Indices

    def draw(self, random: Random) -> int:
        """Draw an outcome."""
        place = random.random() * len(self.own)
        bucket = int(place)
        return bucket if place - bucket < self.own[bucket] else int(self.other[bucket])


def alias_table(weights: Floats) -> AliasTable:
    """Build the table of outcomes with these weights.

    Parameters
    ----------
    weights : not negative, with a positive sum, shape (n,), n ≥ 1

    Notes
    -----
    O(n). Outcomes with less than the mean weight fill their buckets from the first outcome with more that has some
    left; after it, the next one's turn comes. Cumulative sums find at once who fills which bucket.

    References
    ----------
    Walker, ACM Transactions on Mathematical Software 3 (1977); Hübschle-Schneider and Sanders, Parallel Weighted Random
    Sampling, ACM Transactions on Mathematical Software 48 (2022), §4.2, for the construction by sums.
    """
    probability = np.asarray(weights, dtype=np.float64) / np.sum(weights, dtype=np.float64)
    size = len(probability)
    height = probability * size
    light, heavy = np.flatnonzero(height < 1.0), np.flatnonzero(height >= 1.0)
    own, other = height.copy(), np.arange(size)
    # What the light outcomes lack, in all, before each of them and after the last; and what the heavy ones have left.
    lacking, left = np.append(0.0, np.cumsum(1.0 - height[light])), np.cumsum(height[heavy] - 1.0)
    before = lacking[:-1]
    filler = np.searchsorted(left, before, side="right")
    other[light] = heavy[np.minimum(filler, len(heavy) - 1)]
    # A heavy outcome's own bucket holds what is left after the last light one that it fills; the next fills the rest.
    own[heavy] = left + 1.0 - lacking[np.searchsorted(before, left, side="left")]
    other[heavy] = np.append(heavy[1:], heavy[-1])
    return AliasTable(probability, np.clip(own, 0.0, 1.0), other)
