"""Compiled loops over annotators' cells for `habits`."""

import math

import numpy as np

from app.rating.arrays import Floats, Indices, Ints
from app.rating.compiled import compiled


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
        tie_propensity = math.exp(at[k, 2]) if ties else 0.0
        for cell in range(starts[k], starts[k + 1]):
            a, b = model_a[cell], model_b[cell]
            d = R[a] - R[b]
            n = win[cell] + tie[cell] + loss[cell]
            lead, tied, _ = shares(0.5 * (at[k, 0] * d + at[k, 1] * side[cell]), tie_propensity)
            surplus = 0.5 * (win[cell] - loss[cell] - n * lead)
            spread = 0.25 * n * (1.0 - tied - lead * lead)
            own[0], own[1], own[2] = d * spread, side[cell] * spread, -0.5 * n * lead * tied
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
