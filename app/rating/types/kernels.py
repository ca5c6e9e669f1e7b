"""Compiled loops over the annotators' cells."""

import math

import numpy as np

from app.rating.arrays import Floats, Indices, Ints, Mask
from app.rating.compiled import compiled
from app.rating.model.kernels import FURTHEST

MOST_NODES = 24
LARGEST_PRODUCT = 1e250  # of the factors of one logarithm
STEPS, NEAR = 12, 1e-6  # of the search for a mode, and its last squared length in standard deviations


@compiled
def climb(
    first: int, last: int, starts: Indices, d: Floats, side: Floats, n: Floats, s: Floats, leans: bool,
    precision: float, of_ability: float, at: Floats, information: Floats,
) -> None:  # fmt: skip
    """Maximise (θ, λ) over decided votes, θ ~ N(1, 1/of_ability), λ ~ N(0, 1/precision) or 0 without `leans`.

    information : set to that of the votes, θθ, θλ and λλ, shape (n_annotators, 3)
    """
    for k in range(first, last):
        theta, lean = at[k, 0], at[k, 1] if leans else 0.0
        for _ in range(STEPS):
            g, f, own, mixed, other = of_ability * (1.0 - theta), -precision * lean, 0.0, 0.0, 0.0
            for c in range(starts[k], starts[k + 1]):
                x = min(max(theta * d[c] + lean * side[c], -FURTHEST), FURTHEST)
                p = 1.0 / (1.0 + math.exp(-x))
                left, v = s[c] - n[c] * p, n[c] * p * (1.0 - p)
                g += left * d[c]
                f += left * side[c]
                own += v * d[c] * d[c]
                mixed += v * d[c] * side[c]
                other += v * side[c] * side[c]
            information[k, 0], information[k, 1], information[k, 2] = own, mixed, other
            a, b, e = own + of_ability, mixed if leans else 0.0, other + precision
            size = a * e - b * b
            step = (e * g - b * f) / size
            turn = (a * f - b * g) / size if leans else 0.0
            theta += min(max(step, -1.0), 1.0)
            lean += min(max(turn, -1.0), 1.0)
            if step * g + turn * f < NEAR:
                break
        at[k, 0], at[k, 1] = theta, lean


@compiled
def fill_nodes(
    first: int, last: int, starts: Indices, d: Floats, side: Floats, n: Floats, s: Floats, at: Floats, slope: Floats,
    low: Floats, step: Floats, size: Indices, leans: Floats, table: Floats,
) -> None:  # fmt: skip
    """Set table[k, q] = log ∫ P(decided votes | θ_q, λ) dΛ(λ).

    On the line λ + slope (θ − mode) the odds are a geometric series in q: a cell takes two exponentials. From the line
    a Newton step leads to the maximum, around which λ is integrated by Laplace's approximation.

    leans : variances of the two parts of the leans' law Λ, and their shares; empty where sides are not known
    """
    total, pull, known = np.empty((3, MOST_NODES))
    for k in range(first, last):
        m = size[k]
        line = at[k, 1] + slope[k] * (low[k] - at[k, 0])
        total[:m], pull[:m], known[:m] = 0.0, 0.0, 1e-9
        for c in range(starts[k], starts[k + 1]):
            way, x = d[c] + slope[k] * side[c], low[k] * d[c] + line * side[c]
            e, ratio = math.exp(x), math.exp(step[k] * way)
            for q in range(m):
                total[q] += s[c] * (x + q * step[k] * way) - n[c] * math.log(1.0 + e)
                if len(leans) > 0:
                    p = e / (1.0 + e)
                    pull[q] += (s[c] - n[c] * p) * side[c]
                    known[q] += n[c] * p * (1.0 - p) * side[c] * side[c]
                e *= ratio
        for q in range(m):
            table[k, q] = total[q]
            if len(leans) > 0:
                lean = line + slope[k] * q * step[k] + pull[q] / known[q]
                table[k, q] += 0.5 * pull[q] ** 2 / known[q] + log_lean(lean, known[q], leans)


@compiled
def log_lean(lean: float, known: float, leans: Floats) -> float:
    """Return log ∫ L dΛ / L(lean), L normal around a lean with this information, Λ the crowd's two parts."""
    total = 0.0
    for part in range(2):
        away = -0.5 * lean * lean / (leans[part] + 1.0 / known)
        total += leans[2 + part] * math.exp(max(away, -300.0)) / math.sqrt(1.0 + leans[part] * known)
    return math.log(total)


@compiled
def fill_ties(
    first: int, last: int, starts: Indices, d: Floats, side: Floats, n: Floats, ties: Floats, at: Floats,
    propensity: Floats, tied: Floats,
) -> None:  # fmt: skip
    """Set tied[k, j] = log P(votes are ties or not | propensity j), the odds being those of the annotator's mode."""
    product, log = np.ones(len(propensity)), np.log(propensity)
    for k in range(first, last):
        called, away = 0.0, 0.0
        for c in range(starts[k], starts[k + 1]):
            y = 0.5 * min(max(at[k, 0] * d[c] + at[k, 1] * side[c], -FURTHEST), FURTHEST)
            even = math.exp(y) + math.exp(-y)
            called += ties[c]
            away += ties[c] * math.log(even)
            for j in range(len(propensity)):
                if n[c] == 1.0:
                    product[j] *= 1.0 + propensity[j] / even
                else:
                    tied[k, j] -= n[c] * math.log(1.0 + propensity[j] / even)
            if product[-1] > LARGEST_PRODUCT:
                for j in range(len(propensity)):
                    tied[k, j] -= math.log(product[j])
                    product[j] = 1.0
        for j in range(len(propensity)):
            tied[k, j] += called * log[j] - away - math.log(product[j])
            product[j] = 1.0


@compiled
def add_tastes(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, d: Floats, side: Floats, n: Floats,
    s: Floats, at: Floats, inverse: Floats, taste: float, crowd: Mask, judges: Floats, out: Floats,
) -> None:  # fmt: skip
    """Add what the votes say of tastes, an own opinion u_i ~ N(0, τ²) of each model, rows of shape (5, n_annotators).

    Σ_i g_i² less its mean without tastes, g the gradient by u; the factor of τ² in it; its variance; the factor of τ²
    in the variance that tastes add to the ability; and log ∫ L(u) dN(u; 0, taste)/L(0), models taken one by
    one, without the one that it gains most of: one model alone is pushed, or buried.
    inverse: of the Hessian in (θ, λ), shape (n_annotators, 3). judges: gets the decided votes of annotators in `crowd`
    on each model, and their squares, shape (2, n_models).
    """
    size = judges.shape[1]
    gradient, information, votes, cross = np.zeros(size), np.zeros(size), np.zeros(size), np.zeros((size, 2))
    for k in range(first, last):
        for c in range(starts[k], starts[k + 1]):
            a, b = model_a[c], model_b[c]
            x = min(max(at[k, 0] * d[c] + at[k, 1] * side[c], -FURTHEST), FURTHEST)
            p = 1.0 / (1.0 + math.exp(-x))
            left, v = s[c] - n[c] * p, n[c] * p * (1.0 - p)
            gradient[a] += left
            gradient[b] -= left
            information[a] += v
            information[b] += v
            votes[a] += n[c]
            votes[b] += n[c]
            cross[a, 0] += v * d[c]
            cross[b, 0] -= v * d[c]
            cross[a, 1] += v * side[c]
            cross[b, 1] -= v * side[c]
            out[1, k] += 2.0 * v * v
        most = 0.0
        for c in range(starts[k], starts[k + 1]):
            for i in (model_a[c], model_b[c]):
                f, g = cross[i]
                moved = inverse[k, 0] * f + inverse[k, 1] * g
                lost = f * moved + g * (inverse[k, 1] * f + inverse[k, 2] * g)
                out[0, k] += gradient[i] ** 2 - information[i] + lost
                out[1, k] += information[i] ** 2
                out[2, k] += 2.0 * information[i] ** 2
                out[3, k] += moved * moved
                wider = 1.0 + taste * information[i]
                gain = 0.5 * (taste * gradient[i] ** 2 / wider - math.log(wider))
                out[4, k] += gain
                most = max(most, gain)
                judges[0, i] += votes[i] * crowd[k]
                judges[1, i] += votes[i] ** 2 * crowd[k]
                gradient[i] = information[i] = votes[i] = 0.0
                cross[i] = 0.0
        out[4, k] -= most
