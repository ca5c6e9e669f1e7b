"""Tables of how likely each pair of models is to be the next battle, and draws from them. It loads no scipy."""

from array import array
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import AnyInts, Floats, Indices

Halves = NDArray[np.float16]
Row = TypeVar("Row", int, Indices)


@dataclass(frozen=True)
class PairWeights:
    """How likely each pair of models is to be the next battle, up to a factor.

    Attributes
    ----------
    models : identities of the models, each once, shape (n_models,)
    weight : of the pairs (0, 1), (0, 2), … (1, 2), … of positions, positive, shape (n_models (n_models − 1)/2,).
        Half-precision, so that a table of 500 models has 250 kB. These are the probabilities of a battle, not an
        approximation of them
    R : natural units, NaN for models without a score, shape (n_models,)
    """

    models: AnyInts
    weight: Halves
    R: Floats

    def among(self, models: AnyInts) -> "PairWeights":
        """Return the table of these models alone, in this order.

        A model that is not in the table came after its snapshot. Its pairs get the largest weight that any model's
        pairs have on average, until the next snapshot knows it.

        Parameters
        ----------
        models : identities, each once
        """
        place = {int(model): i for i, model in enumerate(self.models)}
        at = np.array([place.get(int(model), -1) for model in models], dtype=np.int64)
        first, second = pair_positions(len(models))
        i, j = np.minimum(at[first], at[second]), np.maximum(at[first], at[second])
        known = i >= 0
        weight = np.full(len(i), 0.0 if known.all() else self._of_new_models())
        weight[known] = self.weight[pair_row(i[known], j[known], len(self.models))]
        R = np.where(at >= 0, self.R[at] if len(self.R) else np.nan, np.nan)
        return PairWeights(np.asarray(models), weight.astype(np.float16), R)

    def _of_new_models(self) -> float:
        if not len(self.weight):
            return 1.0
        first, second = pair_positions(len(self.models))
        size = len(self.models)
        total = np.bincount(first, self.weight, size) + np.bincount(second, self.weight, size)
        return float(total.max() / (size - 1))


def uniform_weights(models: AnyInts) -> PairWeights:
    """Return equal weights: what is known before the first snapshot."""
    models = np.asarray(models)
    pairs = len(models) * (len(models) - 1) // 2
    return PairWeights(models, np.ones(pairs, dtype=np.float16), np.full(len(models), np.nan))


def pair_positions(n_models: int) -> tuple[Indices, Indices]:
    """Return the positions of the models of each pair, in the order of a table."""
    return np.triu_indices(n_models, 1)


def pair_row(i: Row, j: Row, n_models: int) -> Row:
    """Return the rows of the pairs of positions i < j."""
    return i * (2 * n_models - i - 1) // 2 + (j - i - 1)


def calibration_weights(R: Floats) -> Floats:
    """Return the information of a battle on a typical annotator's ability: (R_i − R_j)² p_ij(1 − p_ij), at θ = 1.

    It is greatest where |R_i − R_j| = 2.4 (417 Elo points): the better model wins 92 % of such battles, so a few
    contrary votes tell a careless annotator from a careful one, and equal models tell nothing.

    Parameters
    ----------
    R : natural units of the mean annotator, NaN for models without a score, shape (n_models,)

    Returns
    -------
    float array, shape (n_models (n_models − 1)/2,), in the order of `pair_positions`
        0 for pairs with a model without a score.
    """
    first, second = pair_positions(len(R))
    difference = R[first] - R[second]
    against = np.exp(-np.abs(difference))  # the odds of the worse model
    weights: Floats = np.nan_to_num(difference**2 * against / (1.0 + against) ** 2)
    return weights


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
        self._begins = [pair_row(i, 0, len(weights.models)) for i in range(len(weights.models))]

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
        place, begins = self._place, self._begins
        for one, other in pairs:  # few: arrays of them would take ten times as long
            i, j = place.get(one), place.get(other)
            if i is not None and j is not None and i != j:
                rows.add(begins[i] + j if i < j else begins[j] + i)
        return sorted(rows)


class _Table:
    """A distribution over rows: their probabilities, and the sums of these up to each row."""

    def __init__(self, weights: Floats) -> None:
        probability = weights / weights.sum()
        # Not numpy's: a draw reads a few of them, one by one.
        self.probability: array[float] = array("d", probability.tobytes())
        self.upto = array("d", np.cumsum(probability).tobytes())


class _Rest:
    """A distribution over the rows that are not avoided."""

    def __init__(self, table: _Table, avoided: list[int]) -> None:
        self._table, self._avoided = table, avoided
        self._taken: list[float] = list(accumulate(map(table.probability.__getitem__, avoided)))
        self._begins = [table.upto[row] - taken for row, taken in zip(avoided, self._taken, strict=True)]
        self.mass = 1.0 - self._taken[-1] if avoided else 1.0
        if self.mass < LEAST_LEFT:
            rest = np.array(table.probability)
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
        return self._table.probability[row] / self.mass
