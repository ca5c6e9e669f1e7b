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
)
from app.rating.votes.cells import CellArrays

Rows = NDArray[np.float32]

ENOUGH_SHARE, LARGEST_SHARE = 0.5, 0.8  # of the information on a model, between which votes count as independent too
CHAINS = 4  # sums that a long one is taken in, as one addition waits for the one before
LANES = 64  # votes of an annotator that go through the nodes side by side
SURPRISE, WEIGHTED_SURPRISE, VARIANCE, WEIGHTED_VARIANCE = range(4)
INFORMATION, U, PLAIN, STRETCHED, BY_SPREAD, PLAIN_BY_CONTRARY, PLAIN_BY_SPREAD, X1, X2, Y1, Y2 = range(11)
"""Sums over the nodes of `find_contributions`; all but the first are by model."""
OF_DRAFT, ADDED, ALL = 4, 7, 11  # so many of these are found for a draft, are summed over the annotators, are there
KINDS = (
    WEIGHTED_VARIANCE, WEIGHTED_SURPRISE, SURPRISE, VARIANCE, WEIGHTED_SURPRISE, SURPRISE, SURPRISE,
    WEIGHTED_SURPRISE, WEIGHTED_SURPRISE, SURPRISE, SURPRISE,
)  # fmt: skip
CLUSTER_KINDS = (WEIGHTED_SURPRISE, SURPRISE, WEIGHTED_VARIANCE, WEIGHTED_VARIANCE)


class Sides(NamedTuple):
    """The directions of `crowd.Directions`: component of each model, its direction, and the model's entry of it."""

    label: Indices
    along: Floats
    own: Floats


class ScoreSums(NamedTuple):
    """What `find_contributions` adds to; see `crowd.Contributions`.

    A row of `by_model` has a model's sums from `U` to below `ADDED`, and how its `U` falls with the logarithmic shares
    of coins, contrary ones and followers, and `PLAIN` with those of coins and followers.
    """

    by_model: Floats
    information: Floats
    known: Floats
    known_stretched: Floats


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
    square = able * able
    return able / math.sqrt(math.sqrt(0.5 + 0.5 * square * square * able))


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


@partial(compiled, fastmath=frozenset({"contract"}))
def sum_over_nodes(
    cells: CellArrays, weight: Floats, nodes: Nodes, begin: int, number: int, size: int,
    K: Floats, kinds: tuple[int, ...], scratch: Floats, found: Floats,
) -> None:  # fmt: skip
    """Set Σ_q K[j, q] r_q of each of some votes of an annotator.

    With p = σ(θ_q d), r is the surprise s − n p or the variance n p (1 − p), times the weight of the votes or not.

    Parameters
    ----------
    begin, number : of the cells, at most `LANES`
    size : number of nodes, a multiple of 4
    kinds : of r, for each row of K, and perhaps for more
    scratch : shape (13, LANES)
    found : shape (n_rows or more, LANES)
    """
    lanes = (number + 7) // 8 * 8
    scratch[:5, :lanes], found[: len(K), :lanes] = 0.0, 0.0
    for lane in range(number):
        scratch[0, lane], scratch[1, lane] = nodes.first[begin + lane], nodes.ratio[begin + lane]
        scratch[2, lane], scratch[3, lane] = cells.n[begin + lane], cells.s[begin + lane]
        scratch[4, lane] = weight[begin + lane]
    for q in range(0, size, 4):
        for node in range(4):
            for lane in range(lanes):
                e, n = scratch[0, lane], scratch[2, lane]
                rest = 1.0 / (1.0 + e)
                p = e * rest
                scratch[5 + node, lane], scratch[9 + node, lane] = scratch[3, lane] - n * p, n * p * rest
                scratch[0, lane] = e * scratch[1, lane]
        for j in range(len(K)):
            at, k0, k1, k2, k3 = 5 if kinds[j] < VARIANCE else 9, K[j, q], K[j, q + 1], K[j, q + 2], K[j, q + 3]
            for lane in range(lanes):
                r0, r1, r2, r3 = scratch[at, lane], scratch[at + 1, lane], scratch[at + 2, lane], scratch[at + 3, lane]
                found[j, lane] = found[j, lane] + k0 * r0 + k1 * r1 + k2 * r2 + k3 * r3
    for j in range(len(K)):
        if kinds[j] in (WEIGHTED_SURPRISE, WEIGHTED_VARIANCE):
            for lane in range(lanes):
                found[j, lane] *= scratch[4, lane]


@partial(compiled, fastmath=ANY_ORDER)
def find_contributions(  # noqa: C901, PLR0912, PLR0915  one pass over an annotator's votes while they are at hand
    who: Indices, cells: CellArrays, weight: Floats, temper: float, nodes: Nodes,
    types: Floats, law: LawNumbers, sides: Sides, sums: ScoreSums, rows: Rows, draft: bool,
) -> None:  # fmt: skip
    """Add what the annotators in `who` say of the scores to `sums`.

    u_k = Σ_c w E[h (s − n p)] (e_a − e_b), and the same with θ for h and w = 1. For the polynomials φ_j of
    `find_polynomials` also E[φ_j h (s − n p)] (2) and E[φ_j θ (s − n p)]/dispersion (2): Cov(u_k, dℓ_k/dR) is about the
    sum of their products, that of u_k and of the law's scores too.

    Parameters
    ----------
    rows : where it has entries, shape (2, 2 · n, n_models), the products are left to the caller: rows 2k, 2k + 1 of its
        two halves become the factors for the k-th of `who`. Else they are added to `known`
    draft : only find u_k, the same of the plain votes, and both informations
    """
    starts, a, b = cells.starts, cells.model_a, cells.model_b
    size, dense, components = len(sides.label), rows.shape[1] > 0, sides.along.shape[1]
    one, two, K, able = np.empty(MOST_NODES), np.empty(MOST_NODES), np.empty((ALL, MOST_NODES)), np.empty(MOST_NODES)
    scratch, found, own = np.empty((13, LANES)), np.empty((ALL, LANES)), np.zeros((size, 12))
    wanted = OF_DRAFT if draft else ALL
    touched, places, lengths = np.empty(size + 1, np.int64), np.full(size, -1), np.zeros((components, 2, CHAINS))
    for row in range(len(who)):
        k = who[row]
        low, step, weights = nodes.low[k], nodes.step[k], nodes.posterior[nodes.begin[k] : nodes.begin[k + 1]]
        logs, m = nodes.log[nodes.begin[k] : nodes.begin[k + 1]], len(weights)
        for q in range(m):
            t = low + q * step
            pull, plain = weights[q] * pull_of(t), weights[q] * t
            K[U, q], K[PLAIN, q], K[INFORMATION, q], K[STRETCHED, q] = pull, plain, pull * t, plain * t
        contrary = spread = 0.0
        if not draft:
            find_polynomials(weights, low, step, m, one, two)
            for q in range(m):
                t = low + q * step
                able[q] = -2.0 * law.shape * (logs[q] - abs(t) - law.middle)
                contrary += weights[q] if t < 0.0 else 0.0
                spread += weights[q] * able[q]
        for q in range(0 if draft else m):
            t, pull, plain = low + q * step, K[U, q], K[PLAIN, q]
            K[BY_SPREAD, q], K[X1, q], K[X2, q] = pull * (able[q] - spread), pull * one[q], pull * two[q]
            plain *= temper
            K[PLAIN_BY_SPREAD, q], K[Y1, q], K[Y2, q] = plain * (able[q] - spread), plain * one[q], plain * two[q]
            K[PLAIN_BY_CONTRARY, q] = plain * ((1.0 if t < 0.0 else 0.0) - contrary)
        count = 0
        for begin in range(starts[k], starts[k + 1], LANES):
            number = min(LANES, starts[k + 1] - begin)
            sum_over_nodes(cells, weight, nodes, begin, number, m, K[:wanted], KINDS, scratch, found)
            for lane in range(number):  # by itself: the processor waits for many entries of a large table at a time
                sums.information[a[begin + lane], b[begin + lane]] += found[INFORMATION, lane]
            for lane in range(number):
                i, j = a[begin + lane], b[begin + lane]
                x, count = take_place(i, places, touched, count)
                y, count = take_place(j, places, touched, count)
                found[STRETCHED, lane] *= sides.own[i] - sides.own[j]
                for q in range(U, wanted):
                    f = found[q, lane]
                    own[x, q] += f
                    own[y, q] -= f
        if draft:
            for place in range(count):
                for q in range(U, OF_DRAFT):
                    sums.by_model[touched[place], q] += own[place, q]
                    own[place, q] = 0.0
                places[touched[place]] = -1
            continue
        coin, follower = types[k, 1], types[k, 3]
        lengths[:], rows[:, 2 * row : 2 * row + 2] = 0.0, 0.0
        for place in range(count):
            i, u, plain = touched[place], own[place, U], temper * own[place, PLAIN]
            y1, y2 = own[place, Y1], own[place, Y2]
            for q in range(U, ADDED):
                sums.by_model[i, q] += own[place, q]
            sums.by_model[i, ADDED] += coin * u
            sums.by_model[i, ADDED + 1] += contrary * u
            sums.by_model[i, ADDED + 2] += follower * u
            sums.by_model[i, ADDED + 3] += coin * plain
            sums.by_model[i, ADDED + 4] += follower * plain
            lengths[sides.label[i], 0, place % CHAINS] += sides.own[i] * y1
            lengths[sides.label[i], 1, place % CHAINS] += sides.own[i] * y2
            if dense:
                rows[0, 2 * row, i], rows[0, 2 * row + 1, i] = own[place, X1], own[place, X2]
                rows[1, 2 * row, i], rows[1, 2 * row + 1, i] = y1, y2
        for component in range(components):
            l1, l2 = lengths[component, 0].sum() / temper, lengths[component, 1].sum() / temper
            if l1 != 0.0 or l2 != 0.0:
                for place in range(count):
                    sums.known_stretched[touched[place], component] += own[place, Y1] * l1 + own[place, Y2] * l2
        if not dense:
            for place in range(count):
                x1, x2 = own[place, X1], own[place, X2]
                for other in range(count):
                    sums.known[touched[place], touched[other]] += x1 * own[other, Y1] + x2 * own[other, Y2]
        own[:count] = 0.0
        for place in range(count):
            places[touched[place]] = -1


@compiled
def take_place(model: int, places: Indices, touched: Indices, count: int) -> tuple[int, int]:
    """Return a model's place among those of an annotator, a new one where it has none, and how many have one."""
    new = places[model] < 0  # without a branch, which no processor could foresee
    place = count if new else places[model]
    places[model] = place
    touched[place] = model
    return place, count + new


@partial(compiled, fastmath=ANY_ORDER)
def find_clusters(  # noqa: C901, PLR0912  as above
    who: Indices, cells: CellArrays, weight: Floats, temper: float, nodes: Nodes,
    information: Floats, sides: Sides, sums: ClusterSums, rows: Rows,
) -> None:  # fmt: skip
    """Add what the annotators in `who` are as clusters to `sums`.

    With u_k of the equations and y_k of the plain votes, h_ki the share of the annotator in the information on model i,
    D = 1/√(1 − h_k) and t the directions, an annotator counts by D (u_k + t c_k), c_k = t′(y_k − u_k). `rows`, shape
    (n, n_models) or (0, n_models), or `meat` gets v_k = D u_k + (D − 1) t c_k, in which only the annotator's own models
    have entries; `crossed` Σ v_k c_k′, and `scales` Σ c_k c_k′.
    """
    starts, a, b = cells.starts, cells.model_a, cells.model_b
    size, dense, components = len(sides.label), rows.shape[0] > 0, sides.along.shape[1]
    K, scratch, found, own = np.empty((4, MOST_NODES)), np.empty((13, LANES)), np.empty((4, LANES)), np.zeros((size, 4))
    touched, places, lengths = np.empty(size + 1, np.int64), np.full(size, -1), np.zeros((components, CHAINS))
    totals = np.empty(components)
    longest = 0
    for k in who:
        longest = max(longest, starts[k + 1] - starts[k])
    noise = np.empty(longest)
    for row in range(len(who)):
        k = who[row]
        low, step, weights = nodes.low[k], nodes.step[k], nodes.posterior[nodes.begin[k] : nodes.begin[k + 1]]
        for q in range(len(weights)):
            t, w = low + q * step, weights[q]
            pull = pull_of(t)
            K[0, q], K[1, q], K[2, q], K[3, q] = w * pull, w * t, w * pull * t, w * pull * pull
        rows[row : row + 1] = 0.0
        count, most = 0, 0.0
        for begin in range(starts[k], starts[k + 1], LANES):
            number = min(LANES, starts[k + 1] - begin)
            sum_over_nodes(cells, weight, nodes, begin, number, len(weights), K, CLUSTER_KINDS, scratch, found)
            for lane in range(number):
                x, count = take_place(a[begin + lane], places, touched, count)
                y, count = take_place(b[begin + lane], places, touched, count)
                for q in range(2):
                    own[x, q] += found[q, lane]
                    own[y, q] -= found[q, lane]
                own[x, 2] += found[2, lane]
                own[y, 2] += found[2, lane]
                noise[begin + lane - starts[k]] = weight[begin + lane] * found[3, lane] / temper
        lengths[:] = 0.0
        for place in range(count):
            i = touched[place]
            lengths[sides.label[i], place % CHAINS] += sides.own[i] * (own[place, 1] - own[place, 0])
            own[place, 2] /= information[i]
            most = max(most, own[place, 2])
        if most > ENOUGH_SHARE:
            for c in range(starts[k], starts[k + 1]):
                share = max(own[places[a[c]], 2], own[places[b[c]], 2])
                part = min(max(share - ENOUGH_SHARE, 0.0) / (LARGEST_SHARE - ENOUGH_SHARE), 1.0)
                sums.by_vote[a[c], b[c]] += part * noise[c - starts[k]]
        for component in range(components):
            totals[component] = lengths[component].sum()
        for place in range(count):
            i, share = touched[place], own[place, 2]
            stretch = sides.own[i] * totals[sides.label[i]]
            own[place, 0] = (own[place, 0] + stretch) / np.sqrt(1.0 - min(share, LARGEST_SHARE)) - stretch
            sums.shares[i] += share * share
            sums.judges[i] += 1.0 if share > 0.0 else 0.0
            if dense:
                rows[row, i] = own[place, 0]
        for component in range(components):
            if totals[component] != 0.0:
                for place in range(count):
                    sums.crossed[touched[place], component] += own[place, 0] * totals[component]
                for other in range(components):
                    sums.scales[component, other] += totals[component] * totals[other]
        if not dense:
            for place in range(count):
                for other in range(count):
                    sums.meat[touched[place], touched[other]] += own[place, 0] * own[other, 0]
        own[:count] = 0.0
        for place in range(count):
            places[touched[place]] = -1
