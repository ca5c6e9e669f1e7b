"""Compiled loops over annotators' cells for `opinions`."""

import math

import numpy as np

from app.rating.data.arrays import AnyInts, Floats, Indices, Ints, Mask
from app.rating.data.compiled import compiled
from app.rating.detection.favouritism_kernels import number_models
from app.rating.detection.habits_kernels import shares
from app.rating.solver.kernels import pair_of

MOST_STEPS = 12
MOST_INNER = 25
FURTHEST = 2.0  # no opinion moves further in one step
NEAR = 0.02  # length of the last step
EXACT = 0.01  # residual of a step, times the gradient's length
PRODUCT_LIMIT = 1e250
FAR_BELOW = 20.0  # log-likelihood below the best ability's from which other abilities do not matter


@compiled
def weigh_opinions(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats,
    lean: Floats, R: Floats, tie_log: Floats, tie_centre: float, tie_precision: float, look: Mask, begin: Indices,
    ability: Floats, coin: int, sds: Floats, out: Floats,
) -> None:  # fmt: skip
    """Set `out`, shape (n_annotators, abilities, sds), of annotators to look at to log ∫ L(a, R + u) dN(u; 0, sd²).

    By Laplace's approximation, at the likeliest tie propensity. Abilities are tried from `begin` up and down while they
    matter; entries of others stay as they are. sds[0] is 0: no opinions.

    Parameters
    ----------
    tie_log : where the search of the log tie propensity begins, shape (n_annotators,); −∞ in a crowd without ties
    tie_centre, tie_precision : of its normal prior, which keeps it finite
    coin : place of ability 0 in `ability`, above the negative ones
    """
    place, touched = np.full(len(R), -1), np.empty(len(R), dtype=np.int64)
    for k in range(first, last):
        if not look[k]:
            continue
        cells = slice(starts[k], starts[k + 1])
        many = number_models(starts[k], starts[k + 1], model_a, model_b, place, touched)
        a, b = np.empty((2, len(win[cells])), dtype=np.uint32)  # an index that could be negative costs a branch
        d = np.empty(len(a))
        for cell in range(len(a)):
            i, j = pair_of(model_a, model_b, starts[k] + cell)
            a[cell], b[cell], d[cell] = place[i], place[j], R[i] - R[j]
        place[touched[:many]] = -1
        u, work = np.zeros(many), np.empty((5, many))
        for which in range(len(sds)):
            best = -np.inf
            for up in (True, False):
                u[:] = 0.0
                node, tied = begin[k] + (0 if up else -1), tie_log[k]
                while 0 <= node < len(ability):
                    if node == coin and which > 0:  # opinions change no vote of a coin
                        node -= 1
                        continue
                    value, tied = climb(
                        a, b, d, win[cells], tie[cells], loss[cells], lean[cells], ability[node], sds[which], tied,
                        tie_centre, tie_precision, u, work,
                    )  # fmt: skip
                    out[k, node, which] = value
                    best = max(best, value)
                    if value < best - FAR_BELOW and node != coin:
                        break
                    node += 1 if up else -1


@compiled
def climb(
    a: AnyInts, b: AnyInts, d: Floats, win: Floats, tie: Floats, loss: Floats, lean: Floats, ability: float, sd: float,
    tie_log: float, tie_centre: float, tie_precision: float, u: Floats, work: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Return log ∫ L(a, R + u) dN(u; 0, sd²) by Laplace's approximation, and the log tie propensity of its maximum.

    Sets `u` to the opinions there, times the ability. The determinant of the Hessian, D − O with the diagonal D, is
    taken to second order: log|D| − ½ tr (D⁻¹O)². Newton's steps by conjugate gradients.
    """
    own, ties = abs(ability) * sd, tie_log > -np.inf
    precision = 1.0 / (own * own) if own > 0.0 else 0.0
    gradient, diagonal, step, way, product = work[0], work[1], work[2], work[3], work[4]
    curvature, value = np.empty(len(a)), 0.0
    for _ in range(MOST_STEPS):
        value, excess, bend = expand_opinions(
            a, b, d, win, tie, loss, lean, ability, tie_log, precision, u, gradient, diagonal, curvature
        )
        furthest = 0.0
        if ties:
            moved = (excess - tie_precision * (tie_log - tie_centre)) / (bend + tie_precision)
            moved = max(-FURTHEST, min(FURTHEST, moved))
            furthest = abs(moved)
        if own > 0.0:
            solve_step(a, b, curvature, precision, diagonal, gradient, step, way, product)
            furthest = max(furthest, np.abs(step).max())
        if furthest <= NEAR:
            break
        if ties:
            tie_log += moved
        if own > 0.0:
            u += min(1.0, FURTHEST / furthest) * step
    if own > 0.0:
        for i in range(len(u)):
            value -= 0.5 * (precision * u[i] * u[i] + math.log(diagonal[i] / precision))
        for cell in range(len(a)):
            value += 0.5 * curvature[cell] ** 2 / (diagonal[a[cell]] * diagonal[b[cell]])
    return value, tie_log


@compiled
def expand_opinions(
    a: AnyInts, b: AnyInts, d: Floats, win: Floats, tie: Floats, loss: Floats, lean: Floats, ability: float,
    tie_log: float, precision: float, u: Floats, gradient: Floats, diagonal: Floats, curvature: Floats,
) -> tuple[float, float, float]:  # fmt: skip
    """Return log L, and its first and negative second derivative by the log tie propensity.

    Sets `gradient` and `diagonal` to those of log L − precision u²/2 by u, `curvature` to what each cell adds.
    """
    ties = tie_log > -np.inf
    tie_propensity = math.exp(tie_log) if ties else 0.0
    value, excess, bend = 0.0, 0.0, 0.0
    product = 1.0  # of the totals of single votes, as far as it cannot overflow: one logarithm serves many
    for i in range(len(u)):
        gradient[i], diagonal[i] = -precision * u[i], precision
    for cell in range(len(a)):
        i, j, n = a[cell], b[cell], win[cell] + tie[cell] + loss[cell]
        y = 0.5 * (ability * d[cell] + lean[cell] + u[i] - u[j])
        lead, tied, total = shares(y, tie_propensity)
        net = win[cell] - loss[cell]
        value += net * y - n * abs(y)
        if n == 1.0 and product < PRODUCT_LIMIT:
            product *= total
        else:
            value -= n * math.log(total)
        if ties:
            value += tie[cell] * tie_log
        excess += tie[cell] - n * tied
        bend += n * tied * (1.0 - tied)
        surplus, curvature[cell] = 0.5 * (net - n * lead), 0.25 * n * (1.0 - tied - lead * lead)
        gradient[i] += surplus
        gradient[j] -= surplus
        diagonal[i] += curvature[cell]
        diagonal[j] += curvature[cell]
    return value - math.log(product), excess, bend


@compiled
def solve_step(
    a: AnyInts, b: AnyInts, curvature: Floats, precision: float, diagonal: Floats, gradient: Floats, step: Floats,
    way: Floats, product: Floats,
) -> None:  # fmt: skip
    """Set `step` to H⁻¹ times the gradient by conjugate gradients, the diagonal as preconditioner; spoils `gradient`.

    H is the precision on the diagonal plus, for each cell, its curvature times (e_a − e_b)(e_a − e_b)′.
    """
    size, left = 0.0, 0.0
    for i in range(len(step)):  # plain loops: array expressions would allocate an array each
        step[i], way[i] = 0.0, gradient[i] / diagonal[i]
        size += gradient[i] * way[i]
        left += gradient[i] * gradient[i]
    enough = EXACT * EXACT * left
    for _ in range(MOST_INNER):
        if left <= enough:
            break
        for i in range(len(way)):
            product[i] = precision * way[i]
        for cell in range(len(a)):
            pull = curvature[cell] * (way[a[cell]] - way[b[cell]])
            product[a[cell]] += pull
            product[b[cell]] -= pull
        along = 0.0
        for i in range(len(way)):
            along += way[i] * product[i]
        length, before = size / along, size
        for i in range(len(way)):
            step[i] += length * way[i]
            gradient[i] -= length * product[i]
            product[i] = gradient[i] / diagonal[i]
        size, left = 0.0, 0.0
        for i in range(len(way)):
            size += gradient[i] * product[i]
            left += gradient[i] * gradient[i]
        for i in range(len(way)):
            way[i] = way[i] * (size / before) + product[i]
