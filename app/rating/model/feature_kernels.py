"""Compiled loops over the votes of annotators with leans: x = θ (R_a − R_b + γ·z) + b·z, b integrated by Laplace.

R holds the scores, then γ. Of an annotator's slots the first is the coin's, θ = 0; then come the nodes.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Ints
from app.rating.compiled import compiled
from app.rating.model.kernels import (
    ANY_ORDER,
    COIN,
    MEAN,
    MOST_NODES,
    PRECISION,
    LawNumbers,
    Nodes,
    exponentiate,
    find_polynomials,
    pull_of,
)
from app.rating.votes.cells import CellArrays

SLOTS = 1 + MOST_NODES
PRODUCT = 8  # factors 1 + e^−x of one logarithm: their product stays finite
STEPS = 12  # of Newton's method for leans, at most
NEAR, NEAR_MODE = 1e-4, 1e-2  # squared length in standard errors of the last step: of leans at a node, and of a mode
LONGEST = 2.0  # step of a lean
FURTHEST, LARGEST_ODDS = 12.0, 85.0  # distance, and log odds at a node, beyond which a vote is as good as certain
CHUNK = 1024
OF_ABILITY = 2  # polynomials in θ, before the leans, in what `find_feature_contributions` says of an annotator


@compiled
def distance_of(c: int, a: Ints, b: Ints, z: Floats, R: Floats) -> float:
    """Return R_a − R_b + γ·z of a cell."""
    models = len(R) - z.shape[1]
    d = R[a[c]] - R[b[c]]
    for j in range(z.shape[1]):
        d += R[models + j] * z[c, j]
    return min(max(d, -FURTHEST), FURTHEST)


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
    cells: CellArrays, z: Floats, R: Floats, temper: float, precision: Floats, at: Floats, along: Floats,
    information: Floats,
) -> None:  # fmt: skip
    """Take Newton steps on each (θ, b), a row of `at`, under the wide prior of θ.

    `along` becomes the derivative of the leans' mode by θ, `information` that of the votes on θ, the leans unknown.
    """
    starts, a, b, n, s, size = cells.starts, cells.model_a, cells.model_b, cells.n, cells.s, at.shape[1]
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


@partial(compiled, fastmath=ANY_ORDER)
def fill_exponentials(
    k: int, cells: CellArrays, z: Floats, R: Floats, nodes: Nodes, leans: Floats, theta: Floats, power: Floats, e: Floats
) -> None:  # fmt: skip
    """Set θ of an annotator's slots, and e^−x, x = θ d + b·z, shape (its cells, its slots)."""
    m, begin, x = nodes.size[k] + 1, cells.starts[k], np.empty(SLOTS)
    theta[0] = 0.0
    for q in range(1, m):
        theta[q] = nodes.low[k] + (q - 1) * nodes.step[k]
    for i in range(len(e)):
        c = begin + i
        d = distance_of(c, cells.model_a, cells.model_b, z, R)
        for q in range(m):
            x[q] = theta[q] * d
        for j in range(z.shape[1]):
            for q in range(m):
                x[q] += leans[k, j, q] * z[c, j]
        for q in range(m):
            e[i, q] = -min(max(x[q], -LARGEST_ODDS), LARGEST_ODDS)
    flat = e.reshape(e.size)
    for start in range(0, len(flat), len(power)):
        exponentiate(flat[start : start + len(power)], power)


@compiled
def most_slots(first: int, last: int, cells: CellArrays, nodes: Nodes) -> int:
    """Return the most slots times cells that one of annotators first … last−1 has."""
    most = 0
    for k in range(first, last):
        most = max(most, (cells.starts[k + 1] - cells.starts[k]) * (nodes.size[k] + 1))
    return most


@partial(compiled, fastmath=ANY_ORDER)
def fill_feature_likelihoods(
    cells: CellArrays, z: Floats, R: Floats, temper: float, precision: Floats, nodes: Nodes, leans: Floats,
    table: Floats, extra: Floats,
) -> None:  # fmt: skip
    """Move the leans of every slot to their mode b̂, and set the log-likelihoods of nodes and coin.

    table[k, q] = log L_k(θ_q, b̂) − ½ b̂′Pb̂ − ½ log det(A/P) with A = P − ∂²log L_k/∂b². The last Newton step enters by
    the expansion about its start, so that near the mode the votes are read once.
    """
    n, s, count, power = cells.n, cells.s, z.shape[1], np.empty(CHUNK)
    theta, product, value, log_det = np.empty(SLOTS), np.empty(SLOTS), np.empty(SLOTS), np.empty(SLOTS)
    left, variance = np.empty(SLOTS), np.empty(SLOTS)
    gradient, A, move, totals = np.empty((count, SLOTS)), np.empty((count, count, SLOTS)), np.empty(count), np.empty(count)
    room = np.empty(most_slots(0, len(nodes.size), cells, nodes))
    for k in range(len(nodes.size)):
        m, begin, number = nodes.size[k] + 1, cells.starts[k], cells.starts[k + 1] - cells.starts[k]
        odds = room[: number * m].reshape(number, m)
        for _ in range(STEPS):
            fill_exponentials(k, cells, z, R, nodes, leans, theta, power, odds)
            product[:m], factors = 1.0, 0
            value[:m], A[:, :, :m] = 0.5 * np.log(precision).sum(), 0.0
            for j in range(count):
                A[j, j, :m] = precision[j]
                for q in range(m):
                    gradient[j, q] = -precision[j] * leans[k, j, q]
                    value[q] -= 0.5 * precision[j] * leans[k, j, q] ** 2
            lost, totals[:] = 0.0, 0.0
            for i in range(number):
                c = begin + i
                votes, won, here = n[c], s[c], odds[i]
                lost += (votes - won) * distance_of(c, cells.model_a, cells.model_b, z, R)
                for q in range(m):
                    p = 1.0 / (1.0 + here[q])
                    left[q] = temper * (won - votes * p)
                    variance[q] = temper * votes * p * (1.0 - p)
                    product[q] *= 1.0 + here[q]
                factors += 1
                if factors == PRODUCT or votes != 1.0 or (i + 1 < number and n[c + 1] != 1.0):
                    for q in range(m):  # a cell of many votes has a logarithm of its own
                        value[q] -= temper * votes * np.log(product[q])
                        product[q] = 1.0
                    factors = 0
                for j in range(count):
                    own = z[c, j]
                    totals[j] += (votes - won) * own
                    for q in range(m):
                        gradient[j, q] += left[q] * own
                    for other in range(j + 1):
                        both = own * z[c, other]
                        for q in range(m):
                            A[j, other, q] += variance[q] * both
            for j in range(count):
                for other in range(j):
                    A[other, j, :m] = A[j, other, :m]
            invert_each(A, m, log_det)
            longest = 0.0
            for q in range(m):
                length, furthest, sure = 0.0, 0.0, theta[q] * lost
                for j in range(count):
                    sure += leans[k, j, q] * totals[j]
                    move[j] = 0.0
                    for other in range(count):
                        move[j] += A[j, other, q] * gradient[other, q]
                    length += move[j] * gradient[j, q]
                    furthest = max(furthest, abs(move[j]))
                value[q] += 0.5 * length - 0.5 * log_det[q] - temper * (sure + np.log(product[q]))
                longest = max(longest, length)
                for j in range(count):
                    leans[k, j, q] += move[j] * min(1.0, LONGEST / max(furthest, LONGEST))
            if longest < NEAR:
                break
        for q in range(m - 1):
            table[k, q] = value[1 + q]
        extra[k, COIN] = value[0]


class Told(NamedTuple):
    """What `find_feature_contributions` sets of each annotator.

    Attributes
    ----------
    moments : E[b], E[b²] and E[θ b], shape (n_annotators, 3, n_features)
    answers : what E[b] moves by where (R, γ) moves along the rows of dℓ_k/d(R, γ), those for the two polynomials and
        those for the leans, shape (n_annotators, n_features, 2 + n_features)
    of_law : E[φ ∂log g/∂λ] of the polynomials φ and the law's logarithms λ, shape (n_annotators, 2, 4)
    noise : of each cell, the variance of its part of u as an independent vote, shape (n_cells,)
    """

    moments: Floats
    answers: Floats
    of_law: Floats
    noise: Floats


@partial(compiled, fastmath=ANY_ORDER)
def find_feature_contributions(
    first: int, last: int, cells: CellArrays, z: Floats, weight: Floats, R: Floats, temper: float, precision: Floats,
    nodes: Nodes, posterior: Floats, types: Floats, law: LawNumbers, leans: Floats, strength: float, stretch: Floats,
    information: Floats, stretched: Floats, rows: Floats, told: Told,
) -> None:  # fmt: skip
    """Add what annotators first … last−1 say of scores and γ to rows, `information` and `stretched`; set their leans.

    E[p | θ] = p + ½ p″ z′Vz + p′ z·δ with V = A⁻¹ and δ = −½ V Σ n p″ (z′Vz) z, the mean of b less its mode: with it
    u is the gradient of the likelihoods of `fill_feature_likelihoods`.

    Parameters
    ----------
    stretch : entry of each model in its component's direction, shape (n_models + n_features,)
    rows : of u_k, and of the same with θ for h and w = 1; for the two polynomials and each lean, factors of what
        abilities and leans, not being known, take from the information, those of u before those of dℓ_k/d(R, γ); and
        the diagonal of the information; shape (7 + 2 n_features, last − first, n_models + n_features)
    """
    n, s, a, b, count, models = cells.n, cells.s, cells.model_a, cells.model_b, z.shape[1], len(R) - z.shape[1]
    half, most, power = OF_ABILITY + count, most_slots(first, last, cells, nodes), np.empty(CHUNK)
    room_p, room_v = np.empty(most), np.empty(most)
    theta, x, log_det, mass = np.empty(SLOTS), np.empty(SLOTS), np.empty(SLOTS), np.empty(SLOTS)
    V, delta, bent = np.empty((count, count, SLOTS)), np.empty((count, SLOTS)), np.empty((count, SLOTS))
    one, two, L = np.empty(SLOTS), np.empty(SLOTS), np.empty((count, count))
    K, entry, totals = np.zeros((9, SLOTS)), np.empty(len(rows) + 1), np.empty(6)
    terms, sums, known, before = len(entry), np.zeros((len(R), len(entry))), np.zeros(len(R)), np.zeros(count)
    touched = np.empty(2 * most + count, np.int64)
    for j in range(count):
        before[j] = information[models + j, models + j]
    for k in range(first, last):
        m, row, begin, number = nodes.size[k] + 1, k - first, cells.starts[k], cells.starts[k + 1] - cells.starts[k]
        p, v = room_p[: number * m].reshape(number, m), room_v[: number * m].reshape(number, m)
        fill_exponentials(k, cells, z, R, nodes, leans, theta, power, p)
        V[:, :, :m] = 0.0
        for j in range(count):
            V[j, j, :m] = precision[j]
        for i in range(number):
            c = begin + i
            for q in range(m):
                p[i, q] = 1.0 / (1.0 + p[i, q])
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
        for i in range(number):
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
                own = z[c, j]
                for q in range(m):
                    bent[j, q] += x[q] * own
        delta[:, :m] = 0.0
        for j in range(count):
            for other in range(count):
                for q in range(m):
                    delta[j, q] += V[j, other, q] * bent[other, q]
        one[0], two[0] = find_polynomials(posterior[k], nodes.low[k], nodes.step[k], m - 1, one[1:], two[1:])
        weigh_slots(posterior[k], types[k], theta, one, two, law, strength, m, mass, K, told.of_law[k])
        square = max(K[7, :m].sum(), 1e-12)
        root = np.sqrt(square)
        set_leans(mass, theta, one, two, leans[k], delta, V, precision, m, square, L, told.moments[k], told.answers[k])
        for j in range(6):
            totals[j] = K[j, :m].sum()
        for i in range(number):
            c = begin + i
            x[:m] = 0.0
            for j in range(count):
                own = z[c, j]
                for q in range(m):
                    x[q] += own * delta[j, q]
            u = u1 = x1 = x2 = y1 = y2 = stiff = stiff1 = noise = 0.0
            for q in range(m):
                variance, skew = p[i, q] * (1.0 - p[i, q]), 1.0 - 2.0 * p[i, q]
                mean = p[i, q] + variance * (0.5 * skew * v[i, q] + x[q])
                variance *= max(1.0 + 0.5 * (1.0 - 6.0 * variance) * v[i, q] + skew * x[q], 0.0)
                u += K[0, q] * mean
                u1 += K[1, q] * mean
                x1 += K[2, q] * mean
                x2 += K[3, q] * mean
                y1 += K[4, q] * mean
                y2 += K[5, q] * mean
                stiff += K[6, q] * variance
                stiff1 += K[7, q] * variance
                noise += K[8, q] * variance
            w, votes, won = 1.0 - strength + strength * weight[c], n[c], s[c]
            told.noise[c] = w * w * votes * noise / temper
            stiff *= w * votes
            stiff1 *= votes
            entry[0], entry[1] = w * (won * totals[0] - votes * u), won * totals[1] - votes * u1
            entry[2], entry[3] = w * (won * totals[2] - votes * x1), w * (won * totals[3] - votes * x2)
            entry[2 + half] = temper * (won * totals[4] - votes * y1)
            entry[3 + half] = temper * (won * totals[5] - votes * y2)
            along = stretch[a[c]] - stretch[b[c]]
            for j in range(count):
                turned = 0.0
                for other in range(j, count):
                    turned += L[other, j] * z[c, other]
                turned /= root
                entry[4 + j], entry[4 + half + j] = stiff * turned, temper * stiff1 * turned
                along += stretch[models + j] * z[c, j]
            entry[terms - 2], entry[terms - 1] = stiff1 * along, stiff
            first_model, other_model = a[c], b[c]
            for term in range(terms):
                sums[first_model, term] += entry[term]
                sums[other_model, term] -= entry[term]
            for j in range(count):
                amount = z[c, j]
                for term in range(terms):
                    sums[models + j, term] += entry[term] * amount
                mixed = stiff * amount
                information[models + j, first_model] += mixed
                information[models + j, other_model] -= mixed
                for other in range(j + 1):
                    information[models + j, models + other] += mixed * z[c, other]
            information[max(first_model, other_model), min(first_model, other_model)] -= stiff
            known[first_model] += stiff
            known[other_model] += stiff
            touched[2 * i], touched[2 * i + 1] = first_model, other_model
        for j in range(count):
            touched[2 * number + j] = models + j
            known[models + j] = information[models + j, models + j] - before[j]
            before[j] = information[models + j, models + j]
        for place in range(2 * number + count):
            i = touched[place]
            if known[i] > 0.0:
                stretched[i] += sums[i, terms - 2]
                for term in range(terms - 2):
                    rows[term, row, i] = sums[i, term]
                rows[-1, row, i] = known[i]
                if i < models:
                    information[i, i] += known[i]
                sums[i, :], known[i] = 0.0, 0.0


@compiled
def weigh_slots(
    posterior: Floats, types: Floats, theta: Floats, one: Floats, two: Floats, law: LawNumbers, strength: float, m: int,
    mass: Floats, K: Floats, of_law: Floats,
) -> None:  # fmt: skip
    """Set an annotator's weights of the slots: mass, and mass times h, θ, φh (2), φθ (2), hθ, θ² and h²; and `of_law`."""
    mass[0] = types[1]
    mass[1:m] = posterior[: m - 1]
    for j in range(2):
        at_zero = one[0] if j == 0 else two[0]
        of_law[j, 0], of_law[j, 1], of_law[j, 2], of_law[j, 3] = types[1] * at_zero, 0.0, types[3] * at_zero, 0.0
    K[:, 0] = 0.0
    for q in range(1, m):
        t, w = theta[q], mass[q]
        pull, far = w * pull_of(t, strength), (abs(t) - law.centre) / law.spread
        density, contrary = w * (far * far + law.kappa * far - 1.0 - law.mu), w if t <= 0.0 else 0.0
        of_law[0, 3] += density * one[q]
        of_law[1, 3] += density * two[q]
        of_law[0, 1] += contrary * one[q]
        of_law[1, 1] += contrary * two[q]
        K[0, q], K[1, q], K[2, q], K[3, q] = pull, w * t, pull * one[q], pull * two[q]
        K[4, q], K[5, q], K[6, q], K[7, q] = w * t * one[q], w * t * two[q], pull * t, w * t * t
        K[8, q] = pull * pull_of(t, strength)


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
        answers[j, 0], answers[j, 1] = (mass[:m] * b * one[:m]).sum(), (mass[:m] * b * two[:m]).sum()
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
