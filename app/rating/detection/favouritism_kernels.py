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
    win: float, tie: float, loss: float, d: float, ability: Floats, tie_propensity: float, out: Floats
) -> None:
    """Set `out` to one cell's log-likelihood at every ability."""
    n, net = win + tie + loss, win - loss
    called_even = tie * math.log(tie_propensity)
    for i in range(len(ability)):
        y = 0.5 * ability[i] * d
        up = math.exp(y)
        out[i] = net * y + called_even - n * math.log(up + 1.0 / up + tie_propensity)


@compiled
def with_opinion(
    first: int, last: int, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats, R: Floats,
    ability: Floats, log_weight: Floats, tie_propensity: float, others: Floats, member: Floats,
    shift: Floats, log_shift: Floats, raised: Floats,
) -> float:  # fmt: skip
    """Return the log-likelihood of cells first … last−1 for an honest annotator with an own opinion of some models.

    These models have 1 in `member`, the others 0. The opinion shifts their scores by a value of `shift`, with log
    weights `log_shift`. others: log-likelihood, at each ability, of the cells with none or two of these models; raised:
    e^{shift · ability / 2}, shape (shifts, abilities).
    """
    log, product, up = np.empty(raised.shape), np.ones(raised.shape), np.empty(len(ability))
    log[:] = others
    slope, lean, ties, room = 0.0, 0.0, 0.0, ROOM
    for cell in range(first, last):
        a, b = model_a[cell], model_b[cell]
        side = member[a] - member[b]
        if side == 0.0:
            continue
        d, n = R[a] - R[b], win[cell] + tie[cell] + loss[cell]
        slope += 0.5 * (win[cell] - loss[cell]) * d
        lean += 0.5 * (win[cell] - loss[cell]) * side
        ties += tie[cell]
        up[:] = np.exp((0.5 * side * d) * ability)  # odds of the member against the other model
        largest = n * (0.5 * ability.max() * (abs(d) + shift.max()) + math.log(2.0 + tie_propensity))
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
        log[t] += (slope + lean * shift[t]) * ability + called_even
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
def meeting(a: int, b: int, rank: Indices) -> tuple[int, int]:
    """Return the rank of the better of two models, and the difference of the ranks."""
    return min(rank[a], rank[b]), abs(rank[a] - rank[b])


@compiled
def gather(
    first: int, last: int, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats, R: Floats,
    ability: Floats, tie_propensity: float, follow: Floats, log_always: float, log_slip: float,
    rank: Indices, place: Indices, total: Floats, own: Floats, forced: Floats, within: Floats,
) -> float:  # fmt: skip
    """Add up cells first … last−1; return their log-likelihood for an annotator who follows the ranking.

    total: honest log-likelihood. own: the part of each model's cells. forced: log-likelihood of each model's cells for
    "always for it", "always against it" and "follows the ranking". within: by the upper model's rank and the distance,
    what the cells of two close models add twice to own and forced.
    """
    nodes, followed = len(ability), 0.0
    one = np.empty(nodes)
    for cell in range(first, last):
        a, b = model_a[cell], model_b[cell]
        honest_cell(win[cell], tie[cell], loss[cell], R[a] - R[b], ability, tie_propensity, one)
        up = win[cell] * log_always + (tie[cell] + loss[cell]) * log_slip
        down = loss[cell] * log_always + (tie[cell] + win[cell]) * log_slip
        total += one
        own[place[a]] += one
        own[place[b]] += one
        for model, good, bad in ((a, up, down), (b, down, up)):
            forced[place[model], 0] += good
            forced[place[model], 1] += bad
            forced[place[model], 2] += follow[cell]
        upper, distance = meeting(a, b, rank)
        if distance < within.shape[1]:
            within[upper, distance, :nodes] += 2.0 * one
            within[upper, distance, nodes] += up + down
        followed += follow[cell]
    return followed


@compiled
def take_out(own: Floats, lift: Floats) -> float:
    """Set `lift` to 1/likelihood of each model's cells, at most e⁶⁰⁰; return the logarithm of the largest."""
    largest = 0.0
    for row in range(own.shape[0]):
        for i in range(own.shape[1]):
            largest = max(largest, -own[row, i])
            lift[row, i] = math.exp(min(-own[row, i], ROOM))
    return largest


@compiled
def mean_without(
    theirs: Floats, lift: Floats, safe: bool, belief: Floats, total: Floats, log_weight: Floats, honest: float
) -> float:
    """Return the log ratio of the likelihoods of the votes without some cells and of all votes, for honesty.

    theirs: log-likelihood of these cells at each ability; lift: 1/that likelihood, used where it is `safe`. belief:
    probability of each ability, given all votes.
    """
    if safe:
        mean = 0.0
        for i in range(len(belief)):
            mean += belief[i] * lift[i]
        return math.log(mean)
    return log_mean_exp(total - theirs, log_weight) - honest


@compiled
def join_group(
    first: int, last: int, row: int, own: Floats, lifts: Floats, forced: Floats, within: Floats,
    theirs: Floats, lift: Floats, safe: bool,
) -> tuple[float, float]:  # fmt: skip
    """Add model `last` of the ranking to the group from `first` on; return its terms for and against the group.

    row: of the model in `own`, `lifts`, `forced`. theirs: honest log-likelihood of the cells with one model of the
    group; lift: 1/that likelihood, updated only where it is `safe`.
    """
    nodes = len(theirs)
    theirs += own[row]
    if safe:
        lift *= lifts[row]
    good, bad = forced[row, 0], forced[row, 1]
    for upper in range(first, last):  # votes between two models of the group are honest
        both = within[upper, last - upper]
        if both[nodes] != 0.0:
            for i in range(nodes):
                theirs[i] -= both[i]
                if safe:
                    lift[i] *= math.exp(both[i])
            good -= both[nodes]
            bad -= both[nodes]
    return good, bad


@compiled
def compare_models(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats,
    R: Floats, ability: Floats, log_weight: Floats, tie_propensity: Floats, follow: Floats, log_always: float,
    log_slip: float, order: Indices, widest: int, shift: Floats, log_shift: Floats,
    favour: Floats, against: Floats, mimic: Floats, groups: Floats,
) -> None:  # fmt: skip
    """Set the rows of annotators first … last−1 of the log-likelihood ratios against "honest", (annotators, models).

    "Honest" is the better of "without an own opinion" and "with an own opinion of the models in question". (For m
    neighbours the shifts are divided by √m: m opinions in the same direction.)

    favour: always for the model, honest elsewhere; against: always against it; mimic: always for it, and following the
    ranking elsewhere (`follow` is the log-likelihood of each cell then). Entries of models that the annotator never saw
    are not set. groups: Σ of the likelihood ratios (not logs) of "always for" and "always against them when they meet
    others", over groups of 2 to `widest` neighbours in the ranking (`order`) that begin with the model; widest 1 means
    no groups. tie_propensity: of each annotator.
    """
    n_models, nodes = len(R), len(ability)
    doubted = math.log(n_models)  # a ratio above it counts in the mean over models, so an own opinion is considered
    place, rank = np.full(n_models, -1), np.full(n_models, -1)
    touched = np.empty(n_models, dtype=np.int64)
    within = np.zeros((len(order), widest, nodes + 1))
    member = np.zeros(n_models)
    raised = np.empty((widest, len(shift), nodes))
    for size in range(1, widest + 1):
        for t in range(len(shift)):
            raised[size - 1, t] = np.exp((0.5 * shift[t] / math.sqrt(size)) * ability)
    rank[order] = np.arange(len(order))
    for k in range(first, last):
        begin, end, v = starts[k], starts[k + 1], tie_propensity[k]
        count = number_models(begin, end, model_a, model_b, place, touched)
        total, own, forced = np.zeros(nodes), np.zeros((count, nodes)), np.zeros((count, 3))
        followed = gather(
            begin, end, model_a, model_b, win, tie, loss, R, ability, v, follow, log_always, log_slip,
            rank, place, total, own, forced, within,
        )  # fmt: skip
        honest = log_mean_exp(total, log_weight)
        belief, lifts = np.exp(total + log_weight - honest), np.empty((count, nodes))
        largest = take_out(own, lifts)
        for row in range(count):
            model = touched[row]
            rest = mean_without(own[row], lifts[row], largest <= ROOM, belief, total, log_weight, honest)
            by_ranking = followed - forced[row, 2] + forced[row, 0] - honest
            excuse = 0.0
            if max(rest + max(forced[row, 0], forced[row, 1]), by_ranking) > doubted:
                member[model] = 1.0
                excuse = max(0.0, with_opinion(
                    begin, end, model_a, model_b, win, tie, loss, R, ability, log_weight, v, total - own[row], member,
                    shift, log_shift, raised[0],
                ) - honest)  # fmt: skip
                member[model] = 0.0
            favour[k, model] = rest + forced[row, 0] - excuse
            against[k, model] = rest + forced[row, 1] - excuse
            mimic[k, model] = by_ranking - excuse
        if widest > 1:
            weigh_groups(
                begin, end, model_a, model_b, win, tie, loss, R, ability, log_weight, v, order, shift, log_shift,
                raised, place, own, lifts, forced, within, belief, largest, member, total, honest, doubted, groups[k],
            )  # fmt: skip
        place[touched[:count]] = -1
        for cell in range(begin, end):  # reset only the entries that were written
            upper, distance = meeting(model_a[cell], model_b[cell], rank)
            if distance < widest:
                within[upper, distance] = 0.0


@compiled
def weigh_groups(
    begin: int, end: int, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats, R: Floats,
    ability: Floats, log_weight: Floats, tie_propensity: float, order: Indices, shift: Floats, log_shift: Floats,
    raised: Floats, place: Indices, own: Floats, lifts: Floats, forced: Floats, within: Floats, belief: Floats,
    largest: float, member: Floats,
    total: Floats, honest: float, doubted: float, out: Floats,
) -> None:  # fmt: skip
    """Add one annotator's likelihood ratios for and against every group of neighbours to `out`, shape (n_models,)."""
    widest, theirs, lift = within.shape[1], np.empty(len(ability)), np.empty(len(ability))
    safe = largest * widest <= ROOM
    for upper in range(len(order)):
        if place[order[upper]] < 0:
            continue
        theirs[:], lift[:], good, bad = 0.0, 1.0, 0.0, 0.0
        for lower in range(upper, min(upper + widest, len(order))):
            row = place[order[lower]]
            if row < 0:
                continue
            more_good, more_bad = join_group(upper, lower, row, own, lifts, forced, within, theirs, lift, safe)
            good, bad = good + more_good, bad + more_bad
            if lower == upper:
                continue
            rest = mean_without(theirs, lift, safe, belief, total, log_weight, honest)
            if rest + max(good, bad) > doubted:
                members = order[upper : lower + 1]
                member[members] = 1.0
                rest -= max(0.0, with_opinion(
                    begin, end, model_a, model_b, win, tie, loss, R, ability, log_weight, tie_propensity,
                    total - theirs, member, shift / math.sqrt(len(members)), log_shift, raised[len(members) - 1],
                ) - honest)  # fmt: skip
                member[members] = 0.0
            out[order[upper]] += math.exp(min(rest + good, 300.0)) + math.exp(min(rest + bad, 300.0))
