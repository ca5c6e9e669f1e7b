"""Compiled loops over the votes of annotators with leans: x = θ (R_a − R_b + γ·z) + b·z, b integrated by Laplace.

R holds the scores, then γ. Of an annotator's slots the first is the coin's, θ = 0; then come the nodes.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.compiled import compiled
from app.rating.model.kernels import ANY_ORDER, COIN, MEAN, MOST_NODES, PRECISION, LawNumbers, Nodes, exponentiate
from app.rating.model.score_kernels import find_polynomials, pull_of
from app.rating.votes.cells import CellArrays

SLOTS = 1 + MOST_NODES
LARGE = 1e250  # which times e^85 is finite
STEPS = 12  # of Newton's method for leans, at most
NEAR, NEAR_MODE = 1e-4, 1e-2  # squared length in standard errors of the last step: of leans at a node, and of a mode
LONGEST = 2.0  # step of a lean
FURTHEST, LARGEST_ODDS = 12.0, 85.0  # distance, and log odds at a node, beyond which a vote is as good as certain
LEAST_MASS = 1e-6  # of a slot that counts
OF_MEAN = 6  # factors of p in `weigh_slots`, before those of p′
OF_ABILITY = 2  # polynomials in θ, before the leans, in what `find_feature_contributions` says of an annotator


class Told(NamedTuple):
    """What `find_feature_contributions` sets of each annotator.

    Attributes
    ----------
    moments : E[b], E[b²] and E[θ b], shape (n_annotators, 3, n_features)
    answers : what E[b] moves by where (R, γ) moves along the rows of dℓ_k/d(R, γ), those for the two polynomials and
        those for the leans, shape (n_annotators, n_features, 2 + n_features)
    of_law : E[φ ∂log g/∂λ] of the polynomials φ, λ the logarithms of the contrary share and of τ, shape
        (n_annotators, 2, 2)
    noise : of each cell, the variance of its part of u as an independent vote, shape (n_cells,)
    """

    moments: Floats
    answers: Floats
    of_law: Floats
    noise: Floats


@compiled
def most_cells(first: int, last: int, cells: CellArrays) -> int:
    """Return the most cells that one of annotators first … last−1 has."""
    most = 0
    for k in range(first, last):
        most = max(most, cells.starts[k + 1] - cells.starts[k])
    return most


@compiled
def fill_distances(begin: int, cells: CellArrays, z: Floats, R: Floats, d: Floats) -> None:
    """Set d = R_a − R_b + γ·z of the cells from `begin` on; features z have the shape (n_features, n_cells)."""
    end, models = begin + len(d), len(R) - len(z)
    a, b = cells.model_a[begin:end], cells.model_b[begin:end]
    for i in range(len(d)):
        d[i] = R[a[i]] - R[b[i]]
    for j in range(len(z)):
        column, gamma = z[j, begin:end], R[models + j]
        for i in range(len(d)):
            d[i] += gamma * column[i]
    for i in range(len(d)):
        d[i] = min(max(d[i], -FURTHEST), FURTHEST)


@partial(compiled, fastmath=ANY_ORDER)
def fill_odds(begin: int, z: Floats, d: Floats, theta: float, b: Floats, x: Floats) -> None:
    """Set x = −θ d − b·z of the cells from `begin` on."""
    for i in range(len(d)):
        x[i] = -theta * d[i]
    for j in range(len(z)):
        column, factor = z[j, begin : begin + len(d)], b[j]
        for i in range(len(d)):
            x[i] -= factor * column[i]
    for i in range(len(d)):
        x[i] = min(max(x[i], -LARGEST_ODDS), LARGEST_ODDS)


@partial(compiled, fastmath=ANY_ORDER)
def sum_products(begin: int, z: Floats, weight: Floats, matrix: Floats) -> None:
    """Add Σ weight z z′ of the cells from `begin` on to a matrix."""
    for j in range(len(z)):
        column = z[j, begin : begin + len(weight)]
        for other in range(j + 1):
            total, second = 0.0, z[other, begin : begin + len(weight)]
            for i in range(len(weight)):
                total += weight[i] * column[i] * second[i]
            matrix[j, other] += total
            if other < j:
                matrix[other, j] += total


@partial(compiled, fastmath=ANY_ORDER)
def add_scaled(factor: float, values: Floats, out: Floats) -> None:
    """Add factor·values to `out`."""
    for i in range(len(out)):
        out[i] += factor * values[i]


@compiled
def set_diagonal(A: Floats, diagonal: Floats) -> None:
    """Set a diagonal matrix."""
    for i in range(len(A)):
        for j in range(len(A)):
            A[i, j] = diagonal[i] if i == j else 0.0


@compiled
def multiply(A: Floats, vector: Floats, out: Floats) -> float:
    """Set `out` to A·vector; return vector·A·vector."""
    total = 0.0
    for i in range(len(A)):
        out[i] = 0.0
        for j in range(len(A)):
            out[i] += A[i, j] * vector[j]
        total += out[i] * vector[i]
    return total


@compiled
def invert(A: Floats) -> float:
    """Replace a positive definite matrix by its inverse; return the logarithm of its determinant."""
    size, log_det = len(A), 0.0
    for j in range(size):
        pivot = 1.0 / A[j, j]
        log_det += np.log(A[j, j])
        A[j, j] = 1.0
        for i in range(size):
            A[j, i] *= pivot
        for i in range(size):
            if i != j:
                factor = A[i, j]
                A[i, j] = 0.0
                for other in range(size):
                    A[i, other] -= factor * A[j, other]
    return log_det


@partial(compiled, fastmath=ANY_ORDER)
def climb_abilities_and_leans(
    cells: CellArrays, z: Floats, R: Floats, temper: float, precision: Floats, at: Floats, along: Floats,
    information: Floats,
) -> None:  # fmt: skip
    """Take Newton steps on each (θ, b), a row of `at`, under the wide prior of θ.

    `along` becomes the derivative of the leans' mode by θ, `information` that of the votes on θ, the leans unknown.
    """
    size, most = at.shape[1], most_cells(0, len(at), cells)
    gradient, move, V, room = np.empty(size), np.empty(size), np.empty((size, size)), np.empty((5, most))
    own_precision = np.append(PRECISION, precision)
    for k in range(len(at)):
        begin, number = cells.starts[k], cells.starts[k + 1] - cells.starts[k]
        d, x, left, variance = room[0, :number], room[1, :number], room[2, :number], room[3, :number]
        votes, won = cells.n[begin : begin + number], cells.s[begin : begin + number]
        fill_distances(begin, cells, z, R, d)
        for _ in range(STEPS):
            fill_odds(begin, z, d, at[k, 0], at[k, 1:], x)
            exponentiate(x, room[4])
            set_diagonal(V, own_precision)
            gradient[0] = (MEAN - at[k, 0]) * PRECISION
            for j in range(1, size):
                gradient[j] = -precision[j - 1] * at[k, j]
            slope = curve = 0.0
            for i in range(number):
                p = 1.0 / (1.0 + x[i])
                left[i], variance[i] = temper * (won[i] - votes[i] * p), temper * votes[i] * p * (1.0 - p)
                slope += left[i] * d[i]
                curve += variance[i] * d[i] * d[i]
            gradient[0] += slope
            V[0, 0] += curve
            for j in range(1, size):
                column, slope, mixed = z[j - 1, begin : begin + number], 0.0, 0.0
                for i in range(number):
                    slope += left[i] * column[i]
                    mixed += variance[i] * d[i] * column[i]
                gradient[j] += slope
                V[j, 0] = V[0, j] = mixed
            sum_products(begin, z, variance, V[1:, 1:])
            invert(V)
            length = multiply(V, gradient, move)
            for j in range(size):
                at[k, j] += min(max(move[j], -1.0), 1.0)
            if length < NEAR_MODE:
                break
        information[k] = 1.0 / V[0, 0] - PRECISION
        for j in range(1, size):
            along[k, j - 1] = V[j, 0] / V[0, 0]


@partial(compiled, fastmath=ANY_ORDER)
def fill_feature_likelihoods(
    cells: CellArrays, z: Floats, R: Floats, temper: float, precision: Floats, nodes: Nodes, leans: Floats,
    extra: Floats,
) -> None:  # fmt: skip
    """Move the leans of every slot to their mode b̂; set the log-likelihoods of nodes and coin.

    That of a node is log L_k(θ, b̂) − ½ b̂′Pb̂ − ½ log det(A/P) with A = P − ∂²log L_k/∂b². The last Newton step enters by
    the expansion about its start, so that near the mode the votes are read once.
    """
    room, log_prior = np.empty((5, most_cells(0, len(nodes.low), cells))), np.log(precision).sum()
    V, own = np.empty((len(z), len(z))), np.empty((2, len(z)))
    for k in range(len(nodes.low)):
        at, begin, number = nodes.begin[k], cells.starts[k], cells.starts[k + 1] - cells.starts[k]
        votes, won = cells.n[begin : begin + number], cells.s[begin : begin + number]
        fill_distances(begin, cells, z, R, room[0, :number])
        for slot in range(nodes.begin[k + 1] - at + 1):
            theta = nodes.low[k] + (slot - 1) * nodes.step[k] if slot else 0.0
            value = climb_leans(begin, votes, won, z, theta, temper, precision, leans[at + k + slot], V, own, room)
            value += 0.5 * log_prior
            if slot:
                nodes.table[at + slot - 1] = value
            else:
                extra[k, COIN] = value


@partial(compiled, fastmath=ANY_ORDER)
def climb_leans(
    begin: int, votes: Floats, won: Floats, z: Floats, theta: float, temper: float, precision: Floats, b: Floats,
    V: Floats, own: Floats, room: Floats,
) -> float:  # fmt: skip
    """Move an annotator's leans b to their mode at θ; return the log-likelihood there, up to ½ log det P.

    `room` has the distances of the annotator's cells in its first row, and four more to work in, as V and `own` are.
    """
    count, number = len(z), len(votes)
    d, x, left, variance = room[0, :number], room[1, :number], room[2, :number], room[3, :number]
    gradient, move, value = own[0], own[1], 0.0
    for _ in range(STEPS):
        fill_odds(begin, z, d, theta, b, x)
        value = 0.0
        for i in range(number):
            value += (votes[i] - won[i]) * x[i]
        exponentiate(x, room[4])
        value = temper * (value - sum_logarithms(votes, x))
        for i in range(number):
            p = 1.0 / (1.0 + x[i])
            left[i], variance[i] = temper * (won[i] - votes[i] * p), temper * votes[i] * p * (1.0 - p)
        for j in range(count):
            slope, column = -precision[j] * b[j], z[j, begin : begin + number]
            for i in range(number):
                slope += left[i] * column[i]
            gradient[j] = slope
            value -= 0.5 * precision[j] * b[j] * b[j]
        set_diagonal(V, precision)
        sum_products(begin, z, variance, V)
        value -= 0.5 * invert(V)
        length, furthest = multiply(V, gradient, move), LONGEST
        for j in range(count):
            furthest = max(furthest, abs(move[j]))
        for j in range(count):
            b[j] += move[j] * LONGEST / furthest
        value += 0.5 * length
        if length < NEAR:
            break
    return value


@compiled
def sum_logarithms(n: Floats, e: Floats) -> float:
    """Return Σ n log(1 + e), e up to e^85: factors have one logarithm as long as their product stays finite."""
    total, product = 0.0, 1.0
    for i in range(len(e)):
        if n[i] != 1.0:
            total += n[i] * np.log(1.0 + e[i])
        else:
            product *= 1.0 + e[i]
            if product > LARGE:
                total += np.log(product)
                product = 1.0
    return total + float(np.log(product))


@partial(compiled, fastmath=ANY_ORDER)
def find_feature_contributions(
    first: int, last: int, cells: CellArrays, z: Floats, weight: Floats, R: Floats, temper: float, precision: Floats,
    nodes: Nodes, types: Floats, law: LawNumbers, leans: Floats, strength: float, stretch: Floats,
    information: Floats, stretched: Floats, rows: Floats, told: Told,
) -> None:  # fmt: skip
    """Add what annotators first … last−1 say of scores and γ to rows, `information` and `stretched`; set their leans.

    E[p | θ] = p + ½ p″ z′Vz + p′ z·δ with V = A⁻¹ and δ = −½ V Σ n p″ (z′Vz) z, the mean of b less its mode: with it
    u is the gradient of the likelihoods of `fill_feature_likelihoods`.

    Parameters
    ----------
    stretch : entry of each model in its component's direction, shape (n_models + n_features,)
    information : its lower half
    rows : of u_k, and of the same with θ for h and w = 1; for the two polynomials and each lean, factors of what
        abilities and leans, not being known, take from the information, those of u before those of dℓ_k/d(R, γ); and
        the diagonal of the information; shape (7 + 2 n_features, last − first, n_models + n_features)
    """
    count, most = len(z), most_cells(first, last, cells)
    theta, mass, one, two, K = np.empty(SLOTS), np.empty(SLOTS), np.empty(SLOTS), np.empty(SLOTS), np.empty((9, SLOTS))
    V, of_slot, L = np.empty((SLOTS, count, count)), np.empty((SLOTS, count)), np.empty((count, count))
    room, found, touched = np.empty((7, most)), np.empty((9, most)), np.empty(2 * most + count, np.int64)
    own, entry, known = np.empty((2, count)), np.empty(len(rows) + 1), np.zeros(len(R))
    sums = np.zeros((len(R), len(entry)))
    for k in range(first, last):
        begin, number, at = cells.starts[k], cells.starts[k + 1] - cells.starts[k], nodes.begin[k]
        m, posterior = nodes.begin[k + 1] - at + 1, nodes.posterior[at : nodes.begin[k + 1]]
        votes = cells.n[begin : begin + number]
        fill_distances(begin, cells, z, R, room[0, :number])
        theta[0] = 0.0
        for q in range(1, m):
            theta[q] = nodes.low[k] + (q - 1) * nodes.step[k]
        one[0], two[0] = find_polynomials(posterior, nodes.low[k], nodes.step[k], m - 1, one[1:], two[1:])
        weigh_slots(posterior, types[k, 1], theta, one, two, law, strength, m, mass, K, told.of_law[k])
        found[:, :number], V[:m], of_slot[:m] = 0.0, 0.0, leans[at + k : at + k + m]
        for q in range(m):
            if mass[q] > LEAST_MASS:
                average_slot(begin, votes, z, theta[q], temper, precision, of_slot[q], V[q], own, room)
                for term in range(len(found)):
                    add_scaled(K[term, q], room[1 if term < OF_MEAN else 2, :number], found[term, :number])
        square = max(K[7, :m].sum(), 1e-12)
        set_leans(mass, theta, one, two, of_slot, V, precision, m, square, L, told.moments[k], told.answers[k])
        L /= np.sqrt(square)
        add_cells(
            begin, cells, z, weight, temper, strength, K[:, :m].sum(axis=1), found, L, stretch, information, told.noise,
            entry, sums, known, touched, number,
        )  # fmt: skip
        move_rows(k - first, touched[: 2 * number + count], len(R) - count, sums, known, information, stretched, rows)


@compiled
def move_rows(
    row: int, touched: Indices, models: int, sums: Floats, known: Floats, information: Floats, stretched: Floats,
    rows: Floats,
) -> None:  # fmt: skip
    """Move what an annotator has of each model and feature from `sums` and `known` to the rows."""
    last = len(rows) - 1
    for i in touched:
        if known[i] >= 0.0:  # touched for the first time
            stretched[i] += sums[i, last]
            for term in range(last):
                rows[term, row, i] = sums[i, term]
            rows[last, row, i] = known[i]
            if i < models:
                information[i, i] += known[i]
            sums[i, :], known[i] = 0.0, -1.0
    for i in touched:
        known[i] = 0.0


@partial(compiled, fastmath=ANY_ORDER)
def average_slot(
    begin: int, votes: Floats, z: Floats, theta: float, temper: float, precision: Floats, b: Floats, V: Floats,
    own: Floats, room: Floats,
) -> None:  # fmt: skip
    """Add δ to an annotator's leans b in a slot; set V to (P + Σ n E[p′] z z′)⁻¹, rows 1, 2 of `room` to E[p], E[p′].

    V is the variance of the normal law nearest to that of b. With A⁻¹, at the mode, what the leans take from the
    information on γ would not go with that information, of which it leaves little.
    """
    number = len(votes)
    p, variance, v = room[1, :number], room[2, :number], room[3, :number]
    skew, moved = room[4, :number], room[5, :number]
    fill_odds(begin, z, room[0, :number], theta, b, p)
    exponentiate(p, room[6])
    for i in range(number):
        p[i] = 1.0 / (1.0 + p[i])
        variance[i], skew[i], v[i] = p[i] * (1.0 - p[i]), 1.0 - 2.0 * p[i], 0.0
        moved[i] = temper * votes[i] * variance[i]
    set_diagonal(V, precision)
    sum_products(begin, z, moved, V)
    invert(V)
    for j in range(len(z)):
        column = z[j, begin : begin + number]
        for other in range(j + 1):
            factor, second = V[j, other] * (1.0 if j == other else 2.0), z[other, begin : begin + number]
            for i in range(number):
                v[i] += factor * column[i] * second[i]
    for j in range(len(z)):
        total, column = 0.0, z[j, begin : begin + number]
        for i in range(number):
            total -= 0.5 * moved[i] * skew[i] * v[i] * column[i]
        own[0, j] = total
    multiply(V, own[0], own[1])
    moved[:] = 0.0
    for j in range(len(z)):
        delta, column = own[1, j], z[j, begin : begin + number]
        b[j] += delta
        for i in range(number):
            moved[i] += delta * column[i]
    for i in range(number):
        p[i] += variance[i] * (0.5 * skew[i] * v[i] + moved[i])
        variance[i] *= max(1.0 + 0.5 * (1.0 - 6.0 * variance[i]) * v[i] + skew[i] * moved[i], 0.0)
        moved[i] = temper * votes[i] * variance[i]
    set_diagonal(V, precision)
    sum_products(begin, z, moved, V)
    invert(V)


@partial(compiled, fastmath=ANY_ORDER)
def add_cells(
    begin: int, cells: CellArrays, z: Floats, weight: Floats, temper: float, strength: float, totals: Floats,
    found: Floats, L: Floats, stretch: Floats, information: Floats, noise: Floats, entry: Floats, sums: Floats,
    known: Floats, touched: Indices, number: int,
) -> None:  # fmt: skip
    """Add an annotator's cells to `information` but for its diagonal of models, `known`, and to `sums` of the rows.

    Parameters
    ----------
    totals, found : sums over the slots of the factors of `weigh_slots`, and of these times p (6) and p′ (3)
    entry, sums : a row's terms; then the part in the direction, and the information
    """
    count, models, terms = len(z), len(sums) - len(z), len(entry)
    half = OF_ABILITY + count
    for i in range(number):
        c = begin + i
        a, b = np.int64(cells.model_a[c]), np.int64(cells.model_b[c])
        w, votes, won = 1.0 - strength + strength * weight[c], cells.n[c], cells.s[c]
        stiff, stiff1 = w * votes * found[6, i], votes * found[7, i]
        noise[c] = w * w * votes * found[8, i] / temper
        entry[0], entry[1] = w * (won * totals[0] - votes * found[0, i]), won * totals[1] - votes * found[1, i]
        for j in range(OF_ABILITY):
            entry[2 + j] = w * (won * totals[2 + j] - votes * found[2 + j, i])
            entry[2 + half + j] = temper * (won * totals[4 + j] - votes * found[4 + j, i])
        along = stretch[a] - stretch[b]
        for j in range(count):
            turned = 0.0
            for other in range(j, count):
                turned += L[other, j] * z[other, c]
            entry[4 + j], entry[4 + half + j] = stiff * turned, temper * stiff1 * turned
            along += stretch[models + j] * z[j, c]
        entry[terms - 2], entry[terms - 1] = stiff1 * along, stiff
        for term in range(terms):
            sums[a, term] += entry[term]
            sums[b, term] -= entry[term]
        for j in range(count):
            amount, mixed = z[j, c], stiff * z[j, c]
            for term in range(terms):
                sums[models + j, term] += entry[term] * amount
            information[models + j, a] += mixed
            information[models + j, b] -= mixed
            for other in range(j + 1):
                information[models + j, models + other] += mixed * z[other, c]
            known[models + j] += mixed * amount
            touched[2 * number + j] = models + j
        information[max(a, b), min(a, b)] -= stiff
        known[a] += stiff
        known[b] += stiff
        touched[2 * i], touched[2 * i + 1] = a, b


@compiled
def weigh_slots(
    posterior: Floats, coin: float, theta: Floats, one: Floats, two: Floats, law: LawNumbers, strength: float, m: int,
    mass: Floats, K: Floats, of_law: Floats,
) -> None:  # fmt: skip
    """Set an annotator's slots' mass, and in K mass times h, θ, φh (2), φθ (2), hθ, θ² and h²; and `of_law`."""
    mass[0], mass[1:m], of_law[:], K[:, 0] = coin, posterior, 0.0, 0.0
    for q in range(1, m):
        t, w, pull = theta[q], mass[q], mass[q] * pull_of(theta[q], strength)
        odds = law.log_shares[2] - law.log_shares[0] - 2.0 * t / law.spread**2
        contrary = w / (1.0 + np.exp(min(max(-odds, -LARGEST_ODDS), LARGEST_ODDS)))
        able = w * ((t - 1.0) / law.spread) ** 2 + 4.0 * t * contrary / law.spread**2 - w
        of_law[0, 0] += contrary * one[q]
        of_law[1, 0] += contrary * two[q]
        of_law[0, 1] += able * one[q]
        of_law[1, 1] += able * two[q]
        K[0, q], K[1, q], K[2, q], K[3, q] = pull, w * t, pull * one[q], pull * two[q]
        K[4, q], K[5, q], K[6, q], K[7, q] = w * t * one[q], w * t * two[q], pull * t, w * t * t
        K[8, q] = pull * pull_of(t, strength)


@compiled
def set_leans(
    mass: Floats, theta: Floats, one: Floats, two: Floats, leans: Floats, V: Floats, precision: Floats, m: int,
    square: float, L: Floats, moments: Floats, answers: Floats,
) -> None:  # fmt: skip
    """Set an annotator's moments of b and its answers; L becomes the Cholesky factor of E[θ² V]/E[θ²].

    The mass that is missing is the follower's, whose leans the votes say nothing of.
    """
    count, total = len(L), mass[:m].sum()
    ability = (mass[:m] * theta[:m]).sum()
    L[:] = 0.0
    for j in range(count):
        moments[:, j], answers[j, :OF_ABILITY], L[j] = 0.0, 0.0, 0.0
        for q in range(m):
            w, b = mass[q], leans[q, j]
            moments[0, j] += w * b
            moments[1, j] += w * (b * b + V[q, j, j])
            moments[2, j] += w * theta[q] * b
            answers[j, 0] += w * one[q] * b
            answers[j, 1] += w * two[q] * b
            for i in range(j + 1):
                L[j, i] += w * theta[q] ** 2 / square * V[q, j, i]
        moments[1, j] += (1.0 - total) / precision[j]
    for j in range(count):
        for i in range(j + 1):
            for other_ in range(i):
                L[j, i] -= L[j, other_] * L[i, other_]
            L[j, i] = np.sqrt(max(L[j, j], 1e-300)) if i == j else L[j, i] / L[i, i]
    for j in range(count):
        for i in range(count):
            answers[j, OF_ABILITY + i] = -ability / np.sqrt(square) * L[j, i]
