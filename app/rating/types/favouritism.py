"""Annotators who push one model, or bury it: each alone, and the groups that they form."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit, gammaln

from app.rating.arrays import Floats, Indices, Ints, Mask, sum_by
from app.rating.compiled import compiled
from app.rating.exchange import concatenated, deal, total
from app.rating.model.kernels import SLIP
from app.rating.threads import map_parts
from app.rating.types.habits import Typing
from app.rating.units import ELO_PER_NATURAL
from app.rating.votes.cells import Cells

ASSUMED = 30.0  # assumed judges of a model, before the others are asked
PUSHERS = 0.01  # share of them who push it together with others
LONERS = 0.0003  # share of them who push it alone
MODELS = 20.0  # of more models each is the less likely to be the one
OPINION_SD = 200.0 / ELO_PER_NATURAL  # of an own opinion of a model around its score
OPINIONATED = 0.1  # probability that an honest annotator has one of a given model
SHIFT = np.linspace(-2.5, 2.5, 11) * OPINION_SD
LOG_SHIFT = np.exp(-0.5 * (SHIFT / OPINION_SD) ** 2)
LOG_SHIFT = np.log(OPINIONATED / (1.0 - OPINIONATED) * LOG_SHIFT / LOG_SHIFT.sum() + (SHIFT == 0.0))
ROUNDS, CONVERGED = 50, 1e-4
LOOK = 2.0  # log-likelihood ratio of rough abilities from which the exact one is computed
LEAST = math.log(20.0)  # exact ratio from which an annotator may push a model, whatever others do
EVEN = 0.5  # probability of a push from which an annotator belongs to the group, and the votes weigh less
LEAST_TRUST = 1e-3
LOG_ALWAYS, LOG_SLIP = math.log(1.0 - SLIP + SLIP / 3.0), math.log(SLIP / 3.0)


@dataclass(frozen=True)
class Favouritism:
    """A row for each annotator and model that may be pushed or buried, sorted by annotator; arrays of shape (n_rows,).

    Attributes
    ----------
    likelihood : log-likelihood ratio of "always for the model, honest about all others" and of "always against it"
        against "honest", shape (2, n_rows)
    log_odds : of the two against "honest", given the votes of all judges of the model, of the same shape; −∞ where the
        votes rule it out
    """

    annotator: Indices
    model: Indices
    likelihood: Floats
    log_odds: Floats

    def strongest(self, kind: int, n_annotators: int) -> tuple[Floats, Indices]:
        """Return each annotator's largest log odds of one of the two, and the model; −∞ and −1 without one."""
        some = np.flatnonzero(np.isfinite(self.log_odds[kind]))
        who, log = self.annotator[some], self.log_odds[kind, some]
        order = np.lexsort((log, who))
        last = order[np.flatnonzero(np.diff(who[order], append=-1))]
        odds, about = np.full(n_annotators, -np.inf), np.full(n_annotators, -1, dtype=np.int64)
        odds[who[last]], about[who[last]] = log[last], self.model[some[last]]
        return odds, about

    def trust(self, cells: Cells, spared: Mask) -> Floats | None:
        """Return the weight of each cell's votes: the probability that they neither push nor bury a model of theirs.

        None where no annotator pushes or buries one as likely as not.

        Parameters
        ----------
        cells : of the same annotators and models, sorted by annotator
        spared : annotators whose votes weigh 1 whatever they do, shape (n_annotators,)
        """
        either = expit(self.log_odds).sum(axis=0)
        found = np.flatnonzero((either >= EVEN) & ~spared[self.annotator])
        if not len(found):
            return None
        who, row = np.unique(self.annotator[found], return_inverse=True)
        left, place = np.ones((len(who), cells.n_models)), np.full(cells.n_annotators, -1)
        left[row, self.model[found]] = np.maximum(1.0 - either[found], LEAST_TRUST)
        place[who] = np.arange(len(who))
        trust, own = np.ones(len(cells.n)), place[cells.annotator]
        some = own >= 0
        trust[some] = left[own[some], cells.model_a[some]] * left[own[some], cells.model_b[some]]
        return trust


def find_favouritism(typing: Typing) -> Favouritism:
    """Compare, for every annotator and model, "always for it" and "always against it" with "honest".

    Everybody slips in one vote of twenty, so an upset speaks for a push only as far as slips do not explain it. An
    honest annotator who likes a model better than others do still lets it lose, and every loss and tie speaks for
    honesty. The ability is integrated out, so the annotator's votes on other models count.

    Notes
    -----
    The exact ratio is computed where a rough one, at two abilities, allows a push: O(n_cells × 24) at most.
    """
    cells, table, law = typing.cells, typing.table, typing.law
    log_prior = np.where(table.theta > 0.0, law.log_density(table.theta), -np.inf)
    propensity = np.exp(typing.propensity) if typing.tying else np.zeros(cells.n_annotators)

    def compare(part: tuple[int, int]) -> tuple[Indices, Indices, Floats, Floats]:
        judges = np.zeros(cells.n_models)
        return *compare_models(
            *part, cells.starts, cells.model_a, cells.model_b, cells.wins_a, cells.ties, cells.wins_b, typing.d,
            typing.side, typing.at, typing.slope, propensity, typing.caution, law.mean, table.theta[:, 0], table.step,
            typing.size, table.nodes + log_prior, SHIFT * typing.scale, LOG_SHIFT, typing.crowd, judges,
        ), judges  # fmt: skip

    found = map_parts(compare, typing.parts)
    annotator, model = (np.concatenate([one[i] for one in found]) for i in (0, 1))
    likelihood = np.concatenate([one[2] for one in found], axis=1)
    judges = total(np.sum([one[3] for one in found], axis=0))
    some, log_odds = (likelihood >= LEAST).any(axis=0), np.full(likelihood.shape, -np.inf)
    log_odds[:, some] = deal(partial(_find_groups, judges=judges), (model[some], likelihood[:, some]))
    return Favouritism(annotator, model, likelihood, log_odds)


def _find_groups(rows: list[tuple[Indices, Floats]], judges: Floats) -> list[Floats]:
    model, likelihood = (concatenated(list(column)) for column in zip(*rows, strict=True))
    ends = np.cumsum([len(own) for own, _ in rows])[:-1]
    return np.split(find_groups(model, likelihood, judges), ends, axis=1)


def find_groups(model: Indices, likelihood: Floats, judges: Floats) -> Floats:
    """Return the log odds that each annotator pushes, and buries, each model, shape (2, n_rows).

    The prior of an annotator is the share of the model's other judges who do; of 30 assumed ones .01 does, or less
    where there are more than 20 models. A model has a group with the probability that all members together have against
    no member; without it each is judged alone, with the prior .0003. A group has two members or more, and fewer than
    half of the model's judges: two who contradict each other are none.

    Parameters
    ----------
    model : of each row, shape (n_rows,)
    likelihood : log-likelihood ratios, shape (2, n_rows)
    judges : annotators with a vote on each model, shape (n_models,)
    """
    kind, row = np.nonzero(likelihood >= LEAST)
    ratio, group, size = likelihood[kind, row], kind * len(judges) + model[row], 2 * len(judges)
    assumed, both = PUSHERS * ASSUMED * min(1.0, MODELS / max(int((judges > 0.0).sum()), 1)), np.tile(judges, 2)

    def update(before: Floats, assumed: float = assumed) -> Floats:
        others = np.maximum(sum_by(group, before, size)[group] - before, 0.0) + assumed
        odds: Floats = np.log(others) - np.log(both[group] + ASSUMED - others) + ratio
        return odds

    alone, together = update(np.zeros(len(row)), assumed * LONERS / PUSHERS), np.zeros(len(row))
    for _ in range(ROUNDS):
        before, together = together, update(expit(together))
        if np.abs(expit(together) - expit(before)).max(initial=0.0) < CONVERGED:
            break
    member = (together > 0.0).astype(np.float64)
    members, gain = sum_by(group, member, size), sum_by(group, member * ratio, size)
    prior = gammaln(members + assumed) - gammaln(assumed) + gammaln(both - members + ASSUMED) - gammaln(both + ASSUMED)
    exists = np.where(members > 1.0, expit(gain + prior), 0.0)[group]
    likely = np.minimum(exists * expit(together) + (1.0 - exists) * expit(alone), 1.0 - 1e-12)
    log_odds = np.full(likelihood.shape, -np.inf)
    few = (2.0 * np.maximum(members, 1.0) < both)[group]
    log_odds[kind, row] = np.where(few, np.log(np.maximum(likely, 1e-300)) - np.log1p(-likely), -np.inf)
    return log_odds


@compiled
def log_vote(y: float, propensity: float, win: float, tie: float, loss: float) -> float:
    """Return the log-likelihood of honest votes with half log odds y, slips included."""
    up = math.exp(min(max(y, -100.0), 100.0))
    rest, total = (1.0 - SLIP) / (up + propensity + 1.0 / up), 0.0
    if win > 0.0:
        total += win * math.log(rest * up + SLIP / 3.0)
    if tie > 0.0:
        total += tie * math.log(rest * propensity + SLIP / 3.0)
    if loss > 0.0:
        total += loss * math.log(rest / up + SLIP / 3.0)
    return total


@compiled
def log_sum(values: Floats) -> float:
    """Return log Σ exp(value)."""
    top = max(float(values.max()), -1e300)
    return top + math.log(max(float(np.exp(values - top).sum()), 1e-300))


@compiled
def take_off(
    mine: Indices, d: Floats, side: Floats, win: Floats, loss: Floats, theta: Floats, lean: Floats, caution: float,
    belief: Floats,
) -> None:  # fmt: skip
    """Subtract the log-likelihood of an annotator's decided votes in these cells from `belief` at the nodes."""
    for c in mine:
        for q in range(len(theta)):
            x = theta[q] * d[c] + lean[q] * side[c]
            belief[q] -= (win[c] * x - (win[c] + loss[c]) * math.log(1.0 + math.exp(x))) / caution


@compiled
def log_honest(
    mine: Indices, ways: Floats, shift: float, d: Floats, side: Floats, win: Floats, tie: Floats, loss: Floats,
    theta: Floats, lean: Floats, propensity: float, caution: float, belief: Floats,
) -> float:  # fmt: skip
    """Return the log-likelihood of an annotator's votes, honest in these cells with an opinion of a model.

    ways : 1 where the model is the first of the cell, −1 where it is the second
    belief : log-likelihood of the other votes at the nodes, and the law
    """
    log = belief.copy()
    for i in range(len(mine)):
        c = mine[i]
        for q in range(len(theta)):
            y = 0.5 * (theta[q] * (d[c] + ways[i] * shift) + lean[q] * side[c])
            log[q] += log_vote(y, propensity, win[c], tie[c], loss[c]) / caution
    return log_sum(log)


@compiled
def compare_models(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats,
    d: Floats, side: Floats, at: Floats, slope: Floats, propensity: Floats, caution: Floats, typical: float,
    low: Floats, step: Floats, size: Indices, table: Floats, shift: Floats, log_shift: Floats, crowd: Mask,
    judges: Floats,
) -> tuple[Indices, Indices, Floats]:  # fmt: skip
    """Return annotator, model and log-likelihood ratios against "honest" of the rows that may push or bury.

    table : log-likelihood of decided votes plus the honest law's log density; −∞ at no node
    crowd : annotators who are asked
    judges : those with a vote on each model are added
    """
    room = min(2 * (starts[last] - starts[first]), (last - first) * len(judges))
    annotator, model = np.empty((2, room), dtype=np.int64)
    ratio, rows = np.full((2, room), -np.inf), 0
    rough, forced, seen = np.zeros((2, len(judges))), np.zeros((2, len(judges))), np.zeros(len(judges), dtype=np.bool_)
    for k in np.flatnonzero(crowd[first:last]) + first:
        theta = low[k] + np.arange(size[k]) * step[k]
        lean = at[k, 1] + slope[k] * (theta - at[k, 0])
        for c in range(starts[k], starts[k + 1]):
            good = win[c] * LOG_ALWAYS + (tie[c] + loss[c]) * LOG_SLIP
            bad = loss[c] * LOG_ALWAYS + (tie[c] + win[c]) * LOG_SLIP
            one, two = at[k, 0] * d[c] + at[k, 1] * side[c], typical * d[c] + at[k, 1] * side[c]
            one = log_vote(0.5 * one, propensity[k], win[c], tie[c], loss[c])
            two = log_vote(0.5 * two, propensity[k], win[c], tie[c], loss[c])
            for i, up, down in ((model_a[c], good, bad), (model_b[c], bad, good)):
                seen[i] = True
                forced[0, i] += up
                forced[1, i] += down
                rough[0, i] += one
                rough[1, i] += two
        for place in range(2 * starts[k], 2 * starts[k + 1]):
            i = model_b[place // 2] if place % 2 else model_a[place // 2]
            if seen[i]:
                judges[i] += 1.0
                if max(forced[0, i], forced[1, i]) > min(rough[0, i], rough[1, i]) + LOOK * caution[k]:
                    mine = np.array([c for c in range(starts[k], starts[k + 1]) if i in (model_a[c], model_b[c])])
                    ways, belief = np.where(model_a[mine] == i, 1.0, -1.0), table[k, : size[k]].copy()
                    take_off(mine, d, side, win, loss, theta, lean, caution[k], belief)
                    pushed, log, looked = log_sum(belief) + forced[:, i] / caution[k], np.full(len(shift), -np.inf), 0
                    for t in np.argsort(np.abs(shift)):  # no opinion first: opinions make honesty likelier
                        if looked == 0 or pushed.max() - log_sum(log) > LEAST:
                            honest = log_honest(
                                mine, ways, shift[t], d, side, win, tie, loss, theta, lean, propensity[k], caution[k],
                                belief,
                            )  # fmt: skip
                            log[t] = log_shift[t] + honest
                            looked += 1
                    ratio[:, rows] = pushed - log_sum(log)
                    annotator[rows], model[rows] = k, i
                    rows += 1
            seen[i] = False
            rough[:, i] = forced[:, i] = 0.0
    return annotator[:rows].copy(), model[:rows].copy(), ratio[:, :rows].copy()
