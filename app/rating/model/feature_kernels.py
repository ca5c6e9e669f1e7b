"""Compiled loops over the votes of annotators with leans: x = θ (R_a − R_b + γ·z) + b·z, b integrated by Laplace.

R holds the scores, then γ. At each node of an annotator's ability the leans are expanded about a line in θ, that of
their modes: so e^x is a geometric series on the nodes, as it is without leans.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats
from app.rating.compiled import compiled
from app.rating.model.kernels import (
    ANY_ORDER,
    CHUNK,
    MEAN,
    MOST_NODES,
    PRECISION,
    LawNumbers,
    Nodes,
    exponentiate,
    raise_powers,
)
from app.rating.model.score_kernels import Rows, find_polynomials, pull_of
from app.rating.votes.cells import CellArrays

STEPS, NEAR_MODE = 12, 1e-2  # of Newton's method for a mode, at most; squared length in standard errors of the last one
LONGEST = 2.0  # step of a lean from the line
LARGEST_ODDS = 200.0  # log odds beyond which a vote is as good as certain
TINY = 1e-100
OF_MEAN, SUMS = 6, 10  # sums over the nodes of factors times p, and in all with those times p′
OF_ABILITY = 2  # polynomials in θ, before the leans, in what `find_feature_contributions` says of an annotator


class Leaning(NamedTuple):
    """The leans of all annotators.

    Their variance at a node is that at the mode times a factor: so a vote's z′Vz is one number on all nodes.

    Attributes
    ----------
    base, slope : b = base + slope θ about which leans are expanded, shape (n_annotators, n_features)
    variance : V of the leans at the mode, shape (n_annotators, n_features, n_features)
    log_det : of it, shape (n_annotators,)
    square : z′Vz of each cell, shape (n_cells,)
    move : mean of the leans at each node less that on the line, shape (n_features, nodes.begin[−1])
    factor : of the variance at each node, shape (nodes.begin[−1],)
    """

    base: Floats
    slope: Floats
    variance: Floats
    log_det: Floats
    square: Floats
    move: Floats
    factor: Floats


class Told(NamedTuple):
    """What `find_feature_contributions` sets of each annotator.

    Attributes
    ----------
    moments : E[b], E[b²] less the variance at an ability, E[θ b], and E[φ b] of the two polynomials φ of
        `find_polynomials`, shape (n_annotators, n_features, 5); without a follower's part
    variance : of b at an ability, on average, shape (n_annotators, n_features)
    factor : Cholesky factor of what `find_feature_contributions` takes for it, divided by E[θ²], shape (n_annotators,
        n_features, n_features)
    of_law : E[φ ∂log g/∂λ], λ the logarithms of the contrary share and of τ, shape (n_annotators, 2, 2)
    noise : of each cell, the variance of its part of u as an independent vote, shape (n_cells,)
    """

    moments: Floats
    variance: Floats
    factor: Floats
    of_law: Floats
    noise: Floats


@compiled
def climb_abilities_and_leans(  # noqa: C901, PLR0912  loops over votes and features
    cells: CellArrays, z: Floats, R: Floats, temper: float, precision: Floats, at: Floats, information: Floats,
    leaning: Leaning,
) -> None:  # fmt: skip
    """Take Newton steps on each (θ, b), a row of `at`, under the wide prior of θ; set line and variance of the leans.

    `information` becomes that of the votes on θ, the leans unknown.
    """
    size, models = at.shape[1], len(R) - z.shape[1]
    y, gradient, V = np.empty(size), np.empty(size), np.empty((size, size))
    for k in range(len(at)):
        for _ in range(STEPS):
            for j in range(size):
                gradient[j] = -precision[j - 1] * at[k, j] if j else PRECISION * (MEAN - at[k, 0])
                for other in range(size):
                    V[j, other] = 0.0
                V[j, j] = precision[j - 1] if j else PRECISION
            for c in range(cells.starts[k], cells.starts[k + 1]):
                y[0], x = R[cells.model_a[c]] - R[cells.model_b[c]], 0.0
                for j in range(1, size):
                    y[j] = z[c, j - 1]
                    y[0] += R[models + j - 1] * y[j]
                for j in range(size):
                    x += at[k, j] * y[j]
                p = 1.0 / (1.0 + np.exp(-min(max(x, -LARGEST_ODDS), LARGEST_ODDS)))
                left, curve = temper * (cells.s[c] - cells.n[c] * p), temper * cells.n[c] * p * (1.0 - p)
                for j in range(size):
                    gradient[j] += left * y[j]
                    for other in range(size):
                        V[j, other] += curve * y[j] * y[other]
            log_det, length = invert(V), 0.0
            for j in range(size):
                move = 0.0
                for other in range(size):
                    move += V[j, other] * gradient[other]
                length += move * gradient[j]
                at[k, j] += min(max(move, -1.0), 1.0)
            if length < NEAR_MODE:
                break
        information[k], leaning.log_det[k] = 1.0 / V[0, 0] - PRECISION, -log_det - np.log(V[0, 0])
        for j in range(1, size):
            leaning.slope[k, j - 1] = slope = V[j, 0] / V[0, 0]
            leaning.base[k, j - 1] = at[k, j] - slope * at[k, 0]
            for other in range(1, size):
                leaning.variance[k, j - 1, other - 1] = V[j, other] - slope * V[other, 0]


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


@compiled
def spread_lines(cells: CellArrays, z: Floats, R: Floats, leaning: Leaning, nodes: Nodes, won: Floats) -> None:
    """Set `nodes.first` and `nodes.ratio` of e^x, Σ s x at the first node and its change to the next, and z′Vz."""
    power, models = np.empty(CHUNK), len(R) - z.shape[1]
    for k in range(len(won)):
        more = nodes.begin[k + 1] - nodes.begin[k] - 1
        low, high = nodes.low[k], nodes.low[k] + more * nodes.step[k]
        won[k, 0] = won[k, 1] = 0.0
        for c in range(cells.starts[k], cells.starts[k + 1]):
            d, at_zero, square = R[cells.model_a[c]] - R[cells.model_b[c]], 0.0, 0.0
            for j in range(z.shape[1]):
                d += (R[models + j] + leaning.slope[k, j]) * z[c, j]
                at_zero += leaning.base[k, j] * z[c, j]
                for other in range(z.shape[1]):
                    square += leaning.variance[k, j, other] * z[c, j] * z[c, other]
            first = min(max(low * d + at_zero, -LARGEST_ODDS), LARGEST_ODDS)
            last = min(max(high * d + at_zero, -LARGEST_ODDS), LARGEST_ODDS)
            nodes.first[c], nodes.ratio[c], leaning.square[c] = first, (last - first) / more, square
            won[k, 0] += cells.s[c] * first
            won[k, 1] += cells.s[c] * nodes.ratio[c]
    for start in range(0, len(nodes.first), CHUNK):
        end = min(start + CHUNK, len(nodes.first))
        for values in (nodes.first, nodes.ratio):
            exponentiate(values[start:end], power)


@partial(compiled, fastmath=ANY_ORDER)
def expand_leans(  # noqa: C901, PLR0912  loops over nodes
    cells: CellArrays, z: Floats, temper: float, precision: Floats, nodes: Nodes, won: Floats, leaning: Leaning
) -> None:  # fmt: skip
    """Set the leans' mean at each node, and the factor of their variance; integrate them out of `nodes.table`.

    g is the gradient by b of log-likelihood and log prior on the line, A minus the Hessian, f = 1/(tr VA/n_features).
    With A⁻¹ about f V the mode is at m = f V g, the mean at m + δ, δ = −½ f² V Σ n p″ (z′Vz) z. The likelihood is
    g·(½ m + δ) − ½ log det(A/P) above that on the line.
    """
    count = z.shape[1]
    e, left, skew, trace = np.empty(MOST_NODES), np.empty(MOST_NODES), np.empty(MOST_NODES), np.empty(MOST_NODES)
    g, turn, log_prior = np.empty((count, MOST_NODES)), np.empty((count, MOST_NODES)), 0.0
    for j in range(count):
        log_prior += np.log(precision[j])
    for k in range(len(nodes.low)):
        at, m, of_prior = nodes.begin[k], nodes.begin[k + 1] - nodes.begin[k], 0.0
        for j in range(count):
            of_prior += leaning.variance[k, j, j] * precision[j]
            for q in range(m):
                b = leaning.base[k, j] + leaning.slope[k, j] * (nodes.low[k] + q * nodes.step[k])
                g[j, q], turn[j, q] = -precision[j] * b, 0.0
                nodes.table[at + q] -= 0.5 * precision[j] * b * b
        for q in range(m):
            trace[q] = of_prior
        for c in range(cells.starts[k], cells.starts[k + 1]):
            raise_powers(nodes.first[c], nodes.ratio[c], m, e)
            votes, win, square = temper * cells.n[c], temper * cells.s[c], leaning.square[c]
            for q in range(m):
                rest = 1.0 / (1.0 + e[q])
                curve = votes * square * e[q] * rest * rest
                left[q], skew[q] = win - votes + votes * rest, curve * (0.5 - rest)
                trace[q] += curve
            for j in range(count):
                for q in range(m):
                    g[j, q] += z[c, j] * left[q]
                    turn[j, q] += z[c, j] * skew[q]
        for q in range(m):
            leaning.factor[at + q] = count / trace[q]
            nodes.table[at + q] += temper * (won[k, 0] + q * won[k, 1])
            nodes.table[at + q] += 0.5 * (log_prior + leaning.log_det[k] - count * np.log(trace[q] / count))
        for j in range(count):
            for q in range(m):
                mode = mean = 0.0
                for other in range(count):
                    mode += leaning.variance[k, j, other] * g[other, q]
                    mean += leaning.variance[k, j, other] * turn[other, q]
                mode, mean = mode * leaning.factor[at + q], mean * leaning.factor[at + q] ** 2
                nodes.table[at + q] += g[j, q] * (0.5 * mode + mean)
                leaning.move[j, at + q] = min(max(mode + mean, -LONGEST), LONGEST)


@compiled
def fill_factors(
    posterior: Floats, mass: Floats, low: float, step: float, one: Floats, two: Floats, law: LawNumbers,
    logs: Floats, K: Floats, of_law: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Set the factors K at an annotator's nodes, and `of_law`; return E[θ²] and the sum of `mass`.

    Its sums are taken in order: in another, their last bits would hang on where the arrays lie.
    """
    m, length, known = len(posterior), 0.0, 0.0
    c1 = c2 = a1 = a2 = 0.0
    for q in range(m):
        t, w = low + q * step, posterior[q]
        contrary, pull = 1.0 if t < 0.0 else 0.0, w * pull_of(t)
        able = -2.0 * law.shape * (logs[q] - abs(t) - law.middle)
        c1 += w * contrary * one[q]
        c2 += w * contrary * two[q]
        a1 += w * able * one[q]
        a2 += w * able * two[q]
        length += w * t * t
        known += mass[q]
        K[0, q], K[1, q], K[2, q], K[3, q] = pull, w * t, pull * one[q], pull * two[q]
        K[4, q], K[5, q], K[6, q], K[7, q] = w * t * one[q], w * t * two[q], pull * t, w * t * t
        K[8, q], K[9, q] = pull * pull_of(t), mass[q]
    of_law[0, 0], of_law[0, 1], of_law[1, 0], of_law[1, 1] = c1, a1, c2, a2
    return max(length, TINY), max(known, TINY)


@partial(compiled, fastmath=ANY_ORDER)
def find_feature_contributions(  # noqa: C901, PLR0912, PLR0915  one pass over an annotator's votes while they are at hand
    first: int, last: int, cells: CellArrays, z: Floats, weight: Floats, temper: float, precision: Floats,
    nodes: Nodes, mass: Floats, leaning: Leaning, law: LawNumbers, stretch: Floats,
    sums: tuple[Floats, Floats, Floats, Floats], rows: Rows, told: Told,
) -> None:  # fmt: skip
    """Add what annotators first … last−1 say of scores and γ to `sums`; set their rows.

    E[p | θ] = p + p′ z·μ + ½ p″ (f z′Vz + (z·μ)²) with μ, f, V of `leaning`: with it u is the likelihood's gradient.

    What the leans, not being known, take from the information goes by (P + Σ n E[θ² p′] z z′/E[θ²])⁻¹, the variance of
    the normal law nearest to theirs: with A⁻¹ it would not go with that information, of which it leaves little.

    Parameters
    ----------
    mass : of the nodes, with the coin's on those next to 0
    stretch : entry of each model in its component's direction, shape (n_models + n_features,)
    sums : of u_k, of the same with θ for h and w = 1, the information's lower half, and that times `stretch`
    rows : of u_k, and of the same with θ for h and w = 1; for the two polynomials and each lean, factors of what
        abilities and leans, not being known, take from the information, those of u before those of dℓ_k/d(R, γ); and
        the diagonal of the information; shape (7 + 2 n_features, last − first, n_models + n_features)
    """
    count, size, terms = z.shape[1], len(stretch), len(rows)
    models, half = size - count, OF_ABILITY + count
    weighted, plain, information, stretched = sums
    K, totals = np.empty((SUMS, MOST_NODES)), np.empty(OF_MEAN)
    e, one, two = np.empty(MOST_NODES), np.empty(MOST_NODES), np.empty(MOST_NODES)
    mu, V, own, entry = np.empty(MOST_NODES), np.empty((count, count)), np.zeros((size, terms)), np.empty(terms)
    touched, mark = np.empty(size + 1, np.int64), np.zeros(size, np.int64)
    for k in range(first, last):
        at, m, low, step = nodes.begin[k], nodes.begin[k + 1] - nodes.begin[k], nodes.low[k], nodes.step[k]
        find_polynomials(nodes.posterior[at : at + m], low, step, m, one, two)
        posterior, own_mass = nodes.posterior[at : at + m], mass[at : at + m]
        length, known = fill_factors(
            posterior, own_mass, low, step, one, two, law, nodes.log[at : at + m], K, told.of_law[k]
        )
        for term in range(OF_MEAN):
            total = 0.0
            for q in range(m):
                total += K[term, q]
            totals[term] = total
        for j in range(count):
            b1 = b2 = b3 = b4 = b5 = 0.0
            for q in range(m):
                b = leaning.base[k, j] + leaning.slope[k, j] * (low + q * step) + leaning.move[j, at + q]
                w = mass[at + q] * b
                b1 += w
                b2 += w * b
                b3 += K[1, q] * b
                b4 += w * one[q]
                b5 += w * two[q]
            told.moments[k, j, 0], told.moments[k, j, 1], told.moments[k, j, 2] = b1, b2, b3
            told.moments[k, j, 3], told.moments[k, j, 4] = b4, b5
            for other in range(count):
                V[j, other] = precision[j] if j == other else 0.0
        number = 0
        for c in range(cells.starts[k], cells.starts[k + 1]):
            a, b_, w = cells.model_a[c], cells.model_b[c], weight[c]
            for model in (a, b_):  # without a branch, which no processor could foresee
                touched[number] = model
                number += 1 - mark[model]
                mark[model] = 1
            raise_powers(nodes.first[c], nodes.ratio[c], m, e)
            for q in range(m):
                mu[q] = z[c, 0] * leaning.move[0, at + q]
            for j in range(1, count):
                for q in range(m):
                    mu[q] += z[c, j] * leaning.move[j, at + q]
            votes, won, square = cells.n[c], cells.s[c], leaning.square[c]
            s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = s8 = s9 = 0.0
            for q in range(m):
                rest = 1.0 / (1.0 + e[q])
                p, skew, spread = e[q] * rest, 2.0 * rest - 1.0, leaning.factor[at + q] * square + mu[q] * mu[q]
                variance = p * rest
                p += variance * (0.5 * skew * spread + mu[q])
                variance *= max(1.0 + skew * mu[q] + 0.5 * (1.0 - 6.0 * variance) * spread, 0.0)
                s0 += K[0, q] * p
                s1 += K[1, q] * p
                s2 += K[2, q] * p
                s3 += K[3, q] * p
                s4 += K[4, q] * p
                s5 += K[5, q] * p
                s6 += K[6, q] * variance
                s7 += K[7, q] * variance
                s8 += K[8, q] * variance
                s9 += K[9, q] * variance
            curve = temper * votes * s9 / known
            for j in range(count):
                for other in range(j + 1):
                    V[j, other] += curve * z[c, j] * z[c, other]
            stiff, stiff1 = w * votes * s6, votes * s7
            told.noise[c] = w * w * votes * s8 / temper
            entry[0], entry[1] = w * (won * totals[0] - votes * s0), won * totals[1] - votes * s1
            entry[2], entry[3] = w * (won * totals[2] - votes * s2), w * (won * totals[3] - votes * s3)
            entry[2 + half] = temper * (won * totals[4] - votes * s4)
            entry[3 + half] = temper * (won * totals[5] - votes * s5)
            along = stretch[a] - stretch[b_]
            for j in range(count):
                entry[4 + j], entry[4 + half + j] = stiff * z[c, j], temper * stiff1 * z[c, j]
                along += stretch[models + j] * z[c, j]
            entry[terms - 1] = stiff
            stretched[a] += stiff1 * along
            stretched[b_] -= stiff1 * along
            for j in range(count):
                stretched[models + j] += stiff1 * along * z[c, j]
            for term in range(terms):
                own[a, term] += entry[term]
            for term in range(terms):
                own[b_, term] -= entry[term]
            for j in range(count):
                for term in range(terms):
                    own[models + j, term] += entry[term] * z[c, j]
            own[b_, terms - 1] += 2.0 * stiff
            information[max(a, b_), min(a, b_)] -= stiff
        for j in range(count):
            for other in range(j):
                V[other, j] = V[j, other]
        invert(V)
        for j in range(count):
            told.variance[k, j] = V[j, j]
        for j in range(count):
            for other in range(count):
                V[j, other] = own[models + j, 4 + half + other] / length + (precision[j] if j == other else 0.0)
        invert(V)
        for j in range(count):
            touched[number + j] = models + j
            own[models + j, terms - 1] = own[models + j, 4 + j]
            for i in range(j + 1):
                total = V[j, i] / length
                for other in range(i):
                    total -= told.factor[k, j, other] * told.factor[k, i, other]
                told.factor[k, j, i] = np.sqrt(max(total, TINY)) if i == j else total / told.factor[k, i, i]
        for place in range(number + count):
            i = touched[place]
            weighted[i] += own[i, 0]
            plain[i] += own[i, 1]
            if i < models:
                information[i, i] += own[i, terms - 1]
            for j in range(count):
                if i < models + j + 1:
                    information[models + j, i] += own[i, 4 + j]
                of_u = of_likelihood = 0.0
                for other in range(j, count):
                    of_u += told.factor[k, other, j] * own[i, 4 + other]
                    of_likelihood += told.factor[k, other, j] * own[i, 4 + half + other]
                own[i, 4 + j], own[i, 4 + half + j] = of_u, of_likelihood
            for term in range(terms):
                rows[term, k - first, i], own[i, term] = own[i, term], 0.0
            mark[i] = 0
