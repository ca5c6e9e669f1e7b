"""Loops over annotators' cells for `favouritism`, compiled. A cell's log-likelihoods are at the nodes of ability."""

import math

import numpy as np

from app.rating.data.arrays import Floats, Indices, Ints
from app.rating.data.compiled import compiled
from app.rating.detection.kernels import FEW, ROOM, take_log


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
        up = math.exp(y)
        out[i] = net * y + called_even - n * math.log(up + 1.0 / up + evenness)


@compiled
def with_opinion(
    first: int, last: int, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats, R: Floats,
    ability: Floats, log_weight: Floats, evenness: float, others: Floats, member: Floats,
    shift: Floats, log_shift: Floats, raised: Floats,
) -> float:  # fmt: skip
    """Log-likelihood of cells first … last−1 of an honest annotator who holds some models to be better or worse.

    The models are those with 1 in `member` (0 for the rest); by how much is drawn from `shift` with log weights
    `log_shift`. others: log-likelihood of the cells with both models or neither among them, at each ability;
    raised: e^{shift · ability / 2}, shape (shifts, abilities).
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
        up[:] = np.exp((0.5 * side * d) * ability)  # of the member over the other
        largest = n * (0.5 * ability.max() * (abs(d) + shift.max()) + math.log(2.0 + evenness))
        many = n > FEW or n != math.floor(n) or largest > ROOM
        if not many:
            if largest > room:
                take_log(product, log)
                room = ROOM
            room -= largest
        put_denominators(n, up, raised, evenness, many, product, log)
    take_log(product, log)
    by_shift, called_even = np.empty(len(shift)), ties * math.log(evenness)
    for t in range(len(shift)):
        log[t] += (slope + lean * shift[t]) * ability + called_even
        by_shift[t] = log_mean_exp(log[t], log_weight)
    return log_mean_exp(by_shift, log_shift)


@compiled
def put_denominators(
    n: float, up: Floats, raised: Floats, evenness: float, many: bool, product: Floats, log: Floats
) -> None:
    """Multiply `product` by a cell's denominators, to the power n; where these are `many`, subtract them from `log`."""
    for t in range(raised.shape[0]):
        for i in range(len(up)):
            both = up[i] * raised[t, i] + 1.0 / (up[i] * raised[t, i]) + evenness
            if many:
                log[t, i] -= n * math.log(both)
                continue
            for _ in range(int(n)):
                product[t, i] *= both


@compiled
def number_models(first: int, last: int, model_a: Ints, model_b: Ints, place: Indices, touched: Indices) -> int:
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
def meeting(a: int, b: int, rank: Indices) -> tuple[int, int]:
    """Rank of the better one of two models, and how many ranks below it the other is."""
    return min(rank[a], rank[b]), abs(rank[a] - rank[b])


@compiled
def gather(
    first: int, last: int, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats, R: Floats,
    ability: Floats, evenness: float, follow: Floats, log_always: float, log_slip: float,
    rank: Indices, place: Indices, total: Floats, own: Floats, forced: Floats, within: Floats,
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
        upper, distance = meeting(a, b, rank)
        if distance < within.shape[1]:
            within[upper, distance, :nodes] += 2.0 * one
            within[upper, distance, nodes] += up + down
        followed += follow[cell]
    return followed


@compiled
def take_out(own: Floats, lift: Floats) -> float:
    """Set `lift` to 1/likelihood of each model's cells, e⁶⁰⁰ at most; returns the largest one's logarithm."""
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
    """Log of how much likelier an honest annotator's other votes are than all: without `theirs`, 1/`lift`.

    belief: probability of each ability, given all votes. Where `lift` is not `safe`, `theirs` is read instead.
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
    """Add model `last` of the ranking to a group from `first` on; returns what that adds for and against.

    row: of the model in `own`, `lifts`, `forced`. theirs: honest log-likelihood of the cells in which one of the group
    met another model; lift: 1/that likelihood, kept up only where it is `safe`.
    """
    nodes = len(theirs)
    theirs += own[row]
    if safe:
        lift *= lifts[row]
    good, bad = forced[row, 0], forced[row, 1]
    for upper in range(first, last):  # votes among themselves are honest votes
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
    R: Floats, ability: Floats, log_weight: Floats, evenness: Floats, follow: Floats, log_always: float,
    log_slip: float, order: Indices, widest: int, shift: Floats, log_shift: Floats,
    favour: Floats, against: Floats, mimic: Floats, groups: Floats,
) -> None:  # fmt: skip
    """Set the rows of annotators first … last−1 of log-likelihood ratios against "honest", (annotators, models).

    "Honest" is the better of "as the crowd" and "with an own opinion of the models in question" (for m neighbours the
    shifts are divided by √m: so many opinions that point the same way).
    favour: always for the model and honest elsewhere; against: always against it; mimic: always for it and following
    the ranking elsewhere (`follow`: log-likelihood of each cell then). Where the two never met, nothing is set.
    groups: Σ over 2 to `widest` neighbours in the ranking (`order`) that begin with the model of the likelihood ratios
    of "always for" and of "always against them, when met with others" (not logs); widest 1: no groups. evenness: one
    for each annotator.
    """
    n_models, nodes = len(R), len(ability)
    doubted = math.log(n_models)  # from which a ratio counts in the mean over models, and an opinion is considered
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
        begin, end, v = starts[k], starts[k + 1], evenness[k]
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
        for cell in range(begin, end):  # not all of it: it is large, and this annotator wrote to little of it
            upper, distance = meeting(model_a[cell], model_b[cell], rank)
            if distance < widest:
                within[upper, distance] = 0.0


@compiled
def weigh_groups(
    begin: int, end: int, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats, R: Floats,
    ability: Floats, log_weight: Floats, evenness: float, order: Indices, shift: Floats, log_shift: Floats,
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
                    begin, end, model_a, model_b, win, tie, loss, R, ability, log_weight, evenness, total - theirs,
                    member, shift / math.sqrt(len(members)), log_shift, raised[len(members) - 1],
                ) - honest)  # fmt: skip
                member[members] = 0.0
            out[order[upper]] += math.exp(min(rest + good, 300.0)) + math.exp(min(rest + bad, 300.0))
