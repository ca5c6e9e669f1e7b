"""Every annotator's ability by itself, scores held fixed: one-dimensional concave problems."""

from dataclasses import dataclass

import numpy as np

from app.rating.compiled import compiled
from app.rating.kernels import Ints, Starts
from app.rating.moments import moments
from app.rating.partition import CellRows
from app.rating.sums import Floats
from app.rating.threads import map_parts

MOST_STEPS = 100


@dataclass(frozen=True)
class Own:
    """Where each annotator's objective is largest, arrays of shape (n_annotators,).

    Attributes
    ----------
    theta : the maximum; where the search began for an annotator whose objective is flat
    value : the objective there
    information : −ℓ_k'' · weight there, without the prior
    third : its derivative by θ_k
    """

    theta: Floats
    value: Floats
    information: Floats
    third: Floats


def own_abilities(
    rows: CellRows, R: Floats, start: Floats, *, precision: float, weight: float = 1.0, near: float = 1e-6
) -> Own:
    """Maximise weight · ℓ_k(θ_k | R) − precision · (θ_k − 1)²/2 for every annotator.

    Parameters
    ----------
    rows : the annotators' votes
    R : natural units, shape (n_models,)
    start : where to begin, finite, shape (n_annotators,)
    precision : 1/sd² of the prior; 0 for none, which needs votes both with and against R of every annotator
    near : a step no longer than this is the last; it leaves an error in θ of the order of its square, and one of the
        order of itself in the derivatives

    Notes
    -----
    Newton's method within a bracket: converges always. Annotators do not meet, so partitions of them run apart.
    """
    c, theta = rows.cells, start.copy()
    value, information, third = (np.zeros(len(theta)) for _ in range(3))

    def climb_part(part: tuple[int, int]) -> None:
        climb(
            *part,
            rows.starts,
            c.model_a,
            c.model_b,
            c.n,
            c.s,
            R,
            weight,
            precision,
            near,
            theta,
            value,
            information,
            third,
        )

    map_parts(climb_part, rows.parts)
    return Own(theta, value, information, third)


@compiled
def climb(
    first: int, last: int, starts: Starts, model_a: Ints, model_b: Ints, n: Floats, s: Floats,
    R: Floats, weight: float, precision: float, near: float,
    theta: Floats, value: Floats, information: Floats, third: Floats,
) -> None:  # fmt: skip
    """Set the arrays of `Own` for annotators first … last−1, each search beginning at theta."""
    for k in range(first, last):
        low, high = -np.inf, np.inf
        for _ in range(MOST_STEPS):
            ability, own, slope, bend, skewness = theta[k], 0.0, 0.0, 0.0, 0.0
            for cell in range(starts[k], starts[k + 1]):
                d = R[model_a[cell]] - R[model_b[cell]]
                p, variance, skew, log_odds = moments(ability * d)
                own += s[cell] * ability * d - n[cell] * log_odds
                slope += (s[cell] - n[cell] * p) * d
                bend += n[cell] * variance * d * d
                skewness += n[cell] * skew * d * d * d
            value[k] = weight * own - 0.5 * precision * (ability - 1.0) ** 2
            information[k], third[k] = weight * bend, weight * skewness
            gradient = weight * slope - precision * (ability - 1.0)
            curvature = weight * bend + precision
            if gradient == 0.0 or curvature <= 0.0:
                break
            if gradient > 0.0:
                low = ability
            else:
                high = ability
            furthest = 2.0 + abs(ability)
            step = min(max(gradient / curvature, -furthest), furthest)
            ability += step
            if abs(step) <= near:
                theta[k] = ability
                break
            theta[k] = ability if low < ability < high else 0.5 * (low + high)
