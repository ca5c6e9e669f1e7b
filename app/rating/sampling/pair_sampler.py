from array import array
from bisect import bisect_right
from collections.abc import Collection
from typing import NamedTuple, Protocol

import numpy as np

from app.rating.arrays import Floats
from app.rating.sampling.pair_weights import PairWeights, calibration_weights, pair_positions, pair_row

LEAST_LEFT = 0.5  # mass of the pairs that may be drawn, below which it is summed: a difference from 1 has lost digits


class Random(Protocol):
    """A source of uniform numbers: `random.SystemRandom`, or a numpy Generator."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...


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
    """Draws pairs from a table of weights in microseconds. It never changes, so threads may share it.

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
        self._policy = _Table(weights.weight.astype(np.float64))
        informative = calibration_weights(weights.R)
        self._calibration = _Table(informative) if informative.any() else None
        self._place = {int(model): i for i, model in enumerate(weights.models)}

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
        """Return the rows of the pairs that are in the table, each once, ascending."""
        rows: set[int] = set()
        for one, other in pairs:  # few: arrays of them would take ten times as long
            i, j = self._place.get(one), self._place.get(other)
            if i is not None and j is not None and i != j:
                rows.add(pair_row(min(i, j), max(i, j), len(self._place)))
        return sorted(rows)


class _Table:
    """A distribution over rows: their probabilities, and the sums of these up to each row."""

    def __init__(self, weights: Floats) -> None:
        self.probability = weights / weights.sum()
        self.upto = array("d", np.cumsum(self.probability).tobytes())


class _Rest:
    """A distribution over the rows that are not avoided."""

    def __init__(self, table: _Table, avoided: list[int]) -> None:
        self._table, self._avoided = table, avoided
        self._taken: list[float] = np.cumsum(table.probability[avoided]).tolist() if avoided else []
        self._begins = [table.upto[row] - taken for row, taken in zip(avoided, self._taken, strict=True)]
        self.mass = 1.0 - self._taken[-1] if avoided else 1.0
        if self.mass < LEAST_LEFT:
            rest = table.probability.copy()
            rest[avoided] = 0.0
            self.mass = float(rest.sum())

    def draw(self, random: Random) -> int:
        """Draw a row: a point of the mass, past the avoided rows that come before it."""
        while True:  # rounding may lead to an avoided row, or past the last one
            point = random.random() * self.mass
            if passed := bisect_right(self._begins, point):
                point += self._taken[passed - 1]
            row = bisect_right(self._table.upto, point)
            if row < len(self._table.upto) and row not in self._avoided:
                return row

    def propensity(self, row: int) -> float:
        """Return the probability of a row that is not avoided."""
        return float(self._table.probability[row]) / self.mass
