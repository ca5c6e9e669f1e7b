"""One step of am-ELO's solver: the quadratic problem with the constraint on the scale and the cap."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from app.rating.data.arrays import Floats
from app.rating.data.sums import sum_by
from app.rating.solver.likelihood import laplacian
from app.rating.solver.partition import Eliminated, Partition, Point
from app.rating.solver.partitions import Partitions
from app.rating.solver.scale import WIDTH

MOST_ROUNDS = 60
RAISES = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0)  # multiples of A, added to a Hessian that is not positive definite


@dataclass(frozen=True)
class Step:
    """The solution of the quadratic problem at a point; the step of each ability stays in its partition.

    Attributes
    ----------
    scores : step of the scores, shape (n_models,)
    multiplier : λ of each group's constraint, at the end of the step
    slope : derivative of the objective along the step
    size : ΔRᵀAΔR + Σ D Δθ², the squared length of the step in standard errors, cross block left out
    product : Σ BᵀB/D of the abilities that are free at the end, shape (n_models, n_models)
    """

    scores: Floats
    multiplier: Floats
    slope: float
    size: float
    product: Floats


def solve_quadratic(partitions: Partitions, point: Point, product: Floats | None = None) -> Step | None:
    """Minimise the quadratic model of the objective at a point, on the linearised constraint and below the cap.

    A primal-dual active set finds the abilities that the cap holds: solve with those held now, hold those that the step
    takes beyond the cap, free those that the model pulls back from it, and repeat. Each round sends a step of the
    scores and the multipliers to the partitions, and only the annotators that changed sides are summed anew.

    Parameters
    ----------
    point : where the partitions were last expanded
    product : Σ BᵀB/D of the abilities now free, from a point nearby; default: summed here

    Returns
    -------
    Step; None where the cap holds every ability of a group, so that nothing sets its scale, or the rounds do not end

    References
    ----------
    Hintermüller, Ito and Kunisch (2002).
    """
    system = partitions.total(Partition.eliminate, products=product is None)
    if product is not None:
        system = replace(system, product=product)
    A = laplacian(point.stiffness, len(point.gradient))
    for _ in range(MOST_ROUNDS):
        solution = _solve(partitions, point, A, system)
        if solution is None:
            return None
        scores, multiplier = solution
        answer = partitions.total(Partition.respond, scores, multiplier)
        if answer.changed == 0:
            slope, size = float(point.gradient @ scores) + answer.slope, float(scores @ A @ scores) + answer.size
            return Step(scores, multiplier, slope, size, system.product)
        system = system + partitions.total(Partition.exchange)
    return None


def _solve(partitions: Partitions, point: Point, A: Floats, system: Eliminated) -> tuple[Floats, Floats] | None:
    """Return the step of the scores and the multipliers; None without a positive definite system."""
    if not np.all((system.free > 0.0) & (system.size > 0.0)):
        return None
    group = partitions.scale.models  # all cells of a model belong to one group
    missing = (system.slack + WIDTH * point.violation) / system.size
    S = A - system.product
    for each, size in enumerate(system.size):
        along = system.along if len(system.size) == 1 else np.where(group == each, system.along, 0.0)
        S += np.outer(along, along / size)
    right = system.moved - point.gradient + system.along * missing[group]
    S += float(A.diagonal().mean()) * partitions.shifts
    for raised in RAISES:
        factor, failed = dpotrf(S + raised * A if raised else S, lower=1)
        if failed:
            continue
        scores: Floats = dpotrs(factor, right, lower=1)[0]
        return scores, missing - sum_by(group, system.along * scores, len(missing)) / system.size
    return None
