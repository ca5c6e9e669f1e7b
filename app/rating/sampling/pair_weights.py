"""Tables of how likely each pair of models is to be the next battle. Servers load this: it loads no scipy."""

from dataclasses import dataclass
from typing import TypeVar

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
