from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.sampling.pair_weights import PairWeights, calibration_weights, pair_positions, pair_row

LEAST_LEFT = 0.5  # mass of the pairs that may be drawn, above which the others are drawn too and rejected


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
    full = min(1.0, height.max())  # equal weights may all come out just below 1
    light, heavy = np.flatnonzero(height < full), np.flatnonzero(height >= full)
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


class DrawnPair(NamedTuple):
    """The pair of the next battle; the caller draws which model is on the left.

    Attributes
    ----------
    model_a, model_b : identities
    propensity : probability with which exactly this pair was drawn, all circumstances of the draw given
    calibrating : whether it was drawn to learn about the annotator
    """

    model_a: int
    model_b: int
    propensity: float
    calibrating: bool


class PairSampler:
    """Draws pairs from a table of weights in constant time. It never changes, so threads may share it.

    Parameters
    ----------
    weights : of at least two models
    """

    def __init__(self, weights: PairWeights) -> None:
        if not len(weights.weight):
            raise ValueError("a battle needs at least two models")
        self.weights = weights
        first, second = pair_positions(len(weights.models))
        self._model_a, self._model_b = weights.models[first], weights.models[second]
        self._policy = alias_table(weights.weight.astype(np.float64))
        informative = calibration_weights(weights.R)
        self._calibration = alias_table(informative) if informative.any() else None
        self._place = {int(model): i for i, model in enumerate(weights.models)}
        i = np.arange(len(weights.models))
        self._before: list[int] = (pair_row(i, i + 1, len(i)) - i - 1).tolist()  # rows of i begin here, less i + 1

    def draw(self, random: Random, *, avoid: Collection[tuple[int, int]] = (), calibration: float = 0.0) -> DrawnPair:
        """Draw the pair of the next battle.

        Parameters
        ----------
        avoid : pairs of identities, in either order, that must not be drawn; ignored where no other pair is left
        calibration : probability that the pair is drawn for its information on the annotator
        """
        avoided = self._rows(avoid)
        if len(avoided) == len(self._model_a):
            avoided = []
        policy, informative = _Rest(self._policy, avoided), None
        if self._calibration is not None and calibration > 0.0:
            informative = _Rest(self._calibration, avoided)
        if informative is None or informative.mass <= 0.0:
            row = policy.draw(random)
            return self._drawn(row, policy.propensity(row), calibrating=False)
        calibrating = random.random() < calibration
        row = (informative if calibrating else policy).draw(random)
        propensity = (1.0 - calibration) * policy.propensity(row) + calibration * informative.propensity(row)
        return self._drawn(row, propensity, calibrating=calibrating)

    def _drawn(self, row: int, propensity: float, *, calibrating: bool) -> DrawnPair:
        return DrawnPair(int(self._model_a[row]), int(self._model_b[row]), propensity, calibrating)

    def _rows(self, pairs: Collection[tuple[int, int]]) -> list[int]:
        """Return the rows of the pairs that are in the table, each once."""
        rows: set[int] = set()
        for one, other in pairs:  # few: arrays of them would take ten times as long
            i, j = self._place.get(one), self._place.get(other)
            if i is not None and j is not None and i != j:
                rows.add(self._before[i] + j if i < j else self._before[j] + i)
        return sorted(rows)


class _Rest:
    """A distribution over the rows that are not avoided."""

    def __init__(self, table: AliasTable, avoided: list[int]) -> None:
        self._table, self._avoided = table, frozenset(avoided)
        self._rest: Floats | None = None
        self.mass = 1.0 - float(table.probability[avoided].sum()) if avoided else 1.0
        if self.mass < LEAST_LEFT:
            rest = table.probability.copy()
            rest[avoided] = 0.0
            self._rest = np.cumsum(rest)
            self.mass = float(self._rest[-1])

    def draw(self, random: Random) -> int:
        """Draw a row: reject and repeat, or where that would take long, from the rest alone."""
        if self._rest is not None:
            return int(np.searchsorted(self._rest, random.random() * self.mass, side="right"))
        while (row := self._table.draw(random)) in self._avoided:
            pass
        return row

    def propensity(self, row: int) -> float:
        """Return the probability of a row that is not avoided."""
        return float(self._table.probability[row]) / self.mass
