"""Loops over annotators' cells for `favouritism`, compiled. A cell's log-likelihoods are at the nodes of ability."""

import math

import numpy as np
from numpy.typing import NDArray

from app.rating.compiled import compiled
from app.rating.sums import Floats

Ints = NDArray[np.int32]
Starts = NDArray[np.int64]


@compiled
def log_mean_exp(values: Floats, log_weight: Floats) -> float:
    """Log of Σ weight·exp(value)."""
    top = -np.inf
    for i in range(len(values)):
        top = max(top, values[i] + log_weight[i])
    total = 0.0
    for i in range(len(values)):
        total += math.exp(values[i] + log_weight[i] - top)
    return top + math.log(total)


@compiled
def honest_cell(win: float, tie: float, loss: float, d: float, ability: Floats, evenness: float, out: Floats) -> None:
    """Set `out` to one cell's log-likelihood at every ability."""
    n, net = win + tie + loss, win - loss
    called_even = tie * math.log(evenness)
    for i in range(len(ability)):
        y = 0.5 * ability[i] * d
        out[i] = net * y + called_even - n * math.log(math.exp(y) + math.exp(-y) + evenness)


@compiled
def with_opinion(
    first: int, last: int, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats, R: Floats,
    ability: Floats, log_weight: Floats, evenness: float, others: Floats, member: Floats,
    shift: Floats, log_shift: Floats,
) -> float:  # fmt: skip
    """Log-likelihood of cells first … last−1 of an honest annotator who holds some models to be better or worse.

    The models are those with 1 in `member` (0 for the rest); by how much is drawn from `shift` with log weights
    `log_shift`. others: log-likelihood of the cells with both models or neither among them, at each ability.
    """
    by_shift, one = np.empty(len(shift)), np.empty(len(ability))
    for t in range(len(shift)):
        log = others.copy()
        for cell in range(first, last):
            a, b = model_a[cell], model_b[cell]
            side = member[a] - member[b]
            if side != 0.0:
                d = R[a] - R[b] + shift[t] * side
                honest_cell(win[cell], tie[cell], loss[cell], d, ability, evenness, one)
                log += one
        by_shift[t] = log_mean_exp(log, log_weight)
    return log_mean_exp(by_shift, log_shift)


@compiled
def number_models(first: int, last: int, model_a: Ints, model_b: Ints, place: Starts, touched: Starts) -> int:
    """Give the models of cells first … last−1 their `place` (−1 before), noted in `touched`; returns how many."""
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
    ability: Floats, evenness: float, follow: Floats, log_always: float, log_slip: float,
    rank: Starts, place: Starts, total: Floats, own: Floats, forced: Floats, within: Floats,
) -> float:  # fmt: skip
    """Add up cells first … last−1; returns their log-likelihood for one who follows the ranking.

    total: honest log-likelihood; own: each model's part of it; forced: of each model's cells, if always for it, always
    against it, and following the ranking; within, by upper model's rank and distance: what cells of two near models
    have counted twice in own and in forced.
    """
    nodes, followed = len(ability), 0.0
    one = np.empty(nodes)
    for cell in range(first, last):
        a, b = model_a[cell], model_b[cell]
        honest_cell(win[cell], tie[cell], loss[cell], R[a] - R[b], ability, evenness, one)
        up = win[cell] * log_always + (tie[cell] + loss[cell]) * log_slip
        down = loss[cell] * log_always + (tie[cell] + win[cell]) * log_slip
        total += one
        own[place[a]] += one
        own[place[b]] += one
        for model, good, bad in ((a, up, down), (b, down, up)):
            forced[place[model], 0] += good
            forced[place[model], 1] += bad
            forced[place[model], 2] += follow[cell]
        upper, distance = min(rank[a], rank[b]), abs(rank[a] - rank[b])
        if distance < within.shape[1]:
            within[upper, distance, :nodes] += 2.0 * one
            within[upper, distance, nodes] += up + down
        followed += follow[cell]
    return followed


@compiled
def group_parts(
    first: int, last: int, order: Starts, place: Starts, own: Floats, forced: Floats, within: Floats, theirs: Floats
) -> tuple[float, float]:
    """Add model `last` of the ranking to a group from `first` on, in `theirs`; returns what that adds for and against.

    theirs: honest log-likelihood of the cells in which one of the group met another model.
    """
    nodes, row = len(theirs), place[order[last]]  # −1, the empty last row, for a model not met
    theirs += own[row]
    good, bad = forced[row, 0], forced[row, 1]
    for upper in range(first, last):  # votes among themselves are honest votes
        theirs -= within[upper, last - upper, :nodes]
        good -= within[upper, last - upper, nodes]
        bad -= within[upper, last - upper, nodes]
    return good, bad


@compiled
def compare_models(
    first: int, last: int, starts: Starts, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats,
    R: Floats, ability: Floats, log_weight: Floats, evenness: Floats, follow: Floats, log_always: float,
    log_slip: float, order: Starts, widest: int, shift: Floats, log_shift: Floats,
    favour: Floats, against: Floats, mimic: Floats, groups: Floats,
) -> None:  # fmt: skip
    """Set the rows of annotators first … last−1 of log-likelihood ratios against "honest", (annotators, models).

    "Honest" is the better of "as the crowd" and "with an own opinion of the models in question" (for m neighbours the
    shifts are divided by √m: so many opinions that point the same way).
    favour: always for the model and honest elsewhere; against: always against it; mimic: always for it and following
    the ranking elsewhere (`follow`: log-likelihood of each cell then). Where the two never met, nothing is set.
    groups: Σ over 2 to `widest` neighbours in the ranking (`order`) that begin with the model of the likelihood ratios
    of "always for" and of "always against them, when met with others" (not logs). evenness: one for each annotator.
    """
    n_models, nodes = len(R), len(ability)
    doubted = math.log(n_models)  # from which a ratio counts in the mean over models, and an opinion is considered
    place, rank = np.full(n_models, -1), np.full(n_models, -1)
    touched = np.empty(n_models, dtype=np.int64)
    within = np.empty((len(order), widest, nodes + 1))
    member = np.zeros(n_models)
    rank[order] = np.arange(len(order))
    for k in range(first, last):
        begin, end, v = starts[k], starts[k + 1], evenness[k]
        count = number_models(begin, end, model_a, model_b, place, touched)
        total, own, forced = np.zeros(nodes), np.zeros((count + 1, nodes)), np.zeros((count + 1, 3))
        within[:] = 0.0
        followed = gather(
            begin, end, model_a, model_b, win, tie, loss, R, ability, v, follow, log_always, log_slip,
            rank, place, total, own, forced, within,
        )  # fmt: skip
        honest = log_mean_exp(total, log_weight)
        for row in range(count):
            model, others = touched[row], total - own[row]
            rest = log_mean_exp(others, log_weight) - honest
            by_ranking = followed - forced[row, 2] + forced[row, 0] - honest
            excuse = 0.0
            if max(rest + max(forced[row, 0], forced[row, 1]), by_ranking) > doubted:
                member[model] = 1.0
                excuse = max(0.0, with_opinion(
                    begin, end, model_a, model_b, win, tie, loss, R, ability, log_weight, v, others, member,
                    shift, log_shift,
                ) - honest)  # fmt: skip
                member[model] = 0.0
            favour[k, model] = rest + forced[row, 0] - excuse
            against[k, model] = rest + forced[row, 1] - excuse
            mimic[k, model] = by_ranking - excuse
        weigh_groups(
            begin, end, model_a, model_b, win, tie, loss, R, ability, log_weight, v, order, shift, log_shift,
            place, own, forced, within, member, total, honest, doubted, groups[k],
        )  # fmt: skip
        place[touched[:count]] = -1


@compiled
def weigh_groups(
    begin: int, end: int, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats, R: Floats,
    ability: Floats, log_weight: Floats, evenness: float, order: Starts, shift: Floats, log_shift: Floats,
    place: Starts, own: Floats, forced: Floats, within: Floats, member: Floats, total: Floats, honest: float,
    doubted: float, out: Floats,
) -> None:  # fmt: skip
    """Add one annotator's likelihood ratios for and against every group of neighbours to `out`, shape (n_models,)."""
    for upper in range(len(order)):
        if place[order[upper]] < 0:
            continue
        theirs, good, bad = np.zeros(len(ability)), 0.0, 0.0
        for lower in range(upper, min(upper + within.shape[1], len(order))):
            more_good, more_bad = group_parts(upper, lower, order, place, own, forced, within, theirs)
            good, bad = good + more_good, bad + more_bad
            if lower == upper or place[order[lower]] < 0:
                continue
            rest = log_mean_exp(total - theirs, log_weight) - honest
            if rest + max(good, bad) > doubted:
                members = order[upper : lower + 1]
                member[members] = 1.0
                rest -= max(0.0, with_opinion(
                    begin, end, model_a, model_b, win, tie, loss, R, ability, log_weight, evenness, total - theirs,
                    member, shift / math.sqrt(len(members)), log_shift,
                ) - honest)  # fmt: skip
                member[members] = 0.0
            out[order[upper]] += math.exp(min(rest + good, 300.0)) + math.exp(min(rest + bad, 300.0))
