"""Compiled loops over the votes of the model of votes."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import Floats, Indices, Mask
from app.rating.compiled import compiled
from app.rating.votes.cells import CellArrays

Rows = NDArray[np.float32]

MOST_NODES = 48  # a multiple of 4
FURTHEST = 30.0  # |R_a − R_b| in natural units; the weak prior of scores keeps them nearer
MEAN, PRECISION = 0.7, 1.0  # of the wide normal prior under which the mode of an ability is found
FACTORS = 64  # of at least SLIP/2, whose product does not vanish
PRODUCT = 3  # factors 1 + eˣ whose product stays finite
NEAR_MODE = 1e-6  # squared standard deviations from which a mode is near enough
STRICT = 8.0  # ability of a follower, which no person has
SLIP = 0.05  # share of a follower's votes that are wrong
COIN, FOLLOWER = 0, 1  # columns of the likelihoods of types without an ability
ENOUGH_SHARE, LARGEST_SHARE = 0.15, 0.8  # of the information on a model, between which votes count as independent too
ANY_ORDER = frozenset({"reassoc", "nsz", "contract"})  # of a sum, so that it runs on the processor's vectors
EXPONENT = 52  # bits below those of a number's exponent
ONE = 1023  # the exponent of 1.0 as it is stored
MANTISSA = (1 << EXPONENT) - 1
ROUNDER = 1.5 * 2.0**EXPONENT  # what is added to a number to round it to a whole one
LOG_2, LOG_2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the former has few bits
LEAST_LOG = -700.0
CHUNK = 1024
ROWS = 6  # of `find_contributions` for the scores


class Nodes(NamedTuple):
    """An even grid of abilities for each annotator, and what is known at it.

    Attributes
    ----------
    low, step : abilities low, low + step, …, shape (n_annotators,)
    begin : where an annotator's nodes begin, and their number at the end, shape (n_annotators + 1,)
    first, ratio : e^{low d} and e^{step d} of each cell's difference d of scores, not beyond `FURTHEST`, shape
        (n_cells,): so e^{θ d} is a geometric series on the grid
    table : log-likelihoods, shape (begin[−1],)
    posterior : weights; with the types that have no node an annotator's add up to 1
    """

    low: Floats
    step: Floats
    begin: Indices
    first: Floats
    ratio: Floats
    table: Floats
    posterior: Floats


class LawNumbers(NamedTuple):
    """The law as compiled loops read it."""

    log_shares: Floats
    spread: float


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
def pull_of(theta: float, strength: float) -> float:
    """Return h(θ), how strongly a vote pulls at scores; θ at the strength 0.

    h is 0 below 0, grows as θ, and falls as θ^−¼ above 1: a vote of an able annotator pulls no more than a typical one.
    It is smooth where abilities are, so that sums over few nodes are exact. E[h(θ)(s − n p(θ))] is 0 for any h, so no
    choice of h biases the scores.
    """
    able = max(theta, 0.0)
    return strength * able / math.sqrt(math.sqrt(0.5 + 0.5 * able**5)) + (1.0 - strength) * theta


@compiled
def climb_abilities(
    cells: CellArrays, R: Floats, temper: float, steps: int, mode: Floats, information: Floats
) -> None:  # fmt: skip
    """Take Newton steps on each ability under the wide prior; `information` becomes that of the votes."""
    starts, a, b, n, s = cells.starts, cells.model_a, cells.model_b, cells.n, cells.s
    for k in range(len(mode)):
        x = mode[k]
        for _ in range(steps):
            gradient, own = (MEAN - x) * PRECISION, 0.0
            for c in range(starts[k], starts[k + 1]):
                d = R[a[c]] - R[b[c]]
                p = 1.0 / (1.0 + np.exp(-min(max(x * d, -30.0), 30.0)))
                gradient += temper * (s[c] - n[c] * p) * d
                own += temper * n[c] * p * (1.0 - p) * d * d
            move = min(max(gradient / (own + PRECISION), -1.0), 1.0)
            x += move
            information[k] = own
            if move * move * (own + PRECISION) < NEAR_MODE:
                break
        mode[k] = x


@compiled
def follow_ranking(cells: CellArrays, R: Floats, temper: float, extra: Floats) -> None:
    """Set `extra` to the log-likelihoods of a coin, and of a follower of the ranking R.

    The factors of single decided votes are multiplied up, so that many take one logarithm.
    """
    e = np.exp(STRICT * R)
    for k in range(len(extra)):
        votes, follower, product, factors = 0.0, 0.0, 1.0, 0
        for c in range(cells.starts[k], cells.starts[k + 1]):
            a, b, n, s = cells.model_a[c], cells.model_b[c], cells.n[c], cells.s[c]
            p = (1.0 - SLIP) * (e[a] / (e[a] + e[b])) + SLIP / 2.0
            votes += n
            if n == 1.0 and s in (0.0, 1.0):
                product *= p if s == 1.0 else 1.0 - p
                factors += 1
                if factors == FACTORS:
                    follower, product, factors = follower + np.log(product), 1.0, 0
            else:
                follower += s * np.log(p) + (n - s) * np.log(1.0 - p)
        extra[k, COIN] = -temper * votes * np.log(2.0)
        extra[k, FOLLOWER] = temper * (follower + np.log(product))


@partial(compiled, fastmath=frozenset({"contract"}))
def exponentiate(x: Floats, power: Floats) -> None:
    """Replace each x, |x| ≤ 700, by eˣ to 15 digits. `power` is scratch; the loops run on the processor's vectors."""
    bits = power.view(np.int64)
    for i in range(len(x)):
        power[i] = x[i] * (1.0 / np.log(2.0)) + ROUNDER
        whole = power[i] - ROUNDER
        r = x[i] - whole * LOG_2 - whole * LOG_2_REST
        even = 1.0 / 3628800.0 + r * (1.0 / 39916800.0 + r * (1.0 / 479001600.0))
        even = 1.0 / 5040.0 + r * (1.0 / 40320.0 + r * (1.0 / 362880.0 + r * even))
        even = 1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r * even))
        x[i] = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * even)))
    for i in range(len(x)):
        bits[i] = (bits[i] + ONE) << EXPONENT
    for i in range(len(x)):
        x[i] *= power[i]


@compiled
def spread_exponentials(cells: CellArrays, R: Floats, nodes: Nodes) -> None:
    """Set `nodes.first` and `nodes.ratio`."""
    power = np.empty(CHUNK)
    for k in range(len(nodes.low)):
        for c in range(cells.starts[k], cells.starts[k + 1]):
            d = min(max(R[cells.model_a[c]] - R[cells.model_b[c]], -FURTHEST), FURTHEST)
            nodes.first[c], nodes.ratio[c] = nodes.low[k] * d, nodes.step[k] * d
    for start in range(0, len(nodes.first), CHUNK):
        end = min(start + CHUNK, len(nodes.first))
        exponentiate(nodes.first[start:end], power)
        exponentiate(nodes.ratio[start:end], power)


@compiled
def raise_powers(first: float, ratio: float, size: int, e: Floats) -> None:
    """Set e[q] = first · ratio^q for q below `size`, a multiple of 4: by fours, as the processor's vectors are."""
    square = ratio * ratio
    fourth = square * square
    e[0], e[1], e[2], e[3] = first, first * ratio, first * square, first * square * ratio
    for q in range(4, size, 4):
        for lane in range(4):
            e[q + lane] = e[q + lane - 4] * fourth


@partial(compiled, fastmath=ANY_ORDER)
def fill_likelihoods(cells: CellArrays, R: Floats, temper: float, nodes: Nodes) -> None:
    """Set `nodes.table`.

    The factors 1 + e^{θ_q d} are multiplied up, and the exponents of the products counted apart, so that an annotator
    takes one logarithm a node.
    """
    starts, a, b, n, s = cells.starts, cells.model_a, cells.model_b, cells.n, cells.s
    product, e, total = np.empty(MOST_NODES), np.empty(MOST_NODES), np.empty(MOST_NODES)
    bits, exponent = product.view(np.int64), np.empty(MOST_NODES, dtype=np.int64)
    for k in range(len(nodes.low)):
        at, low, step, won, factors = nodes.begin[k], nodes.low[k], nodes.step[k], 0.0, 0
        m = nodes.begin[k + 1] - at
        product[:m], total[:m], exponent[:m] = 1.0, 0.0, 0
        for c in range(starts[k], starts[k + 1]):
            won += s[c] * min(max(R[a[c]] - R[b[c]], -FURTHEST), FURTHEST)
            raise_powers(nodes.first[c], nodes.ratio[c], m, e)
            if n[c] == 1.0:
                for q in range(m):
                    product[q] *= 1.0 + e[q]
                factors += 1
                if factors == PRODUCT:
                    factors = 0
                    for q in range(m):
                        exponent[q] += (bits[q] >> EXPONENT) - ONE
                        bits[q] = (bits[q] & MANTISSA) | (ONE << EXPONENT)
            else:
                for q in range(m):
                    total[q] += n[c] * np.log(1.0 + e[q])
        for q in range(m):
            total[q] += np.log(product[q]) + exponent[q] * np.log(2.0)
            nodes.table[at + q] = temper * (won * (low + q * step) - total[q])


@partial(compiled, fastmath=ANY_ORDER)
def weigh_nodes(  # noqa: C901  loops over nodes
    nodes: Nodes, extra: Floats, silent: Mask, law: LawNumbers, types: Floats
) -> tuple[Floats, float, Floats, float]:  # fmt: skip
    """Set the posteriors of the nodes and of the types under a law.

    Returns
    -------
    number : expected annotators of each part of the law
    square : expected Σ z² of honest and contrary ones
    missing : Σ_k Var_k of the parts' indicators and of z², shape (5, 5)
    value : Σ log ∫ L dG
    """
    number, square, missing, value = np.zeros(4), 0.0, np.zeros((5, 5)), 0.0
    f, power, own, cross, shape = (
        np.empty(2 * MOST_NODES),
        np.empty(2 * MOST_NODES),
        np.empty(4),
        np.zeros(4),
        np.empty(5),
    )
    base = -np.log(law.spread) - 0.5 * np.log(2.0 * np.pi)
    for k in range(len(nodes.low)):
        if silent[k]:
            continue
        at, low, step = nodes.begin[k], nodes.low[k], nodes.step[k]
        m = nodes.begin[k + 1] - at
        table, here = nodes.table[at : at + m], base + np.log(step)
        logs = here + law.log_shares[0], here + law.log_shares[2]
        for q in range(m):
            t = low + q * step
            f[q] = table[q] + logs[0] - 0.5 * ((t - 1.0) / law.spread) ** 2
            f[m + q] = table[q] + logs[1] - 0.5 * ((t + 1.0) / law.spread) ** 2
        coin, follower = extra[k, COIN] + law.log_shares[1], extra[k, FOLLOWER] + law.log_shares[3]
        top = max(coin, follower)
        for q in range(2 * m):
            top = max(top, f[q])
        for q in range(2 * m):
            f[q] = max(f[q] - top, LEAST_LOG)
        exponentiate(f[: 2 * m], power)
        own[1], own[3] = np.exp(coin - top), np.exp(follower - top)
        curve = 0.0
        for side in range(2):
            there = mixed = 0.0
            for q in range(m):
                w, z = f[side * m + q], (low + q * step - (1.0 - 2.0 * side)) / law.spread
                there += w
                mixed += w * z * z
                curve += w * z * z * z * z
            own[2 * side], cross[2 * side] = there, mixed
        total = own.sum()
        value += np.log(total) + top
        below = 0.0
        for q in range(m):
            w = (f[q] + f[m + q]) / total
            nodes.posterior[at + q] = w
            below += w if low + q * step < 0.0 else 0.0
        for j in range(4):
            shape[j] = own[j] / total
            number[j] += shape[j]
        types[k, 0], types[k, 1], types[k, 2], types[k, 3] = shape[0] + shape[2] - below, shape[1], below, shape[3]
        shape[4] = (cross[0] + cross[2]) / total
        square += shape[4]
        missing[4, 4] += curve / total
        for i in range(5):
            for j in range(5):
                missing[i, j] -= shape[i] * shape[j]
        for i in range(4):
            missing[i, i] += shape[i]
            missing[i, 4] += cross[i] / total
            missing[4, i] += cross[i] / total
    return number, square, missing, value


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
        third += weight[q] * one[q] ** 3
    norm = rest * (away * away - 1.0 - third * away) ** 2
    for q in range(m):
        two[q] = one[q] * one[q] - 1.0 - third * one[q]
        norm += weight[q] * two[q] ** 2
    size = np.sqrt(max(norm, 1e-12))
    two[:m] /= size
    return away, (away * away - 1.0 - third * away) / size


@partial(compiled, fastmath=ANY_ORDER)
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
    rows : where it has entries, shape (2, 2 · n, n_models), the products are left to the caller: rows 2k, 2k + 1 of its
        two halves become the factors for the k-th of `who`. Else they are added to `known`
    """
    starts, a, b, n, s = cells.starts, cells.model_a, cells.model_b, cells.n, cells.s
    size, dense, components = len(sides.label), rows.shape[1] > 0, sides.along.shape[1]
    e, one, two, K = np.empty(MOST_NODES), np.empty(MOST_NODES), np.empty(MOST_NODES), np.empty((12, MOST_NODES))
    found, own = np.zeros(12), np.zeros((size, 12))
    touched, mark = np.empty(size + 1, np.int64), np.zeros(size, np.int64)
    lengths, totals, compact = np.zeros((2, components)), np.empty(10), np.empty((2, size))
    odds, power, logs = np.empty(MOST_NODES), np.empty(MOST_NODES), law.log_shares[2] - law.log_shares[0]
    for row in range(len(who)):
        k = who[row]
        if starts[k] == starts[k + 1]:
            continue
        low, step, weights = nodes.low[k], nodes.step[k], nodes.posterior[nodes.begin[k] : nodes.begin[k + 1]]
        m = len(weights)
        find_polynomials(weights, low, step, m, one, two)
        for q in range(m):
            odds[q] = logs - 2.0 * (low + q * step) / law.spread**2
            odds[q] = min(max(odds[q], LEAST_LOG), -LEAST_LOG)
        exponentiate(odds[:m], power)
        mean_contrary = mean_spread = 0.0
        for q in range(m):
            t, w, contrary = low + q * step, weights[q], odds[q] / (1.0 + odds[q])
            able = ((t - 1.0) ** 2 + 4.0 * t * contrary) / law.spread**2 - 1.0
            mean_contrary += w * contrary
            mean_spread += w * able
            pull = w * pull_of(t, strength)
            K[0, q], K[1, q], K[2, q], K[3, q] = pull, w * t, pull * one[q], pull * two[q]
            K[4, q], K[5, q], K[6, q], K[7, q] = w * t * one[q], w * t * two[q], pull * t, w * t * t
            K[8, q], K[9, q], K[10, q], K[11, q] = pull * contrary, w * t * contrary, pull * able, w * t * able
        for j in range(10):
            totals[j] = K[j if j < ROWS else j + 2, :m].sum()
        count = 0
        for c in range(starts[k], starts[k + 1]):
            i, j = a[c], b[c]
            for model in (i, j):  # without a branch, which no processor could foresee
                touched[count] = model
                count += 1 - mark[model]
                mark[model] = 1
            raise_powers(nodes.first[c], nodes.ratio[c], m, e)
            u = u1 = x1 = x2 = y1 = y2 = v = v1 = c1 = c2 = a1 = a2 = 0.0
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
                c1 += K[8, q] * p
                c2 += K[9, q] * p
                a1 += K[10, q] * p
                a2 += K[11, q] * p
            w, votes, won = 1.0 - strength + strength * weight[c], n[c], s[c]
            found[0], found[1] = w * (won * totals[0] - votes * u), won * totals[1] - votes * u1
            found[2], found[3] = w * (won * totals[2] - votes * x1), w * (won * totals[3] - votes * x2)
            found[4], found[5] = temper * (won * totals[4] - votes * y1), temper * (won * totals[5] - votes * y2)
            found[6], found[7] = w * (won * totals[6] - votes * c1), temper * (won * totals[7] - votes * c2)
            found[8], found[9] = w * (won * totals[8] - votes * a1), temper * (won * totals[9] - votes * a2)
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
            sums.weighted_by_law[i, 1] += own[i, 6] - mean_contrary * u
            sums.weighted_by_law[i, 2] -= types[k, 3] * u
            sums.weighted_by_law[i, 3] += own[i, 8] - mean_spread * u
            sums.plain_by_law[i, 0] -= types[k, 1] * u1
            sums.plain_by_law[i, 1] += own[i, 7] - mean_contrary * u1
            sums.plain_by_law[i, 2] -= types[k, 3] * u1
            sums.plain_by_law[i, 3] += own[i, 9] - mean_spread * u1
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
            pull = pull_of(t, 1.0)
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
