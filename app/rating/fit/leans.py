"""Compiled loops over the votes of annotators with features: x = θ d + zᵀb, d = R_a − R_b + zᵀγ, b the leans."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.compiled import compiled
from app.rating.fit.kernels import PRODUCT_LIMIT, pair_of
from app.rating.votes.cells import CellArrays

ANY_ORDER = frozenset({"reassoc", "nsz", "contract"})  # of a sum, so that it runs on the processor's vectors
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
def fill_odds(begin: int, d: Floats, z: Floats, ability: float, b: Floats, x: Floats, u: Floats) -> None:
    """Set x of an annotator's cells, from the cell `begin` of z on, and u to e^−|x|."""
    for cell in range(len(d)):
        x[cell] = ability * d[cell]
    for i in range(len(b)):
        column = z[begin : begin + len(d), i]
        for cell in range(len(d)):
            x[cell] += b[i] * column[cell]
    for cell in range(len(d)):
        u[cell] = math.exp(-abs(x[cell]))


@compiled
def fill_residuals(n: Floats, s: Floats, x: Floats, u: Floats) -> None:
    """Replace x by the residuals s − n p, and u by n p(1 − p)."""
    for cell in range(len(n)):
        near = 1.0 / (1.0 + u[cell])
        x[cell] = s[cell] - n[cell] * (near if x[cell] >= 0.0 else u[cell] * near)
        u[cell] *= n[cell] * near * near


@partial(compiled, fastmath=ANY_ORDER)
def dot(left: Floats, right: Floats) -> float:
    """Return Σ left·right, in any order."""
    total = 0.0
    for cell in range(len(left)):
        total += left[cell] * right[cell]
    return total


@compiled
def expand_own(
    begin: int, end: int, n: Floats, s: Floats, d: Floats, z: Floats,
    at: Floats, centre: Floats, precision: Floats, room: Floats, g: Floats, H: Floats,
) -> None:  # fmt: skip
    """Set g and H (its lower half) to the gradient and the negative Hessian of one annotator's own objective.

    room : for intermediate results, shape (3, n_cells of the annotator or more)
    """
    count, d = end - begin, d[begin:end]
    residual, variance, amount = room[0, :count], room[1, :count], room[2, :count]
    fill_odds(begin, d, z, at[0], at[1:], residual, variance)
    fill_residuals(n[begin:end], s[begin:end], residual, variance)
    for i in range(len(at)):
        one = d if i == 0 else z[begin:end, i - 1]
        for cell in range(count):
            amount[cell] = variance[cell] * one[cell]
        g[i] = dot(residual, one) - precision[i] * (at[i] - centre[i])
        H[i, 0] = dot(amount, d)
        for j in range(1, i + 1):
            H[i, j] = dot(amount, z[begin:end, j - 1])
        H[i, i] += precision[i]


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
def most_cells(first: int, last: int, starts: Indices) -> int:
    """Return the most cells that one of annotators first … last−1 has."""
    most = 0
    for k in range(first, last):
        most = max(most, starts[k + 1] - starts[k])
    return most


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
    room = np.empty((3, most_cells(first, last, starts)))
    for k in range(first, last):
        begin, end, precision = starts[k], starts[k + 1], prior.precision[k]
        expand_own(begin, end, n, s, d, z, at[k], prior.centre, precision, room, g, H[k])
        for _ in range(MOST_STEPS):
            slope, longest = solve_step(H[k], g, fixed, L, step)
            if slope <= near:
                at[k] += step
                break
            length = min(1.0, FURTHEST / longest)
            for _ in range(MOST_HALVINGS):
                tried[:] = at[k] + length * step
                expand_own(begin, end, n, s, d, z, tried, prior.centre, precision, room, g, H[k])
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
    amount = np.empty(most_cells(first, last, cells.starts))
    inverse = np.empty((size, size))
    value = 0.0
    for k in range(first, last):
        value += 0.5 * np.sum(precision[k] * b[k] * b[k])
        value += add_votes(k, cells, d, z, theta[k], b[k], to, amount, mixed, G)
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
        take_out_leans(k, cells.starts, d, z, theta[k], exact, inverse, of_mixed, amount, to.cross, to.leans)
    return value


@compiled
def add_votes(
    k: int, cells: CellArrays, d: Floats, z: Floats, ability: float, b: Floats, to: FeatureDerivatives, amount: Floats,
    mixed: Floats, G: Floats,
) -> float:  # fmt: skip
    """Add the votes of annotator k to the sums, set `mixed` to Σ w d z, the lower half of G to Σ w z zᵀ; return −ℓ_k.

    Leaves w of each cell in `cross`, and s − n p in the first row of `leans`. amount: room for as many cells.
    """
    begin, end = cells.starts[k], cells.starts[k + 1]
    size, n_models, count = len(b), len(to.gradient_scores) - len(b), end - begin
    d, n, s, amount = d[begin:end], cells.n[begin:end], cells.s[begin:end], amount[:count]
    residual, variance = to.leans[0, begin:end], to.cross[begin:end]
    fill_odds(begin, d, z, ability, b, residual, variance)
    value = lose(n, s, residual, variance)
    fill_residuals(n, s, residual, variance)
    for cell in range(count):
        first, second = pair_of(cells.model_a, cells.model_b, begin + cell)
        contribution, stiff = ability * residual[cell], ability * ability * variance[cell]
        to.gradient_scores[first] -= contribution
        to.gradient_scores[second] += contribution
        to.stiffness[first * n_models + second] += stiff
        for i in range(size):
            entry = stiff * z[begin + cell, i]
            to.border[i, first] += entry
            to.border[i, second] -= entry
    for i in range(size):
        column = z[begin:end, i]
        for cell in range(count):
            amount[cell] = variance[cell] * column[cell]
        to.gradient_scores[n_models + i] -= ability * dot(residual, column)
        mixed[i] = dot(amount, d)
        for j in range(i + 1):
            G[i, j] = dot(amount, z[begin:end, j])
    for cell in range(count):
        amount[cell] = variance[cell] * d[cell]
    to.gradient_abilities[k], to.D[k] = -dot(residual, d), dot(amount, d)
    return value


@compiled
def lose(n: Floats, s: Floats, x: Floats, u: Floats) -> float:
    """Return −ℓ of cells with odds x and u = e^−|x|; one logarithm serves cells in a row that weigh the same."""
    value, product, weight = 0.0, 1.0, 1.0
    for cell in range(len(n)):
        if n[cell] != weight or product > PRODUCT_LIMIT:
            value += weight * math.log(product)
            product, weight = 1.0, n[cell]
        product *= 1.0 + u[cell]
        value += n[cell] * max(x[cell], 0.0) - s[cell] * x[cell]
    return value + weight * math.log(product)


@compiled
def take_out_leans(
    k: int, starts: Indices, d: Floats, z: Floats, ability: float, exact: bool, inverse: Floats, of_mixed: Floats,
    amount: Floats, cross: Floats, leans: Floats,
) -> None:  # fmt: skip
    """Set `cross` and `leans` of annotator k's cells from what `add_votes` left there.

    inverse: L⁻¹, L Lᵀ the leans' curvature. amount: room for as many cells.
    """
    begin, end, size = starts[k], starts[k + 1], len(of_mixed)
    along, cross, d = of_mixed @ inverse, cross[begin:end], d[begin:end]
    amount, residual = amount[: end - begin], leans[0, begin:end]
    for cell in range(len(d)):
        amount[cell] = ability * cross[cell]
        cross[cell] = amount[cell] * d[cell] - (residual[cell] if exact else 0.0)
    for back in range(size):
        i = size - 1 - back
        out, column = leans[i, begin:end], z[begin:end, i]
        for cell in range(len(d)):
            cross[cell] -= amount[cell] * along[i] * column[cell]
            out[cell] = amount[cell] * inverse[i, i] * column[cell]
        for j in range(i):
            column = z[begin:end, j]
            for cell in range(len(d)):
                out[cell] += amount[cell] * inverse[i, j] * column[cell]


@compiled
def sum_features(first: int, last: int, starts: Indices, weight: Floats, z: Floats, out: Floats) -> None:
    """Set out (n_annotators, n_features) of annotators first … last−1 to Σ weight·z over their cells."""
    for k in range(first, last):
        for i in range(z.shape[1]):
            out[k, i] = 0.0
        for cell in range(starts[k], starts[k + 1]):
            for i in range(z.shape[1]):
                out[k, i] += weight[cell] * z[cell, i]
