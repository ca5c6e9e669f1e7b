"""The iteration of am-ELO's solver: sequential quadratic programming, one pass over the votes an iteration."""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError

from app.rating.arrays import Floats, sum_by
from app.rating.errors import NotConvergedError
from app.rating.fit.arrow import Block, Eliminated, constrain
from app.rating.fit.likelihood import scores_block
from app.rating.fit.partition import Expansion, Partition
from app.rating.fit.partitions import Partitions
from app.rating.fit.scale import WIDTH
from app.rating.threads import one_blas_thread

MAX_ITERATIONS = 200
MAX_HALVINGS = 40
SUFFICIENT_DECREASE = 1e-4
ROUNDING = 4e-16  # relative rounding error of a sum, for each root of its number of terms
NEAR_EACH = 0.1  # squared length, per score and ability, below which the observed Hessian replaces Fisher's
OFF_SCALE = 1e-9  # error of the constraint, for each annotator, of a start that cannot be brought to it
MOST_RESCALED = 0.5  # |log c| of a step: abilities at the cap stay there, so that a larger one is another point
DIVERGED = 100.0  # natural units between two scores: σ(100) is 1 in double precision
WIDER = 6.0  # times the range of the start, where that is more
CONVERGED = 1e-18  # squared length of a step in standard errors (at fixed abilities the Newton decrement)
SLOW = 0.5  # of the squared length of the step before: what leans take off A has changed too much
ENOUGH = 1e-14  # squared length that is accepted where rounding may keep it from shrinking to that


MOST_ROUNDS = 60
RAISES = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0)  # multiples of A, added to a Hessian that is not positive definite


@dataclass(frozen=True)
class Optimum:
    """A converged minimum; the abilities are in the partitions.

    Attributes
    ----------
    R : shape (n_models,)
    iterations : of which each is a pass over the votes
    """

    R: Floats
    iterations: int


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


@one_blas_thread()
def minimise(partitions: Partitions, R: Floats, *, enough: float = ENOUGH) -> Optimum:
    """Minimise −ℓ + prior over R and θ ≤ cap, typical θ = 1, by sequential quadratic programming.

    Each iteration solves the quadratic problem at a point, moves along its step, and brings the
    typical ability back to 1 by (cR, θ/c), which changes no probability. The ℓ₁ merit function decides how far. The
    pass that evaluates it gives the derivatives of the next point too.

    Parameters
    ----------
    partitions : with the abilities to start from
    R : scores to start from, shape (n_models,)
    enough : squared length of a step in standard errors after which the search ends

    Raises
    ------
    NotConvergedError
        Not converged after 200 iterations, no step decreases the merit function, the quadratic problem has no
        solution, or the scores range over more than 100 natural units and 6 times the range of the start.

    Notes
    -----
    The Hessian is Fisher's expected one, which is never indefinite, until the squared length of a step in standard
    errors is below 0.1 for each score and ability, and the observed one from there: convergence is quadratic. From
    there each ability whose own step was long is also moved to the end by itself, which needs no pass over the votes of
    the others. It stops after the step that, at that rate, leaves a squared length below 1e-18. The last step, where it
    can be foreseen, eliminates the abilities with the Σ BᵀB/D of the one before, which saves the most expensive sum.

    References
    ----------
    Nocedal and Wright, Numerical Optimization, 2nd ed., algorithm 18.3 with the ℓ₁ merit function (18.27).
    """
    widest = max(DIVERGED, WIDER * float(np.ptp(R)))
    R = partitions.normalise(R)
    terms = partitions.unknowns
    penalty, last, exact, product = 0.0, np.inf, False, None
    multiplier = np.zeros(partitions.scale.number)
    point = partitions.total(Partition.expand, R, multiplier, exact=exact)
    while np.abs(point.violation).max(initial=0.0) > OFF_SCALE * terms:  # the cap leaves too little room above
        partitions.each(Partition.approach_typical)
        R = partitions.normalise(R)
        point = partitions.total(Partition.expand, R, multiplier, exact=exact)
    for iteration in range(MAX_ITERATIONS):
        step = solve_quadratic(partitions, point, product)
        if step is None:
            raise _failure("the quadratic problem has no solution at", iteration, R, partitions)
        rate = min(step.size / last, 1.0) if iteration else 1.0
        left = step.size * (rate**2 if product is None else rate)
        if left <= CONVERGED or step.size <= enough:
            partitions.each(Partition.move, 1.0)
            R = partitions.normalise(R + step.scores, furthest=MOST_RESCALED)
            return Optimum(R, iteration + 1)
        if iteration and rate > SLOW:
            partitions.each(Partition.renew_leans)
        # large enough that a step towards the constraint always decreases the merit function
        penalty = max(penalty, 2.0 * WIDTH * float(np.abs(step.multiplier).max()))
        exact, last = step.size < NEAR_EACH * terms, step.size
        product = step.product if left * rate**2 <= CONVERGED else None  # good enough for the last step
        found = _search(partitions, point, R, step, penalty, exact=exact)
        if found is None:
            raise _failure(f"no step decreases the objective (squared length {last:.1e}) at", iteration, R, partitions)
        R, point = found
        if float(np.ptp(R)) > widest:
            raise _failure("a score diverges to infinity by", iteration, R, partitions)
    raise _failure(f"not converged (squared length {last:.1e}) after", MAX_ITERATIONS - 1, R, partitions)


def _failure(what: str, iteration: int, R: Floats, partitions: Partitions) -> NotConvergedError:
    return NotConvergedError(f"{what} iteration {iteration + 1}", R, partitions.abilities())


def _search(
    partitions: Partitions, point: Expansion, R: Floats, step: Step, penalty: float, *, exact: bool
) -> tuple[Floats, Expansion] | None:
    """Backtrack until the merit function decreases enough; None where it never does."""
    away = float(np.abs(point.violation).sum())
    merit, slope = point.value + penalty * away, min(step.slope - penalty * away, 0.0)
    noise = ROUNDING * math.sqrt(partitions.terms) * abs(point.value)
    length = 1.0
    for _ in range(MAX_HALVINGS):
        partitions.each(Partition.move, length)
        if exact and length == 1.0:
            partitions.each(Partition.refine, R + step.scores, step.multiplier, step.size / partitions.unknowns)
        new_R = partitions.normalise(R + length * step.scores, furthest=MOST_RESCALED)
        new = partitions.total(Partition.expand, new_R, step.multiplier, exact=exact)
        value = new.value + penalty * float(np.abs(new.violation).sum())
        # a decrease below the rounding error of the objective cannot be measured
        if step.size <= noise or value <= merit + SUFFICIENT_DECREASE * length * slope + noise:
            return new_R, new
        length /= 2.0
    return None


def solve_quadratic(partitions: Partitions, point: Expansion, product: Floats | None = None) -> Step | None:
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
    A = scores_block(point.stiffness, partitions.n_models, len(point.gradient))
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


def _solve(partitions: Partitions, point: Expansion, A: Floats, system: Eliminated) -> tuple[Floats, Floats] | None:
    """Return the step of the scores and the multipliers; None without a positive definite system."""
    if not np.all((system.free > 0.0) & (system.size > 0.0)):
        return None
    group = partitions.scale.models
    missing = (system.slack + WIDTH * point.violation) / system.size
    S = A - system.product + constrain(system.along, system.size, group)
    S += float(A.diagonal().mean()) * partitions.shifts
    right = system.moved - point.gradient + system.along * missing[group]
    for raised in RAISES:
        try:
            scores = Block(S + raised * A if raised else S).solve(right)
        except LinAlgError:
            continue
        return scores, missing - sum_by(group, system.along * scores, len(missing)) / system.size
    return None
