"""Annotators who push one model, or bury it: each alone, and the groups that they form."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, gammaln

from app.rating.arrays import Floats, Indices, Ints, Mask, log_sum_exp, sum_by
from app.rating.compiled import compiled
from app.rating.detection.null_model import ABILITY, FIRST_HONEST, NullModel
from app.rating.fit.rows import CellRows
from app.rating.settings import EVEN_ODDS
from app.rating.threads import map_parts
from app.rating.units import ELO_PER_NATURAL
from app.rating.votes.cells import Cells

LAPSE = 0.05  # share of anybody's votes that slip: any of the three answers
ASSUMED = 30.0  # assumed judges of a model, before the others are asked
PUSHERS = 0.01  # share of them who push it together with others
LONERS = 0.0003  # share of them who push it alone
MODELS = 20.0  # of more models each is the less likely to be the one
OPINION_SD = 200.0 / ELO_PER_NATURAL  # of an own opinion of a model around its score
OPINIONATED = 0.1  # probability that an honest annotator has one of a given model
SHIFT = np.linspace(-3.0, 3.0, 13) * OPINION_SD
LOG_SHIFT = -0.5 * (SHIFT / OPINION_SD) ** 2 - math.log(float(np.exp(-0.5 * (SHIFT / OPINION_SD) ** 2).sum()))
ROUNDS = 50
CONVERGED = 1e-4
LEAST = math.log(20.0)  # log-likelihood ratio from which an annotator may push a model, whatever others do
EVEN = 0.5  # probability of a push from which an annotator belongs to the group, and the votes weigh less
LEAST_TRUST = 1e-3
MOST = 1.0 - 1e-9  # probability beyond which odds are not told apart
FURTHEST = 150.0  # log of the largest odds that are told apart, for each of two models
ROOM = 600.0  # of the logarithm of a product
LOG_SLIP = math.log(LAPSE / 3.0)
LOG_ALWAYS = math.log(1.0 - LAPSE + LAPSE / 3.0)


@dataclass(frozen=True)
class Favouritism:
    """One row for each annotator and model that they voted on, sorted by annotator; arrays of shape (n_rows,).

    Attributes
    ----------
    annotator, model : of each row
    likelihood : log-likelihood ratio of "always for the model, honest about all others" and of "always against it"
        against "honest", shape (2, n_rows)
    posterior : probability of the two, given the votes of all its judges, of the same shape
    """

    annotator: Indices
    model: Indices
    likelihood: Floats
    posterior: Floats

    def strongest(self, kind: int, n_annotators: int) -> tuple[Floats, Indices]:
        """Return `EVEN_ODDS` times each annotator's largest odds of one of the two, as a logarithm, and the model.

        −∞ and −1 for annotators who may not do so.
        """
        some = np.flatnonzero(self.posterior[kind] > 0.0)
        who, likely = self.annotator[some], np.minimum(self.posterior[kind, some], MOST)
        log = np.log(likely / (1.0 - likely)) + math.log(EVEN_ODDS)
        order = np.lexsort((log, who))
        last = order[np.flatnonzero(np.diff(who[order], append=-1))]
        ratio, about = np.full(n_annotators, -np.inf), np.full(n_annotators, -1, dtype=np.int64)
        ratio[who[last]], about[who[last]] = log[last], self.model[some[last]]
        return ratio, about

    def trust(self, cells: Cells, spared: Mask) -> Floats | None:
        """Return the weight of each cell's votes: the probability that they neither push nor bury a model of theirs.

        None where no annotator pushes or buries one as likely as not.

        Parameters
        ----------
        cells : of the same annotators and models, sorted by annotator
        spared : annotators whose votes weigh 1 whatever they do, shape (n_annotators,)
        """
        either = self.posterior.sum(axis=0)
        found = np.flatnonzero((either >= EVEN) & ~spared[self.annotator])
        if not len(found):
            return None
        who, row = np.unique(self.annotator[found], return_inverse=True)
        left = np.ones((len(who), cells.n_models))
        left[row, self.model[found]] = np.maximum(1.0 - either[found], LEAST_TRUST)
        trust = np.ones(len(cells.n))
        for one, k in enumerate(who):
            here = slice(cells.starts[k], cells.starts[k + 1])
            trust[here] = left[one, cells.model_a[here]] * left[one, cells.model_b[here]]
        return trust


def find_favouritism(cells: Cells, R: Floats, null_model: NullModel, lean: Floats, caution: Floats) -> Favouritism:
    """Compare, for every annotator and model, "always for it" and "always against it" with "honest".

    Everybody slips in one vote of twenty, so an upset speaks for a push only as far as slips do not explain it. An
    honest annotator who likes a model better than others do still lets it lose, and every loss and tie speaks for
    honesty.

    Parameters
    ----------
    cells : votes between models that have a score, sorted by annotator
    R : natural units, NaN for models without a score, shape (n_models,)
    lean : log odds that the side adds for the first model of each cell, shape (n_cells,)
    caution : divisor of the log ratios of each annotator, for tastes, shape (n_annotators,)

    Notes
    -----
    The ability is integrated out, so the annotator's votes on other models count. The tie propensity is taken at its
    posterior mean. O(n_cells × 24).
    """
    rows, win, loss = CellRows(cells), cells.wins_a, cells.wins_b
    counts = np.zeros(cells.n_annotators, dtype=np.int64)
    map_parts(
        lambda part: count_models(*part, rows.starts, cells.model_a, cells.model_b, cells.n_models, counts), rows.parts
    )
    begin = np.concatenate([[0], np.cumsum(counts)])
    R = np.nan_to_num(R - np.nanmean(R)) if np.isfinite(R).any() else np.zeros(len(R))
    model, likelihood = np.empty(begin[-1], dtype=np.int64), np.empty((2, begin[-1]))
    log_weight = log_sum_exp(null_model.log_weight)
    map_parts(
        lambda part: compare_models(
            *part, rows.starts, cells.model_a, cells.model_b, win, cells.ties, loss, R, lean,
            ABILITY[FIRST_HONEST:], log_weight, null_model.tie_propensity, begin, model, likelihood,
        ),
        rows.parts,
    )  # fmt: skip
    annotator = np.repeat(np.arange(cells.n_annotators), counts)
    likelihood /= caution[annotator]
    return Favouritism(annotator, model, likelihood, find_groups(model, likelihood, cells.n_models))


def find_groups(model: Indices, likelihood: Floats, n_models: int) -> Floats:
    """Return the probabilities that each annotator pushes, and buries, each model, shape (2, n_rows).

    The prior of an annotator is the share of the model's other judges who do; of 30 assumed ones .01 does, or less
    where there are more than 20 models. A model has a group with the probability that all members together have against
    no member; without it each is judged alone, with the prior .0003. A group has two members or more, and fewer than
    half of the model's judges: two who contradict each other are none. So with 20 models one annotator of 42 alone
    needs a ratio of 8,000, four who push the same model 60 each, and none belongs to a group with less than 20.

    Parameters
    ----------
    model : of each row, shape (n_rows,)
    likelihood : log-likelihood ratios, shape (2, n_rows)
    """
    kind, row = np.nonzero(likelihood >= LEAST)
    ratio, group = likelihood[kind, row], kind * n_models + model[row]
    judges = np.tile(np.bincount(model, minlength=n_models), 2)
    assumed = PUSHERS * ASSUMED * min(1.0, MODELS / max(int(np.count_nonzero(judges)) // 2, 1))

    def update(before: Floats, assumed: float = assumed) -> Floats:
        others = np.maximum(sum_by(group, before, len(judges))[group] - before, 0.0) + assumed
        found: Floats = expit(np.log(others) - np.log(judges[group] + ASSUMED - others) + ratio)
        return found

    alone, together = update(np.zeros(len(row)), assumed * LONERS / PUSHERS), np.full(len(row), 0.5)
    for _ in range(ROUNDS):
        found = update(together)
        moved, together = float(np.abs(found - together).max(initial=0.0)), found
        if moved < CONVERGED:
            break
    member = (together > EVEN).astype(np.float64)
    size, gain = sum_by(group, member, len(judges)), sum_by(group, member * ratio, len(judges))
    prior = gammaln(size + assumed) - gammaln(assumed) + gammaln(judges - size + ASSUMED) - gammaln(judges + ASSUMED)
    exists = np.where(size > 1.0, expit(gain + prior), 0.0)[group]
    found = exists * together + (1.0 - exists) * alone
    posterior = np.zeros_like(likelihood)
    posterior[kind, row] = np.where((2.0 * np.maximum(size, 1.0) < judges)[group], found, 0.0)
    return posterior


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
def count_models(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, n_models: int, counts: Indices
) -> None:
    """Set `counts` of annotators first … last−1 to the number of models that they voted on."""
    place, touched = np.full(n_models, -1), np.empty(n_models, dtype=np.int64)
    for k in range(first, last):
        counts[k] = number_models(starts[k], starts[k + 1], model_a, model_b, place, touched)
        place[touched[: counts[k]]] = -1


@compiled
def compare_models(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats,
    R: Floats, lean: Floats, ability: Floats, log_weight: Floats, tie_propensity: Floats, begin: Indices,
    model: Indices, likelihood: Floats,
) -> None:  # fmt: skip
    """Set the rows of annotators first … last−1: `model`, and the log-likelihood ratios against "honest", (2, n_rows).

    Probabilities of single votes are multiplied, and one logarithm is taken of the product, because logarithms are
    slow. log_weight: of the honest abilities; tie_propensity: of each annotator; begin: each annotator's first row.
    """
    nodes, size = len(ability), len(R)
    raised = np.exp(np.clip(0.5 * np.outer(R, ability), -FURTHEST, FURTHEST))
    lowered, shifted = 1.0 / raised, np.exp(0.5 * np.outer(SHIFT, ability))
    place, touched = np.full(size, -1), np.empty(size, dtype=np.int64)
    log, product, room = np.empty((size + 1, nodes)), np.empty((size + 1, nodes)), np.empty(size + 1)
    one, log_belief, belief = np.empty(nodes), np.empty(nodes), np.empty(nodes)
    forced = np.empty((2, size))
    for k in range(first, last):
        count = number_models(starts[k], starts[k + 1], model_a, model_b, place, touched)
        log[: count + 1], product[: count + 1], room[: count + 1], forced[:, :count] = 0.0, 1.0, ROOM, 0.0
        for cell in range(starts[k], starts[k + 1]):
            a, b, n = model_a[cell], model_b[cell], win[cell] + tie[cell] + loss[cell]
            single = n == 1.0 and max(win[cell], tie[cell], loss[cell]) == 1.0
            up = 1.0 if lean[cell] == 0.0 else math.exp(0.5 * lean[cell])
            if single:
                put_vote(raised[a], lowered[b], up, tie_propensity[k], win[cell], tie[cell], loss[cell], one)
            else:
                put_cell(raised[a], lowered[b], up, tie_propensity[k], win[cell], tie[cell], loss[cell], one)
            for row in (place[a], place[b], count):
                if not single:
                    log[row] += one
                    continue
                if room[row] + LOG_SLIP < 0.0:
                    log[row] += np.log(product[row])
                    product[row], room[row] = 1.0, ROOM
                room[row] += LOG_SLIP
                product[row] *= one
            good = win[cell] * LOG_ALWAYS + (tie[cell] + loss[cell]) * LOG_SLIP
            bad = loss[cell] * LOG_ALWAYS + (tie[cell] + win[cell]) * LOG_SLIP
            forced[0, place[a]] += good
            forced[1, place[a]] += bad
            forced[0, place[b]] += bad
            forced[1, place[b]] += good
        log[count] += np.log(product[count])
        honest = log_mean_exp(log[count], log_weight)
        log_belief[:] = log[count] + log_weight - honest
        belief[:] = np.exp(log_belief)
        for row in range(count):
            at = begin[k] + row
            model[at] = touched[row]
            if log[row, 0] == 0.0 and room[row] > ROOM / 2.0:  # one logarithm in place of one for each ability
                others = math.log((belief / product[row]).sum())
            else:
                others = log_mean_exp(-log[row] - np.log(product[row]), log_belief)
            likelihood[0, at], likelihood[1, at] = others + forced[0, row], others + forced[1, row]
            if max(likelihood[0, at], likelihood[1, at]) > LEAST:
                own = with_opinion(
                    starts[k], starts[k + 1], model_a, model_b, win, tie, loss, raised, lowered, shifted, lean,
                    log_weight, tie_propensity[k], log[count] - log[row] - np.log(product[row]), touched[row],
                )  # fmt: skip
                gain = math.log(OPINIONATED) + own - math.log(1.0 - OPINIONATED) - honest
                likelihood[:, at] -= np.logaddexp(0.0, gain)
        place[touched[:count]] = -1


@compiled
def with_opinion(
    first: int, last: int, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats, raised: Floats,
    lowered: Floats, shifted: Floats, lean: Floats, log_weight: Floats, tie_propensity: float, others: Floats,
    model: int,
) -> float:  # fmt: skip
    """Return the log-likelihood of cells first … last−1 for an honest annotator with an own opinion of one model.

    raised, lowered, shifted: e^{ability·R/2}, its reciprocal, and e^{ability·opinion/2} of each shift; others:
    log-likelihood, at each ability, of the cells without the model.
    """
    cells = [cell for cell in range(first, last) if model in (model_a[cell], model_b[cell])]
    log, one, by_shift = np.empty(len(others)), np.empty(len(others)), np.empty(len(shifted))
    for t in range(len(shifted)):
        log[:] = others
        for cell in cells:
            up, down = raised[model_a[cell]].copy(), lowered[model_b[cell]].copy()
            if model == model_a[cell]:
                up *= shifted[t]
            else:
                down /= shifted[t]
            put_cell(up, down, math.exp(0.5 * lean[cell]), tie_propensity, win[cell], tie[cell], loss[cell], one)
            log += one
        by_shift[t] = log_mean_exp(log, log_weight)
    return log_mean_exp(by_shift, LOG_SHIFT)


@compiled
def put_vote(
    raised_a: Floats, lowered_b: Floats, up: float, tie_propensity: float, win: float, tie: float, loss: float,
    out: Floats,
) -> None:  # fmt: skip
    """Set `out` to one vote's likelihood at every ability, slips included."""
    for i in range(len(out)):
        u = up * raised_a[i] * lowered_b[i]
        square, tied = u * u, tie_propensity * u
        out[i] = (1.0 - LAPSE) * (win * square + tie * tied + loss) / (1.0 + square + tied) + LAPSE / 3.0


@compiled
def put_cell(
    raised_a: Floats, lowered_b: Floats, up: float, tie_propensity: float, win: float, tie: float, loss: float,
    out: Floats,
) -> None:  # fmt: skip
    """Set `out` to the logarithm of one cell's likelihood at every ability, slips included."""
    slip = LAPSE / 3.0
    for i in range(len(out)):
        u = up * raised_a[i] * lowered_b[i]
        rest = (1.0 - LAPSE) / (1.0 + u * u + tie_propensity * u)
        out[i] = 0.0
        if win > 0.0:
            out[i] += win * math.log(rest * u * u + slip)
        if tie > 0.0:
            out[i] += tie * math.log(rest * tie_propensity * u + slip)
        if loss > 0.0:
            out[i] += loss * math.log(rest + slip)
