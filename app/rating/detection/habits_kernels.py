"""Compiled loops over annotators' cells for `habits`."""

import math

import numpy as np

from app.rating.arrays import Floats, Indices, Ints, Mask
from app.rating.compiled import compiled

MOST_STEPS = 50
MOST_HALVINGS = 30
FURTHEST = 2.0  # no parameter moves further in one step
LARGEST = 1e200  # product whose logarithm is taken at once
ROUNDING = 1e-12  # relative error of a value
PIVOT = 1e-12  # curvature below which a parameter is not moved


@compiled
def shares(y: float, tie_propensity: float) -> tuple[float, float, float]:
    """Return P(win) − P(loss), P(tie) and (e^y + ν + e^−y) / e^|y|, accurate for large |y| too."""
    u = math.exp(-abs(y))
    tied = tie_propensity * u
    total = 1.0 + u * u + tied
    inverse = 1.0 / total
    lead = (1.0 - u * u) * inverse
    return lead if y >= 0.0 else -lead, tied * inverse, total


@compiled
def solve(H: Floats, g: Floats, step: Floats) -> None:
    """Set `step` to H⁻¹ g for a positive semi-definite H of 3 × 3; parameters without curvature are not moved."""
    L = np.zeros((3, 3))
    for i in range(3):
        for j in range(i + 1):
            total = H[i, j]
            for m in range(j):
                total -= L[i, m] * L[j, m]
            if i == j:
                L[i, i] = math.sqrt(total) if total > PIVOT else 0.0
            else:
                L[i, j] = total / L[j, j] if L[j, j] > 0.0 else 0.0
    for i in range(3):
        total = g[i]
        for m in range(i):
            total -= L[i, m] * step[m]
        step[i] = total / L[i, i] if L[i, i] > 0.0 else 0.0
    for back in range(3):
        i = 2 - back
        total = step[i]
        for m in range(i + 1, 3):
            total -= L[m, i] * step[m]
        step[i] = total / L[i, i] if L[i, i] > 0.0 else 0.0


@compiled
def invert(first: int, last: int, H: Floats) -> None:
    """Replace the matrices of annotators first … last−1 by their inverses, 0 for parameters without curvature."""
    inverse, unit = np.empty((3, 3)), np.empty(3)
    for k in range(first, last):
        for i in range(3):
            unit[:] = 0.0
            unit[i] = 1.0 if H[k, i, i] > PIVOT else 0.0
            solve(H[k], unit, inverse[i])
        H[k] = inverse


@compiled
def expand(
    first: int, last: int, d: Floats, win: Floats, tie: Floats, loss: Floats, side: Floats,
    ties: bool, centre: Floats, precision: Floats, at: Floats, g: Floats, H: Floats,
) -> float:  # fmt: skip
    """Set g and H to the gradient and the negative Hessian of the objective at one point; return its value.

    at, centre, precision: ability, log tie propensity, lean. d: difference of the models' scores in each cell.
    """
    value, product = 0.0, 1.0
    ability, lean, tie_propensity = at[0], at[2], math.exp(at[1]) if ties else 0.0
    g0, g1, g2, h00, h10, h11, h20, h21, h22 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for cell in range(first, last):
        x, z = 0.5 * d[cell], 0.5 * side[cell]
        y = ability * x + lean * z
        n, net = win[cell] + tie[cell] + loss[cell], win[cell] - loss[cell]
        lead, tied, total = shares(y, tie_propensity)
        value += net * y - n * abs(y) + tie[cell] * at[1]
        if n == 1.0:
            product *= total
            if product > LARGEST:
                value -= math.log(product)
                product = 1.0
        else:
            value -= n * math.log(total)
        surplus, excess = net - n * lead, tie[cell] - n * tied
        spread, mixed = n * (1.0 - tied - lead * lead), -n * lead * tied
        g0 += x * surplus
        g1 += excess
        g2 += z * surplus
        h00 += x * x * spread
        h10 += x * mixed
        h11 += n * tied * (1.0 - tied)
        h20 += x * z * spread
        h21 += z * mixed
        h22 += z * z * spread
    value -= math.log(product)
    g[0], g[1], g[2] = g0, g1, g2
    H[0, 0], H[1, 1], H[2, 2] = h00, h11, h22
    H[1, 0], H[2, 0], H[2, 1] = h10, h20, h21
    for i in range(3):
        away = at[i] - centre[i]
        value -= 0.5 * precision[i] * away * away
        g[i] -= precision[i] * away
        H[i, i] += precision[i]
    H[0, 1], H[0, 2], H[1, 2] = H[1, 0], H[2, 0], H[2, 1]
    return value


@compiled
def find_habits(
    first: int, last: int, starts: Indices, d: Floats, win: Floats, tie: Floats, loss: Floats,
    side: Floats, ties: bool, centre: Floats, precision: Floats, free: Mask, near: float,
    at: Floats, H: Floats,
) -> None:  # fmt: skip
    """Maximise the objective of annotators first … last−1 from `at` (n_annotators, 3).

    Sets `H` (n_annotators, 3, 3) to the negative Hessian at the last point, a step of at most `near` away from the
    maximum. free: the parameters to move, shape (3,); the others have no curvature.
    """
    g, step, tried = np.empty(3), np.empty(3), np.empty(3)
    for k in range(first, last):
        begin, end = starts[k], starts[k + 1]
        value = expand(begin, end, d, win, tie, loss, side, ties, centre, precision[k], at[k], g, H[k])
        for _ in range(MOST_STEPS):
            for i in range(3):
                if not free[i]:
                    g[i] = 0.0
                    for j in range(3):
                        H[k, i, j] = H[k, j, i] = 0.0
            solve(H[k], g, step)
            longest = max(abs(step[0]), abs(step[1]), abs(step[2]))
            if longest <= near:
                at[k] += step
                break
            length = min(1.0, FURTHEST / longest)
            for _ in range(MOST_HALVINGS):
                tried[:] = at[k] + length * step
                higher = expand(begin, end, d, win, tie, loss, side, ties, centre, precision[k], tried, g, H[k])
                if higher >= value - ROUNDING * (1.0 + abs(value)):
                    break
                length *= 0.5
            at[k], value = tried, higher


@compiled
def share_pairs(first: int, last: int, model_a: Ints, model_b: Ints, side: Floats, spreads: Floats) -> float:
    """Return 2 Σ I², I the information that the cells first … last−1 of a pair share, whatever the side.

    The cells are of one side, then of the other, each by pair.
    """
    shared, twin = 0.0, first
    for cell in range(first, last):
        spread = spreads[cell - first]
        shared += 2.0 * spread * spread
        a, b = model_a[cell], model_b[cell]
        while side[twin] != side[cell] and (model_a[twin], model_b[twin]) < (a, b):
            twin += 1
        if side[twin] != side[cell] and model_a[twin] == a and model_b[twin] == b:
            shared += 4.0 * spread * spreads[twin - first]
    return shared


@compiled
def add_tastes(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats,
    side: Floats, R: Floats, ties: bool, at: Floats, inverse: Floats, excess: Floats, exposure: Floats,
    noise: Floats, pull: Floats,
) -> None:  # fmt: skip
    """Set what the votes of annotators first … last−1 say of tastes, an own opinion u_i ~ N(0, τ²) of each model.

    With g_i the gradient by u_i and I_ij the information, all shape (n_annotators,): excess, Σ_i g_i² minus its mean
    without tastes; exposure, the factor of τ² in the mean of excess; noise, the variance of excess; pull, the factor of
    τ² in the variance that tastes add to the ability; structure, the log-likelihood that tastes of variance `taste`
    add, models taken one by one. inverse: of the Hessian at `at`, shape (n_annotators, 3, 3).
    """
    gradient, information, cross = np.zeros(len(R)), np.zeros(len(R)), np.zeros((len(R), 3))
    own, spreads = np.empty(3), np.empty(np.diff(starts[first : last + 1]).max() if last > first else 0)
    for k in range(first, last):
        tie_propensity = math.exp(at[k, 1]) if ties else 0.0
        for cell in range(starts[k], starts[k + 1]):
            a, b = model_a[cell], model_b[cell]
            d = R[a] - R[b]
            n = win[cell] + tie[cell] + loss[cell]
            lead, tied, _ = shares(0.5 * (at[k, 0] * d + at[k, 2] * side[cell]), tie_propensity)
            surplus = 0.5 * (win[cell] - loss[cell] - n * lead)
            spread = 0.25 * n * (1.0 - tied - lead * lead)
            own[0], own[1], own[2] = d * spread, -0.5 * n * lead * tied, side[cell] * spread
            gradient[a] += surplus
            gradient[b] -= surplus
            information[a] += spread
            information[b] += spread
            spreads[cell - starts[k]] = spread
            for i in range(3):
                cross[a, i] += own[i]
                cross[b, i] -= own[i]
        for cell in range(starts[k], starts[k + 1]):
            for model in (model_a[cell], model_b[cell]):
                if information[model] == 0.0:
                    continue
                moved = 0.0
                for i in range(3):
                    sum_i = 0.0
                    for j in range(3):
                        sum_i += inverse[k, i, j] * cross[model, j]
                    moved += sum_i * cross[model, i]
                    if i == 0:
                        pull[k] += sum_i * sum_i
                excess[k] += gradient[model] ** 2 - information[model] + moved
                exposure[k] += information[model] ** 2
                noise[k] += 2.0 * information[model] ** 2
                gradient[model] = information[model] = 0.0
                cross[model] = 0.0
        exposure[k] += share_pairs(starts[k], starts[k + 1], model_a, model_b, side, spreads)
