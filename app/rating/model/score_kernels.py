"""Compiled loops that add up what annotators say of the scores, and what they are as clusters."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import Floats, Indices
from app.rating.compiled import compiled
from app.rating.model.kernels import (
    CELLS,
    MOST_NODES,
    LawNumbers,
    Nodes,
    average_nodes,
    bend_chances,
    spread_chances,
)
from app.rating.votes.cells import CellArrays

Rows = NDArray[np.float32]

ENOUGH_SHARE, LARGEST_SHARE = 0.5, 0.8  # of the information on a model, between which votes count as independent too
OUTCOMES = 8  # averages of s − n p in `find_contributions`, half of them with weights


class Sides(NamedTuple):
    """The directions of `crowd.Directions`: component of each model, and the entries of its direction."""

    label: Indices
    along: Floats


class ScoreSums(NamedTuple):
    """What `find_contributions` adds to; see `crowd.Contributions`.

    Attributes
    ----------
    outcomes : Σ_k E[f (s − n p)] of each model, shape (n_models, 9): for f = h times 1, the two polynomials and v, the
        same for θ, and θ of contrary ones
    by_share : Σ_k of the first of h and of θ, times the means of what the law's derivatives multiply, (2, n_models, 4)
    """

    outcomes: Floats
    by_share: Floats
    information: Floats
    known: Floats
    stretched: Floats
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
def pull_of(theta: float, strength: float) -> float:
    """Return h(θ), how strongly a vote pulls at scores; θ at the strength 0.

    h is 0 below 0, grows as θ, and falls as θ^−¼ above 1: a vote of an able annotator pulls no more than a typical one.
    It is smooth where abilities are, so that sums over few nodes are exact. E[h(θ)(s − n p(θ))] is 0 for any h, so no
    choice of h biases the scores.
    """
    able = max(theta, 0.0)
    return strength * able / math.sqrt(math.sqrt(0.5 + 0.5 * able**5)) + (1.0 - strength) * theta


@compiled
def find_polynomials(
    weight: Floats, at: int, low: float, step: float, m: int, one: Floats, two: Floats
) -> tuple[float, float]:
    """Set the first two orthonormal polynomials in θ at m nodes, under their weights from `at` on and the rest at 0.

    Returns their values at 0.
    """
    mean = square = there = 0.0
    for q in range(m):
        t = low + q * step
        there += weight[at + q]
        mean += weight[at + q] * t
        square += weight[at + q] * t * t
    sd, rest = np.sqrt(max(square - mean * mean, 1e-12)), max(1.0 - there, 0.0)
    away = -mean / sd
    third = rest * away**3
    for q in range(m):
        one[q] = (low + q * step - mean) / sd
    for q in range(m):
        third += weight[at + q] * one[q] ** 3
    norm = rest * (away * away - 1.0 - third * away) ** 2
    for q in range(m):
        two[q] = one[q] * one[q] - 1.0 - third * one[q]
    for q in range(m):
        norm += weight[at + q] * two[q] ** 2
    size = np.sqrt(max(norm, 1e-12))
    for q in range(m):
        two[q] /= size
    return away, (away * away - 1.0 - third * away) / size


@compiled
def find_contributions(  # noqa: C901, PLR0912, PLR0915  one pass over an annotator's votes while they are at hand
    who: Indices, cells: CellArrays, weight: Floats, temper: float, nodes: Nodes,
    types: Floats, law: LawNumbers, strength: float, sides: Sides, sums: ScoreSums, rows: Rows,
) -> None:  # fmt: skip
    """Add what the annotators in `who` say of the scores to `sums`.

    u_k = Σ_c w E[h (s − n p)] (e_a − e_b), and the same with θ for h and w = 1. For the polynomials φ_j of
    `find_polynomials` also E[φ_j h (s − n p)] (2) and E[φ_j θ (s − n p)]/dispersion (2): Cov(u_k, dℓ_k/dR) is about the
    sum of their products, that of u_k and of the law's scores too.

    Parameters
    ----------
    strength : 0 or 1
    rows : where it has entries, shape (2, 2 · n, n_models), the products are left to the caller: rows 2k, 2k + 1 of its
        two halves become the factors for the k-th of `who`. Else they are added to `known`
    """
    starts, a, b, n, s = cells.starts, cells.model_a, cells.model_b, cells.n, cells.s
    size, dense, components = len(sides.label), rows.shape[1] > 0, sides.along.shape[1]
    one, two, K = np.empty(MOST_NODES), np.empty(MOST_NODES), np.empty((OUTCOMES + 3, MOST_NODES))
    chances, power, found = np.empty((MOST_NODES, CELLS)), np.empty(CELLS), np.empty((OUTCOMES + 3, CELLS))
    own, totals, touched, mark = np.zeros((size, OUTCOMES + 1)), np.empty(OUTCOMES + 1), *unmarked(size)
    lengths, compact, means = np.zeros((2, components)), np.empty((2, size)), np.empty(4)
    for row in range(len(who)):
        k = who[row]
        if starts[k] == starts[k + 1]:
            continue
        low, step, at = nodes.low[k], nodes.step[k], nodes.begin[k]
        m = nodes.begin[k + 1] - at
        find_polynomials(nodes.posterior, at, low, step, m, one, two)
        means[0], means[1], means[2], means[3] = types[k, 1], 0.0, types[k, 3], 0.0
        for q in range(m):
            t, w = low + q * step, nodes.posterior[at + q]
            contrary, able = 1.0 if t < 0.0 else 0.0, -2.0 * law.shape * (nodes.log[at + q] - abs(t) - law.middle)
            pull = w * pull_of(t, strength)
            K[0, q], K[1, q], K[2, q], K[3, q] = pull, pull * one[q], pull * two[q], pull * able
            K[4, q], K[5, q], K[6, q], K[7, q] = w * t, w * t * one[q], w * t * two[q], w * t * able
            K[8, q], K[9, q], K[10, q] = w * t * contrary, pull * t, w * t * t
            means[1] += w * contrary
            means[3] += w * able
        for term in range(OUTCOMES + 1):
            totals[term] = 0.0
            for q in range(m):
                totals[term] += K[term, q]
        below, count = min(4 * math.ceil(max(0.5 - low / step, 0.0) / 4.0), m), 0
        for begin in range(starts[k], starts[k + 1], CELLS):
            end = min(begin + CELLS, starts[k + 1])
            some, votes, won = end - begin, n[begin:end], s[begin:end]
            spread_chances(nodes.first[begin:end], nodes.ratio[begin:end], m, chances, power)
            average_nodes(K, 0, OUTCOMES, m, chances, some, found)
            average_nodes(K, OUTCOMES, OUTCOMES + 1, below, chances, some, found)
            bend_chances(m, some, chances)
            average_nodes(K, OUTCOMES + 1, OUTCOMES + 3, m, chances, some, found)
            for term in range(OUTCOMES + 1):
                for c in range(some):
                    found[term, c] = (won[c] - votes[c]) * totals[term] + votes[c] * found[term, c]
            if strength > 0.0:
                lowered = weight[begin:end]
                for c in range(some):
                    found[0, c] *= lowered[c]
                    found[1, c] *= lowered[c]
                    found[2, c] *= lowered[c]
                    found[3, c] *= lowered[c]
                    found[9, c] *= lowered[c]
            for c in range(some):  # the table of all pairs is far away: a short loop waits for several entries at once
                sums.information[a[begin + c], b[begin + c]] += votes[c] * found[9, c]
            for c in range(some):
                i, j = a[begin + c], b[begin + c]
                count = touch(i, j, count, touched, mark)
                for term in range(OUTCOMES + 1):
                    own[i, term] += found[term, c]
                    own[j, term] -= found[term, c]
                v = votes[c] * (sides.along[i, sides.label[i]] - sides.along[j, sides.label[j]]) * found[10, c]
                sums.stretched[i] += v
                sums.stretched[j] -= v
        lengths[:] = 0.0
        if dense:
            for half in range(4):
                for i in range(size):
                    rows[half // 2, 2 * row + half % 2, i] = 0.0
        for place in range(count):
            i = touched[place]
            component = sides.label[i]
            y1, y2 = temper * own[i, 5], temper * own[i, 6]
            for term in range(OUTCOMES + 1):
                sums.outcomes[i, term] += own[i, term]
            for part in range(4):
                sums.by_share[0, i, part] += means[part] * own[i, 0]
                sums.by_share[1, i, part] += means[part] * own[i, 4]
            lengths[0, component] += sides.along[i, component] * y1
            lengths[1, component] += sides.along[i, component] * y2
            compact[0, place], compact[1, place] = y1, y2
            if dense:
                rows[0, 2 * row, i], rows[0, 2 * row + 1, i] = own[i, 1], own[i, 2]
                rows[1, 2 * row, i], rows[1, 2 * row + 1, i] = y1, y2
        for component in range(components):
            l1, l2 = lengths[0, component] / temper, lengths[1, component] / temper
            if l1 != 0.0 or l2 != 0.0:
                for place in range(count):
                    sums.known_stretched[touched[place], component] += compact[0, place] * l1 + compact[1, place] * l2
        for place in range(count):
            i = touched[place]
            if not dense:
                for other in range(count):
                    more = own[i, 1] * compact[0, other] + own[i, 2] * compact[1, other]
                    sums.known[i, touched[other]] += more
            mark[i] = 0
            for term in range(OUTCOMES + 1):
                own[i, term] = 0.0


@compiled
def unmarked(size: int) -> tuple[Indices, Indices]:
    """Return room for the models that an annotator's votes touch, and marks of none, for `touch`."""
    return np.empty(size + 1, np.int64), np.zeros(size, np.int64)


@compiled
def touch(i: int, j: int, count: int, touched: Indices, mark: Indices) -> int:
    """Add two models to the first `count` of `touched` where they are not yet; return their number."""
    for model in (i, j):  # without a branch, which no processor could foresee
        touched[count] = model
        count += 1 - mark[model]
        mark[model] = 1
    return count


@compiled
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
    K, chances, power, found = (
        np.empty((4, MOST_NODES)), np.empty((MOST_NODES, CELLS)), np.empty(CELLS), np.empty((4, CELLS))
    )  # fmt: skip
    own, touched, mark = np.zeros((3, size)), *unmarked(size)
    lengths, compact = np.zeros(components), np.empty(size)
    longest = 0
    for k in who:
        longest = max(longest, starts[k + 1] - starts[k])
    noise = np.empty(longest)
    for row in range(len(who)):
        k = who[row]
        if starts[k] == starts[k + 1]:
            continue
        low, step, at, total, total_plain, count = nodes.low[k], nodes.step[k], nodes.begin[k], 0.0, 0.0, 0
        m = nodes.begin[k + 1] - at
        for q in range(m):
            t, w = low + q * step, nodes.posterior[at + q]
            pull = pull_of(t, 1.0)
            K[0, q], K[1, q], K[2, q], K[3, q] = w * pull, w * t, w * pull * t, w * pull * pull
            total += K[0, q]
            total_plain += K[1, q]
        for begin in range(starts[k], starts[k + 1], CELLS):
            end = min(begin + CELLS, starts[k + 1])
            some = end - begin
            spread_chances(nodes.first[begin:end], nodes.ratio[begin:end], m, chances, power)
            average_nodes(K, 0, 2, m, chances, some, found)
            bend_chances(m, some, chances)
            average_nodes(K, 2, 4, m, chances, some, found)
            for place in range(some):
                c = begin + place
                i, j, lost = a[c], b[c], s[c] - n[c]
                count = touch(i, j, count, touched, mark)
                u = weight[c] * (lost * total + n[c] * found[0, place])
                u1 = lost * total_plain + n[c] * found[1, place]
                v = weight[c] * n[c] * found[2, place]
                own[0, i] += u
                own[0, j] -= u
                own[1, i] += u1
                own[1, j] -= u1
                own[2, i] += v / information[i]
                own[2, j] += v / information[j]
                noise[c - starts[k]] = weight[c] ** 2 * n[c] * found[3, place] / temper
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
            i = touched[place]
            own[0, i] = own[1, i] = own[2, i] = 0.0
            mark[i] = 0
