"""Compiled loops over the votes of annotators with leans: x = θ (R_a − R_b + γ·z) + b·z, b integrated by Laplace.

R holds the scores, then γ. Of an annotator's slots the first is the coin's, θ = 0; then come the nodes.
"""

import numpy as np

from app.rating.arrays import Floats, Indices, Ints
from app.rating.compiled import compiled
from app.rating.model.kernels import (
    COIN,
    FOLLOWER,
    FURTHEST,
    MEAN,
    MOST_NODES,
    PRECISION,
    PRODUCT,
    SLIP,
    STRICT,
    find_polynomials,
    pull_of,
)

SLOTS = 1 + MOST_NODES
STEPS = 12  # of Newton's method for leans, at most
NEAR, NEAR_MODE = 1e-8, 1e-2  # squared length in standard errors of the last step: of leans at a node, and of a mode
LONGEST = 2.0  # step of a lean
LARGEST_ODDS = 30.0
OF_ABILITY = 2  # polynomials in θ, before the leans, in what `find_feature_contributions` says of an annotator


@compiled
def distance_of(c: int, a: Ints, b: Ints, z: Floats, R: Floats) -> float:
    """Return R_a − R_b + γ·z of a cell."""
    models = len(R) - z.shape[1]
    d = min(max(R[a[c]] - R[b[c]], -FURTHEST), FURTHEST)
    for j in range(z.shape[1]):
        d += R[models + j] * z[c, j]
    return d


@compiled
def invert_each(A: Floats, m: int, log_det: Floats) -> None:
    """Replace the first m of the positive definite matrices A[:, :, q] by their inverses; set `log_det`."""
    size = len(A)
    log_det[:m] = 0.0
    pivot, factor = np.empty(m), np.empty(m)
    for j in range(size):
        for q in range(m):
            pivot[q] = 1.0 / A[j, j, q]
            log_det[q] += np.log(A[j, j, q])
            A[j, j, q] = 1.0
        for i in range(size):
            for q in range(m):
                A[j, i, q] *= pivot[q]
        for i in range(size):
            if i != j:
                for q in range(m):
                    factor[q] = A[i, j, q]
                    A[i, j, q] = 0.0
                for other in range(size):
                    for q in range(m):
                        A[i, other, q] -= factor[q] * A[j, other, q]


@compiled
def climb_abilities_and_leans(
    starts: Indices, a: Ints, b: Ints, n: Floats, s: Floats, z: Floats, R: Floats, temper: float, precision: Floats,
    at: Floats, along: Floats, information: Floats,
) -> None:  # fmt: skip
    """Take Newton steps on each (θ, b), a row of `at`, under the wide prior of θ.

    `along` becomes the derivative of the leans' mode by θ, `information` that of the votes on θ, the leans unknown.
    """
    size = at.shape[1]
    w, gradient, V, log_det = np.empty(size), np.empty(size), np.empty((size, size, 1)), np.empty(1)
    for k in range(len(at)):
        for _ in range(STEPS):
            V[:] = 0.0
            gradient[0], V[0, 0, 0] = (MEAN - at[k, 0]) * PRECISION, PRECISION
            for j in range(1, size):
                gradient[j], V[j, j, 0] = -precision[j - 1] * at[k, j], precision[j - 1]
            for c in range(starts[k], starts[k + 1]):
                w[0] = distance_of(c, a, b, z, R)
                w[1:] = z[c]
                x = (at[k] * w).sum()
                p = 1.0 / (1.0 + np.exp(-min(max(x, -LARGEST_ODDS), LARGEST_ODDS)))
                for j in range(size):
                    gradient[j] += temper * (s[c] - n[c] * p) * w[j]
                    for i in range(size):
                        V[i, j, 0] += temper * n[c] * p * (1.0 - p) * w[i] * w[j]
            invert_each(V, 1, log_det)
            length = 0.0
            for j in range(size):
                move = (V[j, :, 0] * gradient).sum()
                length += move * gradient[j]
                at[k, j] += min(max(move, -1.0), 1.0)
            if length < NEAR_MODE:
                break
        information[k] = 1.0 / V[0, 0, 0] - PRECISION
        for j in range(1, size):
            along[k, j - 1] = V[j, 0, 0] / V[0, 0, 0]


@compiled
def fill_odds(c: int, d: float, z: Floats, theta: Floats, leans: Floats, m: int, x: Floats) -> None:
    """Set x = θ_q d + b_q·z of a cell in the first m slots."""
    for q in range(m):
        x[q] = theta[q] * d
    for j in range(z.shape[1]):
        for q in range(m):
            x[q] += leans[j, q] * z[c, j]
    for q in range(m):
        x[q] = min(max(x[q], -LARGEST_ODDS), LARGEST_ODDS)


@compiled
def fill_feature_likelihoods(
    starts: Indices, a: Ints, b: Ints, n: Floats, s: Floats, z: Floats, R: Floats, temper: float, precision: Floats,
    low: Floats, step: Floats, size: Indices, leans: Floats, table: Floats, extra: Floats,
) -> None:  # fmt: skip
    """Move the leans of every slot to their mode b̂, and set the log-likelihoods as `fill_likelihoods` does.

    table[k, q] = log L_k(θ_q, b̂) − ½ b̂′Pb̂ − ½ log det(A/P) with A = P − ∂²log L_k/∂b². The last Newton step enters by
    the expansion about its start, so that near the mode the votes are read once.
    """
    count = z.shape[1]
    theta, x, product, value = np.zeros(SLOTS), np.empty(SLOTS), np.empty(SLOTS), np.empty(SLOTS)
    left, variance, log_det = np.empty(SLOTS), np.empty(SLOTS), np.empty(SLOTS)
    gradient, A, move = np.empty((count, SLOTS)), np.empty((count, count, SLOTS)), np.empty(count)
    for k in range(len(size)):
        m, follower = size[k] + 1, 0.0
        for q in range(1, m):
            theta[q] = low[k] + (q - 1) * step[k]
        able = low[k] + 0.5 * size[k] * step[k] > 1.0
        for round_ in range(STEPS):
            product[:m], factors = 1.0, 0
            value[:m], A[:, :, :m] = 0.5 * np.log(precision).sum(), 0.0
            for j in range(count):
                A[j, j, :m] = precision[j]
                for q in range(m):
                    gradient[j, q] = -precision[j] * leans[k, j, q]
                    value[q] -= 0.5 * precision[j] * leans[k, j, q] ** 2
            for c in range(starts[k], starts[k + 1]):
                fill_odds(c, distance_of(c, a, b, z, R), z, theta, leans[k], m, x)
                for q in range(m):
                    e = np.exp(-x[q])
                    p = 1.0 / (1.0 + e)
                    value[q] -= temper * (n[c] - s[c]) * x[q]
                    left[q] = temper * (s[c] - n[c] * p)
                    variance[q] = temper * n[c] * p * (1.0 - p)
                    if n[c] == 1.0:
                        product[q] *= 1.0 + e
                    else:
                        value[q] += temper * n[c] * np.log(p)
                factors += 1
                if factors == PRODUCT:
                    for q in range(m):
                        value[q] -= temper * np.log(product[q])
                        product[q] = 1.0
                    factors = 0
                for j in range(count):
                    own = z[c, j]
                    for q in range(m):
                        gradient[j, q] += left[q] * own
                    for i in range(j + 1):
                        both = own * z[c, i]
                        for q in range(m):
                            A[j, i, q] += variance[q] * both
                if able and round_ == 0:
                    d = min(max(R[a[c]] - R[b[c]], -FURTHEST), FURTHEST)
                    p = (1.0 - SLIP) / (1.0 + np.exp(-min(max(STRICT * d, -30.0), 30.0))) + SLIP / 2.0
                    follower += s[c] * np.log(p) + (n[c] - s[c]) * np.log(1.0 - p)
            for j in range(count):
                for i in range(j):
                    A[i, j, :m] = A[j, i, :m]
            invert_each(A, m, log_det)
            longest = 0.0
            for q in range(m):
                length, size_ = 0.0, 0.0
                for j in range(count):
                    move[j] = (A[j, :, q] * gradient[:, q]).sum()
                    length += move[j] * gradient[j, q]
                    size_ = max(size_, abs(move[j]))
                value[q] += 0.5 * length - 0.5 * log_det[q] - temper * np.log(product[q])
                longest = max(longest, length)
                leans[k, :, q] += move * min(1.0, LONGEST / max(size_, LONGEST))
            if longest < NEAR:
                break
        for q in range(size[k]):
            table[k, q] = value[1 + q]
        extra[k, COIN] = value[0]
        extra[k, FOLLOWER] = temper * follower if able else -np.inf


@compiled
def find_feature_contributions(
    first: int, last: int, starts: Indices, a: Ints, b: Ints, n: Floats, s: Floats, z: Floats, weight: Floats,
    R: Floats, temper: float, precision: Floats, low: Floats, step: Floats, size: Indices, posterior: Floats,
    types: Floats, leans: Floats, strength: float, full: bool, stretch: Floats, information: Floats, stretched: Floats,
    rows: Floats, moments: Floats, answers: Floats, known_of_features: Floats,
) -> None:  # fmt: skip
    """Add what annotators first … last−1 say of scores and γ, as `find_contributions` does, and set their leans.

    E[p | θ] = p + ½ p″ z′Vz + p′ z·δ with V = A⁻¹ and δ = −½ V Σ n p″ (z′Vz) z, the mean of b less its mode: with it
    the rows are the gradient of the likelihoods of `fill_feature_likelihoods`. Where `full`, after each pair of rows
    for the polynomials in θ come those for the leans, whose products add up to Σ E[hθ C′VC], C = Σ n p′ z (e_a − e_b, z)′.

    `moments` (n_annotators, 3, n_features) become E[b], E[b²] and E[θ b]; `answers` (n_annotators, n_features,
    2 + n_features) what E[b] is of the rows of dℓ_k/dR when the scores and γ move.
    """
    count, models, half = z.shape[1], len(R) - z.shape[1], OF_ABILITY + z.shape[1]
    most = 0
    for k in range(first, last):
        most = max(most, (starts[k + 1] - starts[k]) * (size[k] + 1))
    room_p, room_v = np.empty(most), np.empty(most)
    theta, x, log_det, mass = np.zeros(SLOTS), np.empty(SLOTS), np.empty(SLOTS), np.empty(SLOTS)
    V, delta, bent = np.empty((count, count, SLOTS)), np.empty((count, SLOTS)), np.empty((count, SLOTS))
    one, two, L = np.empty(MOST_NODES), np.empty(MOST_NODES), np.empty((count, count))
    pull, own_theta, known = np.zeros(SLOTS), np.zeros(SLOTS), np.zeros((4, SLOTS))
    entry, turned = np.empty(2 + 2 * half), np.empty(count)
    for k in range(first, last):
        m, row, begin, cells = size[k] + 1, k - first, starts[k], starts[k + 1] - starts[k]
        for q in range(1, m):
            theta[q] = low[k] + (q - 1) * step[k]
        p, v = room_p[: cells * m].reshape(cells, m), room_v[: cells * m].reshape(cells, m)
        V[:, :, :m] = 0.0
        for j in range(count):
            V[j, j, :m] = precision[j]
        for i in range(cells):
            c = begin + i
            fill_odds(c, distance_of(c, a, b, z, R), z, theta, leans[k], m, x)
            for q in range(m):
                p[i, q] = 1.0 / (1.0 + np.exp(-x[q]))
            for j in range(count):
                for other in range(j + 1):
                    both = temper * n[c] * z[c, j] * z[c, other]
                    for q in range(m):
                        V[j, other, q] += both * p[i, q] * (1.0 - p[i, q])
        for j in range(count):
            for other in range(j):
                V[other, j, :m] = V[j, other, :m]
        invert_each(V, m, log_det)
        bent[:, :m] = 0.0
        for i in range(cells):
            c = begin + i
            v[i] = 0.0
            for j in range(count):
                for other in range(j + 1):
                    both = z[c, j] * z[c, other] * (1.0 if j == other else 2.0)
                    for q in range(m):
                        v[i, q] += both * V[j, other, q]
            for q in range(m):
                x[q] = -0.5 * temper * n[c] * p[i, q] * (1.0 - p[i, q]) * (1.0 - 2.0 * p[i, q]) * v[i, q]
            for j in range(count):
                for q in range(m):
                    bent[j, q] += x[q] * z[c, j]
        delta[:, :m] = 0.0
        for j in range(count):
            for other in range(count):
                for q in range(m):
                    delta[j, q] += V[j, other, q] * bent[other, q]
        find_polynomials(posterior[k], low[k], step[k], size[k], one, two)
        mass[0], mass[1:m] = types[k, COIN + 1], posterior[k, : m - 1]
        for q in range(1, m):
            pull[q], own_theta[q] = mass[q] * pull_of(theta[q], strength), mass[q] * theta[q]
            known[0, q], known[1, q] = pull[q] * one[q - 1], pull[q] * two[q - 1]
            known[2, q], known[3, q] = own_theta[q] * one[q - 1], own_theta[q] * two[q - 1]
        square = max((own_theta[1:m] * theta[1:m]).sum(), 1e-12)
        set_leans(mass, theta, one, two, leans[k], delta, V, precision, m, square, L, moments[k], answers[k])
        if full:
            known_of_features[k] = 0.0
        totals, total_pull, total_theta = known[:, 1:m].sum(axis=1), pull[1:m].sum(), own_theta[1:m].sum()
        for i in range(cells):
            c = begin + i
            x[:m] = 0.0
            for j in range(count):
                for q in range(m):
                    x[q] += z[c, j] * delta[j, q]
            u = u1 = stiff = stiff1 = x1 = x2 = y1 = y2 = 0.0
            for q in range(1, m):
                variance, skew = p[i, q] * (1.0 - p[i, q]), 1.0 - 2.0 * p[i, q]
                mean = p[i, q] + variance * (0.5 * skew * v[i, q] + x[q])
                u += pull[q] * mean
                u1 += own_theta[q] * mean
                if full:
                    variance *= max(1.0 + 0.5 * (1.0 - 6.0 * variance) * v[i, q] + skew * x[q], 0.0)
                    stiff += pull[q] * theta[q] * variance
                    stiff1 += own_theta[q] * theta[q] * variance
                    x1 += known[0, q] * mean
                    x2 += known[1, q] * mean
                    y1 += known[2, q] * mean
                    y2 += known[3, q] * mean
            w = 1.0 - strength + strength * weight[c]
            entry[0], entry[1] = w * (s[c] * total_pull - n[c] * u), s[c] * total_theta - n[c] * u1
            terms = 2
            if full:
                terms = len(entry)
                stiff *= w * n[c]
                stiff1 *= n[c]
                entry[2], entry[3] = w * (s[c] * totals[0] - n[c] * x1), w * (s[c] * totals[1] - n[c] * x2)
                entry[2 + half] = temper * (s[c] * totals[2] - n[c] * y1)
                entry[3 + half] = temper * (s[c] * totals[3] - n[c] * y2)
                for j in range(count):
                    turned[j] = 0.0
                    for other in range(j, count):
                        turned[j] += L[other, j] * z[c, other]
                    turned[j] /= np.sqrt(square)
                    entry[4 + j], entry[4 + half + j] = stiff * turned[j], temper * stiff1 * turned[j]
                for j in range(count):
                    known_of_features[k, j] += stiff * z[c, j] ** 2
                add_square(a[c], b[c], z[c], stiff, models, information)
                along = stretch[a[c]] - stretch[b[c]]
                for j in range(count):
                    along += stretch[models + j] * z[c, j]
                add_row(a[c], b[c], z[c], stiff1 * along, models, stretched)
            for term in range(terms):
                add_row(a[c], b[c], z[c], entry[term], models, rows[term, row])
        if full:
            for j in range(count):
                for i in range(2, 2 + half):
                    known_of_features[k, j] -= rows[i, row, models + j] * rows[i + half, row, models + j]


@compiled
def add_row(a: int, b: int, z: Floats, amount: float, models: int, row: Floats) -> None:
    """Add amount·(e_a − e_b, z) to a row."""
    row[a] += amount
    row[b] -= amount
    for j in range(len(z)):
        row[models + j] += amount * z[j]


@compiled
def add_square(a: int, b: int, z: Floats, amount: float, models: int, matrix: Floats) -> None:
    """Add amount·(e_a − e_b, z)(e_a − e_b, z)′ to a matrix."""
    add_row(a, b, z, amount, models, matrix[a])
    add_row(a, b, z, -amount, models, matrix[b])
    for j in range(len(z)):
        add_row(a, b, z, amount * z[j], models, matrix[models + j])


@compiled
def set_leans(
    mass: Floats, theta: Floats, one: Floats, two: Floats, leans: Floats, delta: Floats, V: Floats, precision: Floats,
    m: int, square: float, L: Floats, moments: Floats, answers: Floats,
) -> None:  # fmt: skip
    """Set an annotator's moments of b and its answers; L becomes the Cholesky factor of E[θ² V]/E[θ²].

    The mass that is missing is the follower's, whose leans the votes say nothing of.
    """
    count, total = len(L), mass[:m].sum()
    ability = (mass[:m] * theta[:m]).sum()
    L[:] = 0.0
    for j in range(count):
        b = leans[j, :m] + delta[j, :m]
        mean = (mass[:m] * b).sum()
        second, cross = (mass[:m] * (b * b + V[j, j, :m])).sum(), (mass[:m] * theta[:m] * b).sum()
        b = mass[1:m] * (b[1:] - mean)
        answers[j, 0], answers[j, 1] = (b * one[: m - 1]).sum(), (b * two[: m - 1]).sum()
        for i in range(j + 1):
            L[j, i] = (mass[:m] * theta[:m] ** 2 * V[j, i, :m]).sum() / square
        moments[0, j], moments[1, j], moments[2, j] = mean, second + (1.0 - total) / precision[j], cross
    for j in range(count):
        for i in range(j + 1):
            for other_ in range(i):
                L[j, i] -= L[j, other_] * L[i, other_]
            L[j, i] = np.sqrt(max(L[j, j], 1e-300)) if i == j else L[j, i] / L[i, i]
    for j in range(count):
        for i in range(count):
            answers[j, OF_ABILITY + i] = -ability / np.sqrt(square) * L[j, i]
