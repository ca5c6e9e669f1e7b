"""Compiled loops that add up what annotators say of the scores, and what they are as clusters."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import Floats, Indices
from app.rating.compiled import compiled
from app.rating.model.kernels import (
    ANY_ORDER,
    MOST_NODES,
    LawNumbers,
    Nodes,
    raise_powers,
)
from app.rating.votes.cells import CellArrays

Rows = NDArray[np.float32]

ENOUGH_SHARE, LARGEST_SHARE = 0.5, 0.8  # of the information on a model, between which votes count as independent too
ROWS = 6  # of `find_contributions` for the scores


class Sides(NamedTuple):
    """The directions of `crowd.Directions`: component of each model, and the entries of its direction."""

    label: Indices
    along: Floats


class ScoreSums(NamedTuple):
    """What `find_contributions` adds to; see `crowd.Contributions`."""

    weighted: Floats
    plain: Floats
    information: Floats
    known: Floats
    stretched: Floats
    known_stretched: Floats
    weighted_by_law: Floats
    plain_by_law: Floats


class ClusterSums(NamedTuple):
    """What `find_clusters` adds to; see `crowd.Clusters`, whose meat has `crossed` and `scales` in it."""

    meat: Floats
    by_vote: Floats
    shares: Floats
    judges: Floats
    crossed: Floats
    scales: Floats


@compiled
def pull_of(theta: float) -> float:
    """Return h(θ), how strongly a vote pulls at scores.

    h is 0 below 0, grows as θ, and falls as θ^−¼ above 1: a vote of an able annotator pulls no more than a typical one.
    It is smooth where abilities are, so that sums over few nodes are exact. E[h(θ)(s − n p(θ))] is 0 for any h, so no
    choice of h biases the scores.
    """
    able = max(theta, 0.0)
    return able / math.sqrt(math.sqrt(0.5 + 0.5 * able**5))


@compiled
def find_polynomials(weight: Floats, low: float, step: float, m: int, one: Floats, two: Floats) -> tuple[float, float]:
    """Set the first two orthonormal polynomials in θ at the nodes, under their weights and what is missing at 0.

    Returns their values at 0.
    """
    mean = square = there = 0.0
    for q in range(m):
        t = low + q * step
        there += weight[q]
        mean += weight[q] * t
        square += weight[q] * t * t
    sd, rest = np.sqrt(max(square - mean * mean, 1e-12)), max(1.0 - there, 0.0)
    away = -mean / sd
    third = rest * away**3
    for q in range(m):
        one[q] = (low + q * step - mean) / sd
    for q in range(m):
        third += weight[q] * one[q] ** 3
    norm = rest * (away * away - 1.0 - third * away) ** 2
    for q in range(m):
        two[q] = one[q] * one[q] - 1.0 - third * one[q]
    for q in range(m):
        norm += weight[q] * two[q] ** 2
    size = np.sqrt(max(norm, 1e-12))
    for q in range(m):
        two[q] /= size
    return away, (away * away - 1.0 - third * away) / size


@partial(compiled, fastmath=ANY_ORDER)
def find_contributions(  # noqa: C901, PLR0912, PLR0915  one pass over an annotator's votes while they are at hand
    who: Indices, cells: CellArrays, weight: Floats, temper: float, nodes: Nodes,
    types: Floats, law: LawNumbers, sides: Sides, sums: ScoreSums, rows: Rows,
) -> None:  # fmt: skip
    """Add what the annotators in `who` say of the scores to `sums`.

    u_k = Σ_c w E[h (s − n p)] (e_a − e_b), and the same with θ for h and w = 1. For the polynomials φ_j of
    `find_polynomials` also E[φ_j h (s − n p)] (2) and E[φ_j θ (s − n p)]/dispersion (2): Cov(u_k, dℓ_k/dR) is about the
    sum of their products, that of u_k and of the law's scores too.

    Parameters
    ----------
    rows : where it has entries, shape (2, 2 · n, n_models), the products are left to the caller: rows 2k, 2k + 1 of its
        two halves become the factors for the k-th of `who`. Else they are added to `known`
    """
    starts, a, b, n, s = cells.starts, cells.model_a, cells.model_b, cells.n, cells.s
    size, dense, components = len(sides.label), rows.shape[1] > 0, sides.along.shape[1]
    e, one, two, K = np.empty(MOST_NODES), np.empty(MOST_NODES), np.empty(MOST_NODES), np.empty((11, MOST_NODES))
    found, own = np.zeros(12), np.zeros((size, 12))
    touched, mark = np.empty(size + 1, np.int64), np.zeros(size, np.int64)
    lengths, totals, compact = np.zeros((2, components)), np.empty(9), np.empty((2, size))
    odds, power = np.empty(MOST_NODES), np.empty(MOST_NODES)
    for row in range(len(who)):
        k = who[row]
        if starts[k] == starts[k + 1]:
            continue
        low, step, weights = nodes.low[k], nodes.step[k], nodes.posterior[nodes.begin[k] : nodes.begin[k + 1]]
        logs, m = nodes.log[nodes.begin[k] : nodes.begin[k + 1]], len(weights)
        find_polynomials(weights, low, step, m, one, two)
        for q in range(m):
            t, w = low + q * step, weights[q]
            contrary = 1.0 if t < 0.0 else 0.0
            able = -2.0 * law.shape * (logs[q] - abs(t) - law.middle)
            odds[q], power[q] = w * contrary, w * able
            pull = w * pull_of(t)
            K[0, q], K[1, q], K[2, q], K[3, q] = pull, w * t, pull * one[q], pull * two[q]
            K[4, q], K[5, q], K[6, q], K[7, q] = w * t * one[q], w * t * two[q], pull * t, w * t * t
            K[8, q], K[9, q], K[10, q] = w * t * contrary, pull * able, w * t * able
        mean_contrary = mean_spread = 0.0
        for q in range(m):
            mean_contrary += odds[q]
            mean_spread += power[q]
        for j in range(9):
            totals[j] = K[j if j < ROWS else j + 2, :m].sum()
        count = 0
        for c in range(starts[k], starts[k + 1]):
            i, j = a[c], b[c]
            for model in (i, j):  # without a branch, which no processor could foresee
                touched[count] = model
                count += 1 - mark[model]
                mark[model] = 1
            raise_powers(nodes.first[c], nodes.ratio[c], m, e)
            u = u1 = x1 = x2 = y1 = y2 = v = v1 = contrary = a1 = a2 = 0.0
            for q in range(m):
                rest = 1.0 / (1.0 + e[q])
                p = e[q] * rest
                variance = p * rest
                u += K[0, q] * p
                u1 += K[1, q] * p
                x1 += K[2, q] * p
                x2 += K[3, q] * p
                y1 += K[4, q] * p
                y2 += K[5, q] * p
                v += K[6, q] * variance
                v1 += K[7, q] * variance
                contrary += K[8, q] * p
                a1 += K[9, q] * p
                a2 += K[10, q] * p
            w, votes, won = weight[c], n[c], s[c]
            found[0], found[1] = w * (won * totals[0] - votes * u), won * totals[1] - votes * u1
            found[2], found[3] = w * (won * totals[2] - votes * x1), w * (won * totals[3] - votes * x2)
            found[4], found[5] = temper * (won * totals[4] - votes * y1), temper * (won * totals[5] - votes * y2)
            found[6] = temper * (won * totals[6] - votes * contrary)
            found[7], found[8] = w * (won * totals[7] - votes * a1), temper * (won * totals[8] - votes * a2)
            for q in range(12):
                own[i, q] += found[q]
                own[j, q] -= found[q]
            sums.information[i, j] += w * votes * v
            v1 *= votes * (sides.along[i, sides.label[i]] - sides.along[j, sides.label[j]])
            sums.stretched[i] += v1
            sums.stretched[j] -= v1
        lengths[:] = 0.0
        for place in range(count):
            i = touched[place]
            component = sides.label[i]
            sums.weighted[i] += own[i, 0]
            sums.plain[i] += own[i, 1]
            lengths[0, component] += sides.along[i, component] * own[i, 4]
            lengths[1, component] += sides.along[i, component] * own[i, 5]
            u, u1 = own[i, 0], temper * own[i, 1]
            sums.weighted_by_law[i, 0] -= types[k, 1] * u
            sums.weighted_by_law[i, 1] -= mean_contrary * u
            sums.weighted_by_law[i, 2] -= types[k, 3] * u
            sums.weighted_by_law[i, 3] += own[i, 7] - mean_spread * u
            sums.plain_by_law[i, 0] -= types[k, 1] * u1
            sums.plain_by_law[i, 1] += own[i, 6] - mean_contrary * u1
            sums.plain_by_law[i, 2] -= types[k, 3] * u1
            sums.plain_by_law[i, 3] += own[i, 8] - mean_spread * u1
            compact[0, place], compact[1, place] = own[i, 4], own[i, 5]
        for component in range(components):
            l1, l2 = lengths[0, component] / temper, lengths[1, component] / temper
            if l1 != 0.0 or l2 != 0.0:
                for place in range(count):
                    i = touched[place]
                    sums.known_stretched[i, component] += own[i, 4] * l1 + own[i, 5] * l2
        if dense:
            for i in range(size):
                rows[0, 2 * row, i], rows[0, 2 * row + 1, i] = own[i, 2], own[i, 3]
                rows[1, 2 * row, i], rows[1, 2 * row + 1, i] = own[i, 4], own[i, 5]
        else:
            for place in range(count):
                i = touched[place]
                x1, x2 = own[i, 2], own[i, 3]
                for other in range(count):
                    sums.known[i, touched[other]] += x1 * compact[0, other] + x2 * compact[1, other]
        for place in range(count):
            own[touched[place], :] = 0.0
            mark[touched[place]] = 0


@partial(compiled, fastmath=ANY_ORDER)
def find_clusters(  # noqa: C901, PLR0912, PLR0915  as above
    who: Indices, cells: CellArrays, weight: Floats, temper: float, nodes: Nodes,
    information: Floats, sides: Sides, sums: ClusterSums, rows: Rows,
) -> None:  # fmt: skip
    """Add what the annotators in `who` are as clusters to `sums`.

    With u_k of the equations and y_k of the plain votes, h_ki the share of the annotator in the information on model i,
    D = 1/√(1 − h_k) and t the directions, an annotator counts by D (u_k + t c_k), c_k = t′(y_k − u_k). `rows`, shape
    (n, n_models) or (0, n_models), or `meat` gets v_k = D u_k + (D − 1) t c_k, in which only the annotator's own models
    have entries; `crossed` Σ v_k c_k′, and `scales` Σ c_k c_k′.
    """
    starts, a, b, n, s = cells.starts, cells.model_a, cells.model_b, cells.n, cells.s
    size, dense, components = len(sides.label), rows.shape[0] > 0, sides.along.shape[1]
    e, K = np.empty(MOST_NODES), np.empty((4, MOST_NODES))
    own, touched, mark = np.zeros((3, size)), np.empty(size + 1, np.int64), np.zeros(size, np.int64)
    lengths, compact = np.zeros(components), np.empty(size)
    longest = 0
    for k in who:
        longest = max(longest, starts[k + 1] - starts[k])
    noise = np.empty(longest)
    for row in range(len(who)):
        k = who[row]
        if starts[k] == starts[k + 1]:
            continue
        low, step, weights = nodes.low[k], nodes.step[k], nodes.posterior[nodes.begin[k] : nodes.begin[k + 1]]
        m = len(weights)
        for q in range(m):
            t, w = low + q * step, weights[q]
            pull = pull_of(t)
            K[0, q], K[1, q], K[2, q], K[3, q] = w * pull, w * t, w * pull * t, w * pull * pull
        total, total_plain, count = K[0, :m].sum(), K[1, :m].sum(), 0
        for c in range(starts[k], starts[k + 1]):
            i, j = a[c], b[c]
            for model in (i, j):  # without a branch, which no processor could foresee
                touched[count] = model
                count += 1 - mark[model]
                mark[model] = 1
            raise_powers(nodes.first[c], nodes.ratio[c], m, e)
            u = u1 = v = square = 0.0
            for q in range(m):
                rest = 1.0 / (1.0 + e[q])
                p = e[q] * rest
                variance = p * rest
                u += K[0, q] * p
                u1 += K[1, q] * p
                v += K[2, q] * variance
                square += K[3, q] * variance
            u, u1 = weight[c] * (s[c] * total - n[c] * u), s[c] * total_plain - n[c] * u1
            v *= weight[c] * n[c]
            own[0, i] += u
            own[0, j] -= u
            own[1, i] += u1
            own[1, j] -= u1
            own[2, i] += v / information[i]
            own[2, j] += v / information[j]
            noise[c - starts[k]] = weight[c] ** 2 * n[c] * square / temper
        for c in range(starts[k], starts[k + 1]):
            i, j = a[c], b[c]
            most = max(own[2, i], own[2, j])
            if most > ENOUGH_SHARE:
                part = min((most - ENOUGH_SHARE) / (LARGEST_SHARE - ENOUGH_SHARE), 1.0)
                sums.by_vote[i, j] += part * noise[c - starts[k]]
        lengths[:] = 0.0
        for place in range(count):
            i = touched[place]
            lengths[sides.label[i]] += sides.along[i, sides.label[i]] * (own[1, i] - own[0, i])
        for place in range(count):
            i = touched[place]
            component, share = sides.label[i], own[2, i]
            stretch = sides.along[i, component] * lengths[component]
            own[0, i] = (own[0, i] + stretch) / np.sqrt(1.0 - min(share, LARGEST_SHARE)) - stretch
            compact[place] = own[0, i]
            sums.shares[i] += share * share
            sums.judges[i] += 1.0 if share > 0.0 else 0.0
        for component in range(components):
            if lengths[component] != 0.0:
                for place in range(count):
                    sums.crossed[touched[place], component] += compact[place] * lengths[component]
                for other in range(components):
                    sums.scales[component, other] += lengths[component] * lengths[other]
        if dense:
            for i in range(size):
                rows[row, i] = own[0, i]
        else:
            for place in range(count):
                i = touched[place]
                for other in range(count):
                    sums.meat[i, touched[other]] += compact[place] * compact[other]
        for place in range(count):
            own[:, touched[place]] = 0.0
            mark[touched[place]] = 0
