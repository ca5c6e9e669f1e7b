"""The published unit: ability 1 is the mean of the annotators who count (docs/math.md, "The unit")."""

from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Mask
from app.rating.errors import NoCommonRankingError
from app.rating.fit.result import FitResult
from app.rating.fit.scale import Scale

LEAST_MEAN = 0.1


@dataclass(frozen=True)
class Unit:
    """The published unit m of each scale group, in the solver's units: Σ_k w_k (a_k − m) = 0.

    The a_k are abilities as the votes alone say them (`OwnAbilities`).

    Attributes
    ----------
    scale : groups of models and annotators; abilities of different groups do not compare
    weight : w_k, 0 for annotators who do not count, shape (n_annotators,)
    slope : w_k a′_k, the derivative of the equation by θ_k, shape (n_annotators,)
    excess : what annotator k adds to the equation, shape (n_annotators,)
    of_group : m of each group
    """

    scale: Scale
    weight: Floats
    slope: Floats
    excess: Floats
    of_group: Floats

    @property
    def of_models(self) -> Floats:
        """The unit of each model's group, shape (n_models,)."""
        return self.of_group[self.scale.models]

    @property
    def of_annotators(self) -> Floats:
        """The unit of each annotator's group, shape (n_annotators,)."""
        return self.of_group[self.scale.annotators]

    @property
    def of_most(self) -> float:
        """The unit of the group with most annotators; 1 without annotators."""
        groups = self.scale.annotators
        return float(self.of_group[np.argmax(np.bincount(groups))]) if len(groups) else 1.0


def solvers_unit(scale: Scale) -> Unit:
    """Return the unit 1, of no annotator in particular: the solver's, or that of known abilities."""
    nothing = np.zeros(len(scale.annotators))
    return Unit(scale, nothing, nothing, nothing, np.ones(scale.number))


def mean_unit(fit: FitResult, scale: Scale, counts: Mask) -> Unit:
    """Return the mean ability of the annotators who count in each scale group; of all, where none of a group counts.

    The weights are those of the mean of values whose errors differ. They do not depend on the abilities, and are 1
    without a prior.

    Parameters
    ----------
    counts : shape (n_annotators,)

    Raises
    ------
    NoCommonRankingError
        A mean at or below 0.1.
    """
    ones, own = np.ones(len(fit.theta)), fit.own
    ability, slope, weight = (fit.theta, ones, ones) if own is None else (own.ability, own.slope, own.weight)
    decided = np.where(fit.undecided, 1.0, ability)
    alone = scale.sum(counts.astype(np.float64)) == 0.0
    weight = np.where(counts | alone[scale.annotators], weight, 0.0)
    total = scale.sum(weight)
    mean = 1.0 + scale.sum(weight * (decided - 1.0)) / np.where(total > 0.0, total, np.inf)
    refuse_low(float(mean.min(initial=1.0)))
    return Unit(scale, weight, weight * slope, weight * (decided - mean[scale.annotators]), mean)


def refuse_low(average: float) -> None:
    """Raise NoCommonRankingError where an average ability, a mean or a median, is at or below 0.1."""
    if average <= LEAST_MEAN:
        raise NoCommonRankingError(
            f"the average ability is {average:.3f}, at or below {LEAST_MEAN}: the annotators have no common ranking"
        )


def papers_gauge(ability: Floats) -> Floats:
    """Return abilities of any unit in the am-ELO paper's gauge, Σθ = 1 over the annotators who have one (not NaN)."""
    gauged: Floats = ability / np.nansum(ability)
    return gauged
