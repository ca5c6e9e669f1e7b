import math
from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Indices, Ints, Mask, log_sum_exp
from app.rating.compiled import compiled
from app.rating.detection.mixture import FEW, ROOM, raise_odds, reach, take_log
from app.rating.detection.null_model import ABILITY, FIRST_HONEST, LOG_ALWAYS, LOG_SLIP, NullModel, follow
from app.rating.fit.rows import CellRows
from app.rating.fit.scale import ELO_PER_NATURAL
from app.rating.threads import map_parts
from app.rating.votes.cells import Cells

OPINION_SD = 100.0 / ELO_PER_NATURAL  # sd of an honest annotator's own opinion of a model around its score
SHIFT = np.linspace(-4.0, 4.0, 17) * OPINION_SD


@dataclass(frozen=True)
class Favouritism:
    """Log-likelihood ratios against "honest", shape (n_annotators, n_models); 0 for models not seen.

    Attributes
    ----------
    favour : always for the model, honest about all others
    against : always against it, honest about all others
    mimic : always for it, following the ranking about all others
    """

    favour: Floats
    against: Floats
    mimic: Floats


def find_favouritism(cells: Cells, R: Floats, null_model: NullModel, lean: Floats | None = None) -> Favouritism:
    """Compare, for every annotator and model, "always for it" and "always against it" with "honest".

    An honest minority opinion is not evidence. An annotator who only likes a model better than others do still lets it
    lose, and every loss and tie speaks for honesty. Votes that an own opinion of the model explains as well count as
    honest; opinions are normal around the model's score with a standard deviation of 100 Elo points.

    Parameters
    ----------
    cells : as for `fit_null_model`
    R : as for `fit_null_model`, NaN for models without a score
    null_model : from `fit_null_model`
    lean : as for `fit_null_model`

    Notes
    -----
    The ability is integrated out, so the annotator's votes on other models count. The tie propensity is taken at its
    posterior mean. O(n_cells × 24 + n_annotators × n_models × 120).
    """
    win, loss = cells.wins_a, cells.wins_b
    R = np.nan_to_num(R)
    lean = np.zeros(len(win)) if lean is None else lean
    rows = CellRows(cells)
    followed = follow(cells, R)
    favour, against, mimic = (np.zeros((cells.n_annotators, cells.n_models)) for _ in range(3))
    log_shift = -0.5 * (SHIFT / OPINION_SD) ** 2
    log_shift -= log_sum_exp(log_shift)
    log_weight = log_sum_exp(null_model.log_weight)
    map_parts(
        lambda part: compare_models(
            *part, rows.starts, cells.model_a, cells.model_b, win, cells.ties, loss, R, lean,
            ABILITY[FIRST_HONEST:], log_weight, null_model.tie_propensity, followed, LOG_ALWAYS, LOG_SLIP,
            SHIFT, log_shift, favour, against, mimic,
        ),
        rows.parts,
    )  # fmt: skip
    return Favouritism(favour, against, mimic)


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
        put_shifted(n, up, raised, tie_propensity, many, product, log)
    take_log(product, log)
    by_shift, called_even = np.empty(len(shift)), ties * math.log(tie_propensity)
    for t in range(len(shift)):
        log[t] += (slope + moved * shift[t]) * ability + leaning + called_even
        by_shift[t] = log_mean_exp(log[t], log_weight)
    return log_mean_exp(by_shift, log_shift)


@compiled
def put_shifted(
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
def put_factor(
    factor: Floats, largest: float, row: int, product: Floats, log: Floats, room: Floats, logged: Mask
) -> None:
    """Multiply a row of `product` by a factor of up to e^largest; take the product's logarithm first without room."""
    if largest > room[row]:
        take_log(product[row : row + 1], log[row : row + 1])
        room[row], logged[row] = ROOM, True
    room[row] -= largest
    for i in range(len(factor)):
        product[row, i] *= factor[i]


@compiled
def gather(
    first: int, last: int, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats, R: Floats,
    lean: Floats, ability: Floats, raised: Floats, lowered: Floats, tie_propensity: float, follow: Floats,
    log_always: float, log_slip: float, place: Indices, log: Floats, product: Floats, logged: Mask, forced: Floats,
) -> float:  # fmt: skip
    """Add up cells first … last−1; return their log-likelihood for an annotator who follows the ranking.

    The honest likelihood is e^log / product at each ability: of each model's cells and, in the last row, of all cells.
    logged: rows whose `log` is not 0. forced: log-likelihood of each model's cells for "always for it", "always against
    it" and "follows the ranking".
    """
    nodes, everything, room = len(ability), len(log) - 1, np.full(len(log), ROOM)
    one, both, factor, followed = np.empty(nodes), np.empty(nodes), np.empty(nodes), 0.0
    steepest, widest, rare = ability.max(), math.log(2.0 + tie_propensity), max(0.0, -math.log(tie_propensity))
    for cell in range(first, last):
        a, b, n, net = model_a[cell], model_b[cell], win[cell] + tie[cell] + loss[cell], win[cell] - loss[cell]
        largest = n * (2.0 * reach(steepest, R, a, b, lean[cell]) + widest) + tie[cell] * rare
        if n > FEW or n != math.floor(n) or net != math.floor(net) or largest > ROOM:
            honest_cell(win[cell], tie[cell], loss[cell], R[a] - R[b], lean[cell], ability, tie_propensity, one)
            for row in (place[a], place[b], everything):
                log[row] += one
                logged[row] = True
        else:
            up = math.exp(0.5 * lean[cell])
            factor[:] = tie_propensity ** -tie[cell] if tie[cell] > 0.0 else 1.0
            for i in range(nodes):
                one[i], both[i] = up * raised[a, i] * lowered[b, i], lowered[a, i] * raised[b, i] / up
            against = both if net > 0.0 else one
            for _ in range(int(abs(net))):
                factor *= against
            both += one + tie_propensity
            for _ in range(int(n)):
                factor *= both
            for row in (place[a], place[b], everything):
                put_factor(factor, largest, row, product, log, room, logged)
        good = win[cell] * log_always + (tie[cell] + loss[cell]) * log_slip
        bad = loss[cell] * log_always + (tie[cell] + win[cell]) * log_slip
        for row, always, never in ((place[a], good, bad), (place[b], bad, good)):
            forced[row, 0] += always
            forced[row, 1] += never
            forced[row, 2] += follow[cell]
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
    raised, lowered = raise_odds(R, ability)
    shifted = np.exp(0.5 * np.outer(shift, ability))
    for k in range(first, last):
        begin, end, v = starts[k], starts[k + 1], tie_propensity[k]
        count = number_models(begin, end, model_a, model_b, place, touched)
        log, product, forced = np.zeros((count + 1, nodes)), np.ones((count + 1, nodes)), np.zeros((count, 3))
        logged = np.zeros(count + 1, dtype=np.bool_)
        followed = gather(
            begin, end, model_a, model_b, win, tie, loss, R, lean, ability, raised, lowered, v, follow, log_always,
            log_slip, place, log, product, logged, forced,
        )  # fmt: skip
        take_log(product[count:], log[count:])
        total = log[count]
        honest, top = log_mean_exp(total, log_weight), (total + log_weight).max()
        share = np.exp(total + log_weight - top)
        for row in range(count):
            model, here = touched[row], slice(row, row + 1)
            if logged[row]:
                take_log(product[here], log[here])
                left = log_mean_exp(total - log[row], log_weight)
            else:  # the product's factors are at least 1, so nodes without a share add nothing
                likely = 0.0
                for i in range(nodes):
                    likely += share[i] * product[row, i]
                left = top + math.log(likely)
            rest, by_ranking = left - honest, followed - forced[row, 2] + forced[row, 0] - honest
            excuse = 0.0
            if max(rest + max(forced[row, 0], forced[row, 1]), by_ranking) > doubted:
                take_log(product[here], log[here])
                excuse = max(0.0, with_opinion(
                    begin, end, model_a, model_b, win, tie, loss, R, lean, ability, log_weight, v, total - log[row],
                    model, shift, log_shift, shifted,
                ) - honest)  # fmt: skip
            favour[k, model] = rest + forced[row, 0] - excuse
            against[k, model] = rest + forced[row, 1] - excuse
            mimic[k, model] = by_ranking - excuse
        place[touched[:count]] = -1
