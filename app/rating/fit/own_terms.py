"""Every annotator's ability, leans and readiness to tie at fixed scores: x = θ d + zᵀb, d = R_a − R_b + zᵀγ."""

import math
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.compiled import compiled
from app.rating.fit.kernels import dot
from app.rating.fit.rows import CellRows
from app.rating.threads import map_parts

MOST_STEPS = 50
MOST_HALVINGS = 30
FURTHEST = 2.0  # no parameter moves further in one step
NEAR = 1e-12  # squared length of the last step, in standard errors
STEEPER = 0.9  # share of the slope along a step that may be left at its end, on either side


class OwnPrior(NamedTuple):
    """The normal prior of (θ, b), or of (θ, b, log ν): its mean, shape (size,), and precision, a row per annotator."""

    centre: Floats
    precision: Floats


def maximise_own(
    rows: CellRows, d: Floats, z: Floats, prior: OwnPrior, at: Floats,
    *, fixed: bool = False, near: float = NEAR, short: float = 0.0,
) -> Floats:  # fmt: skip
    """Maximise every annotator's ℓ_k(θ, b) plus log prior, P(a wins) = σ(θ d + zᵀb); return the negative Hessians.

    With one more column in `at`, log ν, a vote is won, tied or lost with weights e^{x/2} : ν : e^{−x/2} (Davidson 1970;
    Davidson and Beaver 1977 for the side), x = θ d + zᵀb; without it a tie is half a win for each.

    Parameters
    ----------
    d, z : of each cell, shapes (n_cells,) and (n_cells, n_features)
    at : where the search begins and, after it, ends, shape (n_annotators, size)
    fixed : whether θ stays
    near, short : squared length in standard errors, and longest entry, of a step either of which ends the search; what
        is left is about its square

    Returns
    -------
    At the point before the last step, shape (n_annotators, size, size).
    """
    c, H, z = rows.cells, np.empty((*at.shape, at.shape[1])), np.asfortranarray(z)  # a feature of cells in a row
    map_parts(
        lambda part: settle(*part, rows.starts, c.n, c.s, c.ties, d, z, prior, int(fixed), near, short, at, H),
        rows.parts,
    )
    return H


def invert(H: Floats) -> Floats:
    """Return the inverse of each annotator's matrix."""
    return np.linalg.inv(H).astype(np.float64, copy=False)


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
def add_columns(begin: int, z: Floats, factor: Floats, out: Floats) -> None:
    """Add zᵀfactor of the cells from `begin` on to `out`."""
    for i in range(len(factor)):
        column = z[begin : begin + len(out), i]
        for cell in range(len(out)):
            out[cell] += factor[i] * column[cell]


@compiled
def fill_odds(begin: int, d: Floats, z: Floats, ability: float, b: Floats, x: Floats) -> None:
    """Set x of an annotator's cells, from the cell `begin` of z on."""
    for cell in range(len(d)):
        x[cell] = ability * d[cell]
    add_columns(begin, z, b, x)


@compiled
def fill_residuals(n: Floats, s: Floats, x: Floats, u: Floats, residual: Floats, variance: Floats) -> None:
    """Set `residual` to s − n p, and `variance` to n p(1 − p); u is e^−|x|."""
    for cell in range(len(n)):
        near = 1.0 / (1.0 + u[cell])
        residual[cell] = s[cell] - n[cell] * (near if x[cell] >= 0.0 else u[cell] * near)
        variance[cell] = n[cell] * near * near * u[cell]


@compiled
def fill_tied(
    n: Floats, s: Floats, ties: Floats, readiness: float, x: Floats, u: Floats, residual: Floats, variance: Floats,
    mixed: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Set what `fill_residuals` does, where log ν is `readiness`; return its gradient and curvature.

    mixed: set to the curvature by x and log ν.
    """
    propensity, gradient, curvature = math.exp(readiness), 0.0, 0.0
    for cell in range(len(n)):
        tie = propensity * math.sqrt(u[cell])
        share = 1.0 / (1.0 + u[cell] + tie)
        lead, tie = math.copysign((1.0 - u[cell]) * share, x[cell]), tie * share
        gradient += ties[cell] - n[cell] * tie
        curvature += n[cell] * tie * (1.0 - tie)
        mixed[cell] = -0.5 * n[cell] * lead * tie
        residual[cell] = s[cell] - 0.5 * n[cell] * (1.0 + lead)
        variance[cell] = 0.25 * n[cell] * (1.0 - tie - lead * lead)
    return gradient, curvature


@compiled
def expand_own(
    begin: int, end: int, n: Floats, s: Floats, ties: Floats, d: Floats, z: Floats,
    at: Floats, centre: Floats, precision: Floats, room: Floats, g: Floats, H: Floats,
) -> None:  # fmt: skip
    """Set g and H (its lower half) to the gradient and the negative Hessian of one annotator's own objective.

    room : set to residuals, variances, x and e^−|x|; two more rows are to work in; a cell of the annotator a column
    """
    count, d, known, last = end - begin, d[begin:end], 1 + z.shape[1], len(at) - 1
    residual, variance, x, u = room[0, :count], room[1, :count], room[2, :count], room[3, :count]
    amount, mixed = room[4, :count], room[5, :count]
    fill_odds(begin, d, z, at[0], at[1:known], x)
    for cell in range(count):
        u[cell] = math.exp(-abs(x[cell]))
    if last == known:
        g[last], H[last, last] = fill_tied(
            n[begin:end], s[begin:end], ties[begin:end], at[last], x, u, residual, variance, mixed
        )
        g[last] -= precision[last] * (at[last] - centre[last])
        H[last, last] += precision[last]
        for i in range(known):
            H[last, i] = dot(mixed, d if i == 0 else z[begin:end, i - 1])
    else:
        fill_residuals(n[begin:end], s[begin:end], x, u, residual, variance)
    for i in range(known):
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
    first: int, last: int, starts: Indices, n: Floats, s: Floats, ties: Floats, d: Floats, z: Floats,
    prior: OwnPrior, fixed: int, near: float, short: float, at: Floats, H: Floats,
) -> None:  # fmt: skip
    """Maximise as `maximise_own`, for annotators first … last−1."""
    size = at.shape[1]
    vectors, L, room = np.zeros((3, size)), np.zeros((size, size)), np.empty((6, most_cells(first, last, starts)))
    for k in range(first, last):
        search(
            starts[k], starts[k + 1], n, s, ties, d, z, prior.centre, prior.precision[k], fixed, near, short, room,
            at[k], vectors, H[k], L,
        )  # fmt: skip
        at[k] += vectors[1]
        for i in range(size):
            for j in range(i):
                H[k, j, i] = H[k, i, j]


@compiled
def search(
    begin: int, end: int, n: Floats, s: Floats, ties: Floats, d: Floats, z: Floats, centre: Floats, precision: Floats,
    fixed: int, near: float, short: float, room: Floats, at: Floats, vectors: Floats, H: Floats, L: Floats,
) -> float:  # fmt: skip
    """Move one annotator's `at` to a last step from the maximum; return the squared length of that step.

    Newton's method on a concave function; a step is halved where it ends in a steep slope down. Sets H and `room` as
    `expand_own` does, the rows of `vectors` to the gradient and the last step, and L to the factor of H.
    """
    g, step, tried = vectors[0], vectors[1], vectors[2]
    expand_own(begin, end, n, s, ties, d, z, at, centre, precision, room, g, H)
    for _ in range(MOST_STEPS):
        slope, longest = solve_step(H, g, fixed, L, step)
        if slope <= near or longest <= short:
            return slope
        length = min(1.0, FURTHEST / longest)
        for _ in range(MOST_HALVINGS):
            tried[:] = at + length * step
            expand_own(begin, end, n, s, ties, d, z, tried, centre, precision, room, g, H)
            if g @ step >= -STEEPER * slope:
                break
            length *= 0.5
        at[:] = tried
    step[:] = 0.0
    return 0.0
