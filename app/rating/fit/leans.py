"""Compiled loops over the votes of annotators with features: x = θ d + zᵀb, d = R_a − R_b + zᵀγ, b the leans."""

import math
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.compiled import compiled
from app.rating.fit.kernels import pair_of
from app.rating.votes.cells import CellArrays

MOST_STEPS = 50
MOST_HALVINGS = 30
FURTHEST = 3.0  # no parameter moves further in one step
STEEPER = 0.9  # share of the slope along a step that may be left at its end, on either side


class OwnPrior(NamedTuple):
    """The normal prior of each annotator's (θ, b): its mean, shape (1 + n_features,), and precision, a row each."""

    centre: Floats
    precision: Floats


@compiled
def factorise(H: Floats, first: int, L: Floats) -> None:
    """Set L to the Cholesky factor of the block of H from `first` on."""
    size = H.shape[0]
    for i in range(first, size):
        for j in range(first, i + 1):
            total = H[i, j]
            for m in range(first, j):
                total -= L[i, m] * L[j, m]
            if i == j:
                L[i, i] = math.sqrt(max(total, 1e-300))
            else:
                L[i, j] = total / L[j, j]


@compiled
def solve_lower(L: Floats, first: int, right: Floats, out: Floats) -> None:
    """Set `out` to L⁻¹ right, from the entry `first` on."""
    for i in range(first, len(right)):
        total = right[i]
        for m in range(first, i):
            total -= L[i, m] * out[m]
        out[i] = total / L[i, i]


@compiled
def solve_upper(L: Floats, first: int, out: Floats) -> None:
    """Replace `out` by L⁻ᵀ out, from the entry `first` on."""
    size = len(out)
    for back in range(size - first):
        i = size - 1 - back
        total = out[i]
        for m in range(i + 1, size):
            total -= L[m, i] * out[m]
        out[i] = total / L[i, i]


@compiled
def expand_own(
    begin: int, end: int, n: Floats, s: Floats, d: Floats, z: Floats,
    at: Floats, centre: Floats, precision: Floats, g: Floats, H: Floats,
) -> None:  # fmt: skip
    """Set g and H (its lower half) to the gradient and the negative Hessian of one annotator's own objective."""
    size = len(at)
    for i in range(size):
        g[i] = -precision[i] * (at[i] - centre[i])
        for j in range(i):
            H[i, j] = 0.0
        H[i, i] = precision[i]
    for cell in range(begin, end):
        x, distance = at[0] * d[cell], d[cell]
        for i in range(1, size):
            x += at[i] * z[cell, i - 1]
        u = math.exp(-abs(x))
        near = 1.0 / (1.0 + u)
        residual = s[cell] - n[cell] * (near if x >= 0.0 else u * near)
        variance = n[cell] * near * near * u
        g[0] += residual * distance
        H[0, 0] += variance * distance * distance
        for i in range(1, size):
            entry = z[cell, i - 1]
            g[i] += residual * entry
            entry *= variance
            H[i, 0] += entry * distance
            for j in range(1, i + 1):
                H[i, j] += entry * z[cell, j - 1]


@compiled
def solve_step(H: Floats, g: Floats, fixed: int, L: Floats, step: Floats) -> tuple[float, float]:
    """Set `step` to H⁻¹g from the entry `fixed` on, 0 before; return g·step and the longest entry of the step."""
    factorise(H, fixed, L)
    step[:fixed] = 0.0
    solve_lower(L, fixed, g, step)
    solve_upper(L, fixed, step)
    slope, longest = 0.0, 0.0
    for i in range(fixed, len(g)):
        slope += g[i] * step[i]
        longest = max(longest, abs(step[i]))
    return slope, longest


@compiled
def settle(
    first: int, last: int, starts: Indices, n: Floats, s: Floats, d: Floats, z: Floats,
    prior: OwnPrior, fixed: int, near: float, at: Floats, H: Floats,
) -> None:  # fmt: skip
    """Maximise the own objectives of annotators first … last−1 from `at` (n_annotators, 1 + n_features).

    Sets `H` to the negative Hessians, a last step from the maxima, whose squared length in standard errors is at most
    `near`; what is left is about its square. With fixed = 1 θ stays as it is.

    Newton's method on a concave function; a step is halved where it ends in a steep slope down.
    """
    size = at.shape[1]
    g, step, tried, L = np.empty(size), np.zeros(size), np.empty(size), np.zeros((size, size))
    for k in range(first, last):
        begin, end, precision = starts[k], starts[k + 1], prior.precision[k]
        expand_own(begin, end, n, s, d, z, at[k], prior.centre, precision, g, H[k])
        for _ in range(MOST_STEPS):
            slope, longest = solve_step(H[k], g, fixed, L, step)
            if slope <= near:
                at[k] += step
                break
            length = min(1.0, FURTHEST / longest)
            for _ in range(MOST_HALVINGS):
                tried[:] = at[k] + length * step
                expand_own(begin, end, n, s, d, z, tried, prior.centre, precision, g, H[k])
                if g @ step >= -STEEPER * slope:
                    break
                length *= 0.5
            at[k] = tried
        for i in range(size):
            for j in range(i):
                H[k, j, i] = H[k, i, j]


class FeatureDerivatives(NamedTuple):
    """What `expand_features` adds to (the first three) and sets; as in `Curvature`.

    Attributes
    ----------
    gradient_scores : shape (n_models + n_features,)
    stiffness : shape (n_models²,)
    border : rows of A for the features, shape (n_features, n_models + n_features)
    """

    gradient_scores: Floats
    stiffness: Floats
    border: Floats
    gradient_abilities: Floats
    D: Floats
    cross: Floats
    leans: Floats


@compiled
def expand_features(
    first: int, last: int, cells: CellArrays, d: Floats, z: Floats, theta: Floats, b: Floats, precision: Floats,
    exact: bool, to: FeatureDerivatives,
) -> float:  # fmt: skip
    """Add annotators first … last−1 to the sums of `FeatureLikelihood.expand`; return their −ℓ + ½ Σ precision b².

    precision (n_annotators, n_features): of the leans' prior.
    """
    size, n_models = z.shape[1], len(to.gradient_scores) - z.shape[1]
    G, L = np.empty((size, size)), np.zeros((size, size))
    mixed, of_mixed, unit, column = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    inverse = np.empty((size, size))
    value = 0.0
    for k in range(first, last):
        mixed[:], G[:] = 0.0, 0.0
        value += 0.5 * np.sum(precision[k] * b[k] * b[k])
        value += add_votes(k, cells, d, z, theta[k], b[k], to, mixed, G)
        for i in range(size):
            for j in range(i):
                G[j, i] = G[i, j]
        to.border[:, n_models:] += theta[k] ** 2 * G
        for i in range(size):
            G[i, i] += precision[k, i]
        factorise(G, 0, L)
        solve_lower(L, 0, mixed, of_mixed)
        to.D[k] -= of_mixed @ of_mixed
        for i in range(size):  # the inverse of L, column by column: votes need no divisions
            unit[:] = 0.0
            unit[i] = 1.0
            solve_lower(L, 0, unit, column)
            inverse[:, i] = column
        take_out_leans(k, cells.starts, d, z, theta[k], exact, inverse, of_mixed, to.cross, to.leans)
    return value


@compiled
def add_votes(
    k: int, cells: CellArrays, d: Floats, z: Floats, ability: float, b: Floats, to: FeatureDerivatives, mixed: Floats,
    G: Floats,
) -> float:  # fmt: skip
    """Add the votes of annotator k to the sums, Σ w d z to `mixed` and Σ w z zᵀ to the lower half of G; return −ℓ_k.

    Leaves w of each cell in `cross`, and s − n p in the first row of `leans`.
    """
    starts, model_a, model_b, n, s = cells.starts, cells.model_a, cells.model_b, cells.n, cells.s
    size, n_models = len(b), len(to.gradient_scores) - len(b)
    value, slope, curvature = 0.0, 0.0, 0.0
    for cell in range(starts[k], starts[k + 1]):
        first, second = pair_of(model_a, model_b, cell)
        x = ability * d[cell]
        for i in range(size):
            x += b[i] * z[cell, i]
        u = math.exp(-abs(x))
        near = 1.0 / (1.0 + u)
        value += n[cell] * (max(x, 0.0) + math.log1p(u)) - s[cell] * x
        residual = s[cell] - n[cell] * (near if x >= 0.0 else u * near)
        variance = n[cell] * near * near * u
        contribution, stiff = ability * residual, variance * ability * ability
        to.gradient_scores[first] -= contribution
        to.gradient_scores[second] += contribution
        slope -= residual * d[cell]
        curvature += variance * d[cell] * d[cell]
        to.stiffness[first * n_models + second] += stiff
        for i in range(size):
            entry = z[cell, i]
            to.gradient_scores[n_models + i] -= contribution * entry
            to.border[i, first] += stiff * entry
            to.border[i, second] -= stiff * entry
            entry *= variance
            mixed[i] += entry * d[cell]
            for j in range(i + 1):
                G[i, j] += entry * z[cell, j]
        to.cross[cell], to.leans[0, cell] = variance, residual
    to.gradient_abilities[k], to.D[k] = slope, curvature
    return value


@compiled
def take_out_leans(
    k: int, starts: Indices, d: Floats, z: Floats, ability: float, exact: bool, inverse: Floats, of_mixed: Floats,
    cross: Floats, leans: Floats,
) -> None:  # fmt: skip
    """Set `cross` and `leans` of annotator k's cells from what `add_votes` left there.

    inverse: L⁻¹, L Lᵀ the leans' curvature.
    """
    size = len(of_mixed)
    for cell in range(starts[k], starts[k + 1]):
        variance, residual = cross[cell], leans[0, cell]
        amount = variance * ability * d[cell] - (residual if exact else 0.0)
        for i in range(size):
            whitened = 0.0
            for j in range(i + 1):
                whitened += inverse[i, j] * z[cell, j]
            leans[i, cell] = ability * variance * whitened
            amount -= leans[i, cell] * of_mixed[i]
        cross[cell] = amount


@compiled
def sum_features(first: int, last: int, starts: Indices, weight: Floats, z: Floats, out: Floats) -> None:
    """Set out (n_annotators, n_features) of annotators first … last−1 to Σ weight·z over their cells."""
    for k in range(first, last):
        for i in range(z.shape[1]):
            out[k, i] = 0.0
        for cell in range(starts[k], starts[k + 1]):
            for i in range(z.shape[1]):
                out[k, i] += weight[cell] * z[cell, i]
