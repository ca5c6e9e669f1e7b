"""Compiled loops over annotators' cells for `favouritism`. Log-likelihoods of a cell are at the nodes of ability."""

import math

import numpy as np

from app.rating.data.arrays import Floats, Indices, Ints
from app.rating.data.compiled import compiled
from app.rating.detection.kernels import FEW, ROOM, take_log


@compiled
def log_mean_exp(values: Floats, log_weight: Floats) -> float:
    """Return log Σ weight·exp(value)."""
    top = -np.inf
    for i in range(len(values)):
        top = max(top, values[i] + log_weight[i])
    total = 0.0
    for i in range(len(values)):
        total += math.exp(values[i] + log_weight[i] - top)
    return top + math.log(total)


@compiled
def honest_cell(
    win: float, tie: float, loss: float, d: float, lean: float, ability: Floats, tie_propensity: float, out: Floats
) -> None:
    """Set `out` to one cell's log-likelihood at every ability; `lean` is what the side adds to the log odds."""
    n, net = win + tie + loss, win - loss
    called_even = tie * math.log(tie_propensity)
    for i in range(len(ability)):
        y = 0.5 * (ability[i] * d + lean)
        up = math.exp(y)
        out[i] = net * y + called_even - n * math.log(up + 1.0 / up + tie_propensity)


@compiled
def with_opinion(
    first: int, last: int, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats, R: Floats,
    lean: Floats, ability: Floats, log_weight: Floats, tie_propensity: float, others: Floats, model: int,
    shift: Floats, log_shift: Floats, raised: Floats,
) -> float:  # fmt: skip
    """Return the log-likelihood of cells first … last−1 for an honest annotator with an own opinion of one model.

    The opinion shifts the model's score by a value of `shift`, with log weights `log_shift`. others: log-likelihood, at
    each ability, of the cells without the model; raised: e^{shift · ability / 2}, shape (shifts, abilities).
    """
    log, product, up = np.empty(raised.shape), np.ones(raised.shape), np.empty(len(ability))
    log[:] = others
    slope, moved, leaning, ties, room = 0.0, 0.0, 0.0, 0.0, ROOM
    for cell in range(first, last):
        a, b = model_a[cell], model_b[cell]
        if model not in (a, b):
            continue
        side = 1.0 if a == model else -1.0
        d, n = R[a] - R[b], win[cell] + tie[cell] + loss[cell]
        slope += 0.5 * (win[cell] - loss[cell]) * d
        moved += 0.5 * (win[cell] - loss[cell]) * side
        leaning += 0.5 * (win[cell] - loss[cell]) * lean[cell]
        ties += tie[cell]
        up[:] = np.exp((0.5 * side * d) * ability + 0.5 * side * lean[cell])  # odds of the model against the other
        largest = n * (
            0.5 * ability.max() * (abs(d) + shift.max()) + 0.5 * abs(lean[cell]) + math.log(2.0 + tie_propensity)
        )
        many = n > FEW or n != math.floor(n) or largest > ROOM
        if not many:
            if largest > room:
                take_log(product, log)
                room = ROOM
            room -= largest
        put_denominators(n, up, raised, tie_propensity, many, product, log)
    take_log(product, log)
    by_shift, called_even = np.empty(len(shift)), ties * math.log(tie_propensity)
    for t in range(len(shift)):
        log[t] += (slope + moved * shift[t]) * ability + leaning + called_even
        by_shift[t] = log_mean_exp(log[t], log_weight)
    return log_mean_exp(by_shift, log_shift)


@compiled
def put_denominators(
    n: float, up: Floats, raised: Floats, tie_propensity: float, many: bool, product: Floats, log: Floats
) -> None:
    """Multiply `product` by a cell's denominators to the power n; where `many`, subtract their logs from `log`."""
    for t in range(raised.shape[0]):
        for i in range(len(up)):
            both = up[i] * raised[t, i] + 1.0 / (up[i] * raised[t, i]) + tie_propensity
            if many:
                log[t, i] -= n * math.log(both)
                continue
            for _ in range(int(n)):
                product[t, i] *= both


@compiled
def number_models(first: int, last: int, model_a: Ints, model_b: Ints, place: Indices, touched: Indices) -> int:
    """Set `place` (−1 before) of the models of cells first … last−1, list them in `touched`; return their number."""
    count = 0
    for cell in range(first, last):
        for model in (model_a[cell], model_b[cell]):
            if place[model] < 0:
                place[model] = count
                touched[count] = model
                count += 1
    return count


@compiled
def gather(
    first: int, last: int, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats, R: Floats,
    lean: Floats, ability: Floats, tie_propensity: float, follow: Floats, log_always: float, log_slip: float,
    place: Indices, total: Floats, own: Floats, forced: Floats,
) -> float:  # fmt: skip
    """Add up cells first … last−1; return their log-likelihood for an annotator who follows the ranking.

    total: honest log-likelihood. own: the part of each model's cells. forced: log-likelihood of each model's cells for
    "always for it", "always against it" and "follows the ranking".
    """
    one, followed = np.empty(len(ability)), 0.0
    for cell in range(first, last):
        a, b = model_a[cell], model_b[cell]
        honest_cell(win[cell], tie[cell], loss[cell], R[a] - R[b], lean[cell], ability, tie_propensity, one)
        up = win[cell] * log_always + (tie[cell] + loss[cell]) * log_slip
        down = loss[cell] * log_always + (tie[cell] + win[cell]) * log_slip
        total += one
        own[place[a]] += one
        own[place[b]] += one
        for model, good, bad in ((a, up, down), (b, down, up)):
            forced[place[model], 0] += good
            forced[place[model], 1] += bad
            forced[place[model], 2] += follow[cell]
        followed += follow[cell]
    return followed


@compiled
def compare_models(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats,
    R: Floats, lean: Floats, ability: Floats, log_weight: Floats, tie_propensity: Floats, follow: Floats,
    log_always: float,
    log_slip: float, shift: Floats, log_shift: Floats, favour: Floats, against: Floats, mimic: Floats,
) -> None:  # fmt: skip
    """Set the rows of annotators first … last−1 of the log-likelihood ratios against "honest", (annotators, models).

    "Honest" is the better of "without an own opinion" and "with an own opinion of the model in question".

    favour: always for the model, honest elsewhere; against: always against it; mimic: always for it, and following the
    ranking elsewhere (`follow` is the log-likelihood of each cell then). Entries of models that the annotator never saw
    are not set. tie_propensity: of each annotator.
    """
    n_models, nodes = len(R), len(ability)
    doubted = math.log(n_models)  # a ratio above it counts in the mean over models, so an own opinion is considered
    place, touched = np.full(n_models, -1), np.empty(n_models, dtype=np.int64)
    raised = np.empty((len(shift), nodes))
    for t in range(len(shift)):
        raised[t] = np.exp((0.5 * shift[t]) * ability)
    for k in range(first, last):
        begin, end, v = starts[k], starts[k + 1], tie_propensity[k]
        count = number_models(begin, end, model_a, model_b, place, touched)
        total, own, forced = np.zeros(nodes), np.zeros((count, nodes)), np.zeros((count, 3))
        followed = gather(
            begin, end, model_a, model_b, win, tie, loss, R, lean, ability, v, follow, log_always, log_slip,
            place, total, own, forced,
        )  # fmt: skip
        honest = log_mean_exp(total, log_weight)
        for row in range(count):
            model = touched[row]
            others = total - own[row]
            rest = log_mean_exp(others, log_weight) - honest
            by_ranking = followed - forced[row, 2] + forced[row, 0] - honest
            excuse = 0.0
            if max(rest + max(forced[row, 0], forced[row, 1]), by_ranking) > doubted:
                excuse = max(0.0, with_opinion(
                    begin, end, model_a, model_b, win, tie, loss, R, lean, ability, log_weight, v, others, model,
                    shift, log_shift, raised,
                ) - honest)  # fmt: skip
            favour[k, model] = rest + forced[row, 0] - excuse
            against[k, model] = rest + forced[row, 1] - excuse
            mimic[k, model] = by_ranking - excuse
        place[touched[:count]] = -1
