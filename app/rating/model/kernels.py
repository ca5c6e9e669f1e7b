"""Compiled loops over the votes of the model of votes."""

import numpy as np

from app.rating.arrays import Floats, Indices, Ints, Mask
from app.rating.compiled import compiled

MOST_NODES = 24
FURTHEST = 15.0  # |R_a − R_b| in natural units, beyond which a vote is as good as certain
MEAN, PRECISION = 0.7, 1.0  # of the wide normal prior under which the mode of an ability is found
PRODUCT = 8  # factors 1 + eˣ of one logarithm: their product stays finite
NEAR_MODE = 0.04  # squared standard deviations from which a mode is near enough
STRICT = 8.0  # ability of a follower, which no person has
SLIP = 0.05  # share of a follower's votes that are wrong
STEEPNESS = 1.25  # of the weight of abilities above 1
OF_SCORES = 2  # polynomials' coefficients of u_k, before those of dℓ_k/dR
COIN, FOLLOWER = 0, 1  # columns of the likelihoods of types without an ability
ENOUGH_SHARE, LARGEST_SHARE = 0.15, 0.8  # of the information on a model, between which votes count as independent too


@compiled
def pull_of(theta: float, strength: float) -> float:
    """Return h(θ), how strongly a vote pulls at scores: 0 below 0, θ up to 1, then θ^−0.25; θ at the strength 0.

    A vote of an able annotator pulls no more than a typical one. E[h(θ)(s − n p(θ))] is 0 for any h, so no choice of h
    biases the scores.
    """
    bounded = theta if theta <= 1.0 else theta ** (1.0 - STEEPNESS)
    return strength * max(bounded, 0.0) + (1.0 - strength) * theta


def pulls_of(theta: Floats) -> Floats:
    """Return `pull_of` of many abilities at the full strength."""
    able = np.maximum(theta, 0.0)
    return np.where(able > 1.0, np.maximum(able, 1.0) ** (1.0 - STEEPNESS), able)


@compiled
def climb_abilities(
    starts: Indices, a: Ints, b: Ints, n: Floats, s: Floats, R: Floats, temper: float, steps: int,
    mode: Floats, information: Floats,
) -> None:  # fmt: skip
    """Take Newton steps on each ability under the wide prior; `information` becomes that of the votes."""
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
def fill_likelihoods(
    starts: Indices, a: Ints, b: Ints, n: Floats, s: Floats, R: Floats, temper: float,
    low: Floats, step: Floats, size: Indices, table: Floats, extra: Floats,
) -> None:  # fmt: skip
    """Set table[k, q] = log L_k(θ_q), and `extra` to the log-likelihoods of a coin and of a follower.

    On an even grid e^{θ_q d} is a geometric series, so a cell takes two exponentials; eight of them one logarithm.
    """
    product, total = np.empty(MOST_NODES), np.empty(MOST_NODES)
    for k in range(len(size)):
        m, won, factors, votes, follower = size[k], 0.0, 0, 0.0, 0.0
        able = low[k] + 0.5 * m * step[k] > 1.0
        product[:m], total[:m] = 1.0, 0.0
        for c in range(starts[k], starts[k + 1]):
            d = min(max(R[a[c]] - R[b[c]], -FURTHEST), FURTHEST)
            won += s[c] * d
            votes += n[c]
            e, ratio = np.exp(low[k] * d), np.exp(step[k] * d)
            if n[c] == 1.0:
                for q in range(m):
                    product[q] *= 1.0 + e
                    e *= ratio
                factors += 1
                if factors == PRODUCT:
                    for q in range(m):
                        total[q] += np.log(product[q])
                        product[q] = 1.0
                    factors = 0
            else:
                for q in range(m):
                    total[q] += n[c] * np.log(1.0 + e)
                    e *= ratio
            if able:
                p = (1.0 - SLIP) / (1.0 + np.exp(-min(max(STRICT * d, -30.0), 30.0))) + SLIP / 2.0
                follower += s[c] * np.log(p) + (n[c] - s[c]) * np.log(1.0 - p)
        for q in range(m):
            table[k, q] = temper * (won * (low[k] + q * step[k]) - total[q] - np.log(product[q]))
        extra[k, COIN] = -temper * votes * np.log(2.0)
        extra[k, FOLLOWER] = temper * follower if able else -np.inf


@compiled
def weigh_nodes(
    table: Floats, extra: Floats, low: Floats, step: Floats, size: Indices, silent: Mask, shares: Floats,
    centre: float, spread: float, log_above: float, posterior: Floats, types: Floats, write: bool,
) -> tuple[Floats, float, float]:  # fmt: skip
    """Take one expectation step; `write` keeps the posteriors.

    Returns
    -------
    number : expected annotators of each type
    square : expected Σ (|θ| − centre)² of honest and contrary ones
    value : Σ log ∫ L dG
    """
    number, square, value = np.zeros(4), 0.0, 0.0
    f, own = np.empty(MOST_NODES), np.empty(4)
    logs, base = np.log(shares), -np.log(spread) - 0.5 * np.log(2.0 * np.pi) - log_above
    for k in range(len(size)):
        if silent[k]:
            continue
        m, log_step = size[k], np.log(step[k])
        coin, follower = extra[k, COIN] + logs[1], extra[k, FOLLOWER] + logs[3]
        top = max(coin, follower)
        for q in range(m):
            t = low[k] + q * step[k]
            z = (abs(t) - centre) / spread
            f[q] = table[k, q] + base + log_step - 0.5 * z * z + (logs[0] if t > 0.0 else logs[2])
            top = max(top, f[q])
        own[:] = 0.0
        away = 0.0
        for q in range(m):
            t = low[k] + q * step[k]
            f[q] = np.exp(f[q] - top)
            own[0 if t > 0.0 else 2] += f[q]
            away += f[q] * (abs(t) - centre) ** 2
        own[1], own[3] = np.exp(coin - top), np.exp(follower - top)
        total = own.sum()
        value += np.log(total) + top
        square += away / total
        number += own / total
        if write:
            types[k] = own / total
            posterior[k, :m] = f[:m] / total
            posterior[k, m:] = 0.0
    return number, square, value


@compiled
def find_polynomials(weight: Floats, low: float, step: float, m: int, one: Floats, two: Floats) -> None:
    """Set the first two orthonormal polynomials in θ at the nodes, under their weights and what is missing at 0."""
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
    two[:m] /= np.sqrt(max(norm, 1e-12))


@compiled
def find_contributions(
    first: int, last: int, starts: Indices, a: Ints, b: Ints, n: Floats, s: Floats, weight: Floats, R: Floats,
    temper: float, low: Floats, step: Floats, size: Indices, posterior: Floats, strength: float, full: bool,
    stretch: Floats, information: Floats, stretched: Floats, rows: Floats,
) -> None:  # fmt: skip
    """Add what annotators first … last−1 say of the scores, row 0 for the first of them.

    Rows of u_k = Σ_c w E[h (s − n p)] (e_a − e_b), and of the same with θ for h and w = 1. Where `full`, for the
    polynomials φ_j of `find_polynomials`, also rows of E[φ_j h (s − n p)] (2) and of E[φ_j θ (s − n p)]/dispersion (2):
    Cov(u_k, dℓ_k/dR) is about the sum of their products. `information` gets Σ w n E[h θ p (1 − p)] (e_a − e_b)(…)′,
    `stretched` Σ n E[θ² p (1 − p)] (e_a − e_b)(…)′ times `stretch`.
    """
    one, two = np.empty(MOST_NODES), np.empty(MOST_NODES)
    pull, theta, known = np.empty(MOST_NODES), np.empty(MOST_NODES), np.empty((4, MOST_NODES))
    for k in range(first, last):
        m, row, lo = size[k], k - first, low[k]
        find_polynomials(posterior[k], lo, step[k], m, one, two)
        for q in range(m):
            t = lo + q * step[k]
            pull[q], theta[q] = posterior[k, q] * pull_of(t, strength), posterior[k, q] * t
            known[0, q], known[1, q] = pull[q] * one[q], pull[q] * two[q]
            known[2, q], known[3, q] = theta[q] * one[q], theta[q] * two[q]
        total_pull, total_theta, totals = pull[:m].sum(), theta[:m].sum(), known[:, :m].sum(axis=1)
        for c in range(starts[k], starts[k + 1]):
            i, j = a[c], b[c]
            d = min(max(R[i] - R[j], -FURTHEST), FURTHEST)
            e, ratio = np.exp(lo * d), np.exp(step[k] * d)
            u = u1 = v = v1 = x1 = x2 = y1 = y2 = 0.0
            for q in range(m):
                p = e / (1.0 + e)
                e *= ratio
                u += pull[q] * p
                u1 += theta[q] * p
                if full:
                    t, variance = lo + q * step[k], p * (1.0 - p)
                    v += pull[q] * t * variance
                    v1 += theta[q] * t * variance
                    x1 += known[0, q] * p
                    x2 += known[1, q] * p
                    y1 += known[2, q] * p
                    y2 += known[3, q] * p
            w = 1.0 - strength + strength * weight[c]
            u, u1 = w * (s[c] * total_pull - n[c] * u), s[c] * total_theta - n[c] * u1
            rows[0, row, i] += u
            rows[0, row, j] -= u
            rows[1, row, i] += u1
            rows[1, row, j] -= u1
            if full:
                rest = s[c] * totals - n[c] * np.array([x1, x2, y1, y2])
                for term in range(4):
                    own = rest[term] * (w if term < OF_SCORES else temper)
                    rows[2 + term, row, i] += own
                    rows[2 + term, row, j] -= own
                v *= w * n[c]
                information[i, i] += v
                information[j, j] += v
                information[i, j] -= v
                information[j, i] -= v
                v1 *= n[c] * (stretch[i] - stretch[j])
                stretched[i] += v1
                stretched[j] -= v1


@compiled
def share_information(
    first: int, last: int, starts: Indices, a: Ints, b: Ints, n: Floats, weight: Floats, odds: Floats,
    temper: float, pulled: Floats, square: Floats, information: Floats, share: Floats, by_vote: Floats,
) -> None:  # fmt: skip
    """Set the share of each annotator in the information on each model, shape (last − first, n_models).

    Where it is large, too few annotators are left to learn from, and the votes are added to `by_vote` as independent.
    `odds` are log odds of each cell.
    """
    for k in range(first, last):
        row = k - first
        for c in range(starts[k], starts[k + 1]):
            p = 1.0 / (1.0 + np.exp(-min(max(odds[c], -30.0), 30.0)))
            own = weight[c] * n[c] * pulled[k] * p * (1.0 - p)
            share[row, a[c]] += own / information[a[c]]
            share[row, b[c]] += own / information[b[c]]
        for c in range(starts[k], starts[k + 1]):
            most = max(share[row, a[c]], share[row, b[c]])
            if most > ENOUGH_SHARE:
                p = 1.0 / (1.0 + np.exp(-min(max(odds[c], -30.0), 30.0)))
                part = min((most - ENOUGH_SHARE) / (LARGEST_SHARE - ENOUGH_SHARE), 1.0)
                own = part * weight[c] ** 2 * n[c] * square[k] * p * (1.0 - p) / temper
                by_vote[a[c], a[c]] += own
                by_vote[b[c], b[c]] += own
                by_vote[a[c], b[c]] -= own
                by_vote[b[c], a[c]] -= own
