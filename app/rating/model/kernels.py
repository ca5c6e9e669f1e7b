"""Compiled loops over the votes of the model of votes."""

from functools import partial
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices, Mask
from app.rating.compiled import compiled
from app.rating.votes.cells import CellArrays

MOST_NODES = 48  # a multiple of 4
FURTHEST = 30.0  # |R_a − R_b| in natural units; the weak prior of scores keeps them nearer
MEAN, PRECISION = 0.7, 1.0  # of the wide normal prior under which the mode of an ability is found
FACTORS = 64  # of at least SLIP/2, whose product does not vanish
PRODUCT = 3  # factors 1 + eˣ whose product stays finite
NEAR_MODE = 1e-6  # squared standard deviations from which a mode is near enough
STRICT = 8.0  # ability of a follower, which no person has
SLIP = 0.05  # share of a follower's votes that are wrong
COIN, FOLLOWER = 0, 1  # columns of the likelihoods of types without an ability
ANY_ORDER = frozenset({"reassoc", "nsz", "contract"})
"""Of a sum, so that it runs on the processor's vectors. No loop that sums may write to an array: the compiler would let
addresses decide how it runs, and so the sum's last bit."""
EXPONENT = 52  # bits below those of a number's exponent
ONE = 1023  # the exponent of 1.0 as it is stored
MANTISSA = (1 << EXPONENT) - 1
ROUNDER = 1.5 * 2.0**EXPONENT  # what is added to a number to round it to a whole one
LOG_2, LOG_2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the former has few bits
LEAST_LOG = -700.0
CHUNK = 1024


class Nodes(NamedTuple):
    """An even grid of abilities for each annotator, and what is known at it.

    Attributes
    ----------
    low, step : abilities low, low + step, …, shape (n_annotators,)
    begin : where an annotator's nodes begin, and their number at the end, shape (n_annotators + 1,)
    first, ratio : e^{low d} and e^{step d} of each cell's difference d of scores, not beyond `FURTHEST`, shape
        (n_cells,): so e^{θ d} is a geometric series on the grid
    table : log-likelihoods, shape (begin[−1],)
    log : log |θ|, of the same shape
    posterior : weights; with the types that have no node an annotator's add up to 1
    """

    low: Floats
    step: Floats
    begin: Indices
    first: Floats
    ratio: Floats
    table: Floats
    log: Floats
    posterior: Floats


class LawNumbers(NamedTuple):
    """The law as compiled loops read it.

    Attributes
    ----------
    shape : κ of the gamma law of |θ|, whose mean is 1 and whose log density is (κ − 1) log |θ| − κ |θ| + base
    middle : E[log |θ| − |θ|] under it
    """

    log_shares: Floats
    shape: float
    base: float
    middle: float


@partial(compiled, fastmath=ANY_ORDER)
def climb_abilities(
    cells: CellArrays, R: Floats, temper: float, steps: int, mode: Floats, information: Floats
) -> None:  # fmt: skip
    """Take Newton steps on each ability under the wide prior; `information` becomes that of the votes."""
    starts, a, b = cells.starts, cells.model_a, cells.model_b
    longest = np.diff(starts).max() if len(mode) else 0
    d, e, power = np.empty(longest), np.empty(longest), np.empty(longest)
    for k in range(len(mode)):
        begin, x = starts[k], mode[k]
        count = starts[k + 1] - begin
        n, s = cells.n[begin : begin + count], cells.s[begin : begin + count]
        for c in range(count):
            d[c] = R[a[begin + c]] - R[b[begin + c]]
        for _ in range(steps):
            for c in range(count):
                e[c] = min(max(-x * d[c], -FURTHEST), FURTHEST)
            exponentiate(e[:count], power)
            gradient, own = (MEAN - x) * PRECISION, 0.0
            for c in range(count):
                p = 1.0 / (1.0 + e[c])
                gradient += temper * (s[c] - n[c] * p) * d[c]
                own += temper * n[c] * p * (1.0 - p) * d[c] * d[c]
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
def weigh_nodes(  # noqa: C901, PLR0912  loops over nodes
    nodes: Nodes, extra: Floats, silent: Mask, law: LawNumbers, types: Floats
) -> tuple[Floats, float, Floats, float]:  # fmt: skip
    """Set the posteriors of the nodes and of the types under a law.

    Returns
    -------
    number : expected annotators of each part of the law
    slope : expected Σ v of honest and contrary ones, v the derivative of the log density by log τ
    missing : Σ_k Var_k of the parts' indicators and of v, shape (5, 5)
    value : Σ log ∫ L dG
    """
    number, missing, value, product = np.zeros(4), np.zeros((5, 5)), 0.0, 1.0
    f, power, shape, cross = np.empty(MOST_NODES + 2), np.empty(MOST_NODES + 2), np.empty(5), np.zeros(4)
    crosses, curves = np.zeros(4), 0.0
    for k in range(len(nodes.low)):
        if k % FACTORS == 0:
            value, product = value + np.log(product), 1.0
        if silent[k]:
            continue
        at, end, low, step = nodes.begin[k], nodes.begin[k + 1], nodes.low[k], nodes.step[k]
        table, log, posterior, m = nodes.table[at:end], nodes.log[at:end], nodes.posterior[at:end], end - at
        below = min(max(int(0.75 - low / step), 0), m)  # nodes of contrary ones
        for q in range(m):
            share = law.log_shares[2] if q < below else law.log_shares[0]
            prior = law.base + share + (law.shape - 1.0) * log[q] - law.shape * abs(low + q * step)
            f[q] = table[q] + prior
        f[m], f[m + 1] = extra[k, COIN] + law.log_shares[1], extra[k, FOLLOWER] + law.log_shares[3]
        top = f[m]
        for q in range(m + 2):
            top = max(top, f[q])
        for q in range(m + 2):
            f[q] = max(f[q] - top, LEAST_LOG)
        exponentiate(f[: m + 2], power)
        shape[1], shape[3], curve = f[m], f[m + 1], 0.0
        for part, first, last in ((0, below, m), (2, 0, below)):
            there = mixed = 0.0
            for q in range(first, last):
                v = -2.0 * law.shape * (log[q] - abs(low + q * step) - law.middle)
                there += f[q]
                mixed += f[q] * v
                curve += f[q] * v * v
            shape[part], cross[part] = step * there, step * mixed
        total = shape[0] + shape[1] + shape[2] + shape[3]
        value += top
        product *= total
        scale = step / total
        for q in range(m):
            posterior[q] = f[q] * scale
        for j in range(4):
            shape[j] /= total
            cross[j] /= total
            number[j] += shape[j]
            crosses[j] += cross[j]
            types[k, j] = shape[j]
        shape[4] = cross[0] + cross[2]
        curves += curve * scale
        for i in range(5):
            for j in range(i + 1):
                missing[i, j] -= shape[i] * shape[j]
    slope = crosses.sum()
    missing[4, 4] += curves
    for i in range(4):
        missing[i, i] += number[i]
        missing[4, i] += crosses[i]
        for j in range(i + 1, 5):
            missing[i, j] = missing[j, i]
    return number, slope, missing, value + np.log(product)
