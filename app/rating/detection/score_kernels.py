"""Compiled loops over annotators' cells for `score_errors`."""

import math

import numpy as np

from app.rating.data.arrays import Floats, Indices, Ints, Mask
from app.rating.data.compiled import compiled
from app.rating.detection.favouritism_kernels import log_mean_exp
from app.rating.detection.habits_kernels import shares
from app.rating.solver.kernels import pair_of

WORTH = 9.0  # squared standard errors: of fewer than three the errors of the scores explain no votes
MOVES = np.linspace(-3.0, 3.0, 9)  # standard errors of the scores
LOG_MOVES = -0.5 * MOVES**2 - np.log(np.exp(-0.5 * MOVES**2).sum())


@compiled
def list_models(first: int, last: int, model_a: Ints, model_b: Ints, seen: Mask, models: Indices) -> int:
    """Set `models` to the distinct models of cells first … last−1, and return their number; `seen` stays false."""
    many = 0
    for cell in range(first, last):
        for model in pair_of(model_a, model_b, cell):
            if not seen[model]:
                seen[model], models[many] = True, model
                many += 1
    for i in range(many):
        seen[models[i]] = False
    return many


@compiled
def add_gradients(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, n: Floats, s: Floats, R: Floats,
    information: Floats, meat: Floats,
) -> None:  # fmt: skip
    """Add the information, and the outer product of each gradient, of annotators first … last−1."""
    gradient, seen, models = np.zeros(len(R)), np.zeros(len(R), dtype=np.bool_), np.empty(len(R), dtype=np.int64)
    for k in range(first, last):
        many = list_models(starts[k], starts[k + 1], model_a, model_b, seen, models)
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            p = 1.0 / (1.0 + math.exp(-(R[a] - R[b])))
            w = n[cell] * p * (1.0 - p)
            information[a, a] += w
            information[b, b] += w
            information[a, b] -= w
            information[b, a] -= w
            gradient[a] += s[cell] - n[cell] * p
            gradient[b] -= s[cell] - n[cell] * p
        for i in range(many):
            for j in range(many):
                meat[models[i], models[j]] += gradient[models[i]] * gradient[models[j]]
        for i in range(many):
            gradient[models[i]] = 0.0


@compiled
def add_doubts(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats,
    R: Floats, lean: Floats, asked: Mask, typical: float, tie_propensity: Floats, errors: Floats, ability: Floats,
    out: Floats,
) -> None:  # fmt: skip
    """Set `out`, shape (n_annotators, abilities), to what the scores' errors add to log-likelihoods.

    log Σ_t w_t L(a | R + t b) / L(a | R), w standard normal, b = C g/√(g′C g): of all moves of the scores that are a
    standard error long, the one that explains most of the annotator's votes at the typical ability. g: gradient by R.
    asked: the annotators to do so for, shape (n_annotators,).
    """
    size = len(R)
    gradient, move, seen = np.zeros(size), np.zeros(size), np.zeros(size, dtype=np.bool_)
    models = np.empty(size, dtype=np.int64)
    for k in range(first, last):
        if not asked[k]:
            continue
        begin, end, v = starts[k], starts[k + 1], tie_propensity[k]
        many = list_models(begin, end, model_a, model_b, seen, models)
        for cell in range(begin, end):
            a, b = pair_of(model_a, model_b, cell)
            lead, _, _ = shares(0.5 * (typical * (R[a] - R[b]) + lean[cell]), v)
            surplus = 0.5 * typical * (win[cell] - loss[cell] - (win[cell] + tie[cell] + loss[cell]) * lead)
            gradient[a] += surplus
            gradient[b] -= surplus
        gain = 0.0
        for i in range(many):
            for j in range(many):
                move[models[i]] += errors[models[i], models[j]] * gradient[models[j]]
            gain += gradient[models[i]] * move[models[i]]
        if gain >= WORTH:
            move /= math.sqrt(gain)
            add_moved(begin, end, model_a, model_b, win, tie, loss, R, lean, v, move, ability, out[k])
        for i in range(many):
            gradient[models[i]] = move[models[i]] = 0.0


@compiled
def add_moved(
    first: int, last: int, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats, R: Floats,
    lean: Floats, tie_propensity: float, move: Floats, ability: Floats, out: Floats,
) -> None:  # fmt: skip
    """Set `out` to log Σ_t w_t L(a | R + t · move) − log L(a | R) at every ability, of cells first … last−1."""
    log = np.zeros((len(MOVES), len(ability)))
    for cell in range(first, last):
        a, b = pair_of(model_a, model_b, cell)
        n, net = win[cell] + tie[cell] + loss[cell], win[cell] - loss[cell]
        for t in range(len(MOVES)):
            d = R[a] - R[b] + MOVES[t] * (move[a] - move[b])
            for i in range(len(ability)):
                y = 0.5 * (ability[i] * d + lean[cell])
                u = math.exp(-abs(y))
                log[t, i] += net * y - n * (abs(y) + math.log1p(u * u + tie_propensity * u))
    for i in range(len(ability)):
        out[i] = log_mean_exp(log[:, i], LOG_MOVES) - log[len(MOVES) // 2, i]
