"""How uncertain scores are where annotators count alike, whatever their abilities."""

import math
from dataclasses import dataclass, replace

import numpy as np

from app.rating.arrays import Floats, Indices, Ints, Mask, sum_by
from app.rating.compiled import compiled
from app.rating.detection.favouritism import log_mean_exp
from app.rating.detection.habits import Habits
from app.rating.detection.habits_kernels import shares
from app.rating.fit.kernels import pair_of
from app.rating.fit.rows import CellRows
from app.rating.model.start import fit_bradley_terry
from app.rating.model.weights import weigh_votes
from app.rating.settings import LoopSettings
from app.rating.threads import map_parts
from app.rating.votes.cells import Cells
from app.rating.votes.compact import compact, pool_annotators

FEW_JUDGES = 20.0  # effective number of judges of an annotator's models from which their scores are not in doubt
OPPOSED = 0.5  # adjusted ability below which votes oppose the scores, so that these are in doubt
RIDGE = 1e-9  # of the mean information on a model: makes the information of separate groups of models invertible


WORTH = 9.0  # squared standard errors: of fewer than three the errors of the scores explain no votes
MOVES = np.linspace(-4.0, 4.0, 11)  # standard errors of the scores
STAYS = len(MOVES) // 2
TINY = 1e-300


@dataclass(frozen=True)
class ScoreErrors:
    """How uncertain scores are where annotators count alike.

    Attributes
    ----------
    inverse : H⁻¹, shape (n_models, n_models); 0 for models without votes
    covariance : of the scores over samples of annotators, of the same shape
    """

    inverse: Floats
    covariance: Floats


def count_judges(cells: Cells) -> Floats:
    """Return the effective number of judges of each annotator's models, the mean by vote, shape (n_annotators,).

    That of a model is (Σ_k n_k)²/Σ_k n_k², n_k the votes of annotator k on it. NaN for annotators without votes.
    """
    rows = CellRows(cells)

    def sum_part(part: tuple[int, int]) -> Floats:
        sums = np.zeros((2, cells.n_models))
        add_votes(*part, rows.starts, cells.model_a, cells.model_b, cells.n, sums)
        return sums

    first, *others = map_parts(sum_part, rows.parts)
    votes, squares = sum(others, first)
    judges = votes**2 / np.maximum(squares, TINY)
    both = cells.n * (judges[cells.model_a] + judges[cells.model_b])
    with np.errstate(invalid="ignore"):
        mean: Floats = 0.5 * sum_by(cells.annotator, both, cells.n_annotators) / cells.votes_by_annotator()
    return mean


def limit_votes(cells: Cells) -> Cells:
    """Return the votes with the weights that the limit of influence gives where every ability is 1."""
    weight = weigh_votes(cells, LoopSettings.influence_limit)
    return replace(cells, n=weight * cells.n, s=weight * cells.s, ties=weight * cells.ties)


def find_score_errors(cells: Cells, R: Floats) -> ScoreErrors:
    """Return the errors of scores as if every ability were 1.

    The covariance is H⁻¹ (Σ_k g_k g_k′) H⁻¹, g_k the gradient of annotator k's votes at ability 1 and H the information
    of all. It asks how far the scores could move if other annotators of this crowd had voted, and an annotator who
    contradicts them is believed as much as one who agrees.

    Parameters
    ----------
    cells : from `limit_votes`, sorted by annotator
    R : natural units, shape (n_models,)

    Notes
    -----
    The fit's own covariance takes abilities as they were estimated. Where attackers outvote the few judges of some
    models, these judges have low abilities, and the fit is sure of the attackers' order.
    """
    rows, size = CellRows(cells), cells.n_models

    def sum_part(part: tuple[int, int]) -> Floats:
        sums = np.zeros((2 * size, size))
        add_gradients(
            *part, rows.starts, cells.model_a, cells.model_b, cells.n, cells.s, R, sums[:size], sums[size:]
        )  # fmt: skip
        return sums

    first, *others = map_parts(sum_part, rows.parts)
    total = sum(others, first)
    information, half = total[:size], total[size:]
    meat = half + half.T
    judged = np.ix_(*[np.flatnonzero(np.diag(information))] * 2)  # models without votes change nothing
    information, inverse = information[judged], np.zeros((size, size))
    ridge = RIDGE * np.trace(information) / max(len(information), 1)
    inverse[judged] = np.linalg.inv(information + ridge * np.eye(len(information)))
    return ScoreErrors(inverse, inverse @ meat @ inverse)


def fit_evenly(cells: Cells, R: Floats) -> Floats:
    """Return the Bradley-Terry scores, by a search from R; R itself where the search fails.

    Where they have no finite maximum, the search ends at large ones.

    Parameters
    ----------
    cells : from `limit_votes`
    """
    judged, even = compact(pool_annotators(cells)), R.copy()
    even[judged.models] = fit_bradley_terry(judged.cells)
    return even


def doubt_scores(
    cells: Cells, R: Floats, lean: Floats, habits: Habits, ability: Floats, judges: Floats
) -> Floats | None:
    """Return what the errors of the scores add to log-likelihoods, shape (n_annotators, abilities).

    log ½ Σ_s ∫ P(votes of k | a, R_s + t b_s) dT(t) − log P(votes of k | a, R_0). R_0 are the scores of the fit, R_1
    those where annotators count alike, b_s is a standard error of theirs, and T is Student's distribution: see
    `add_doubts`. 0 where the votes do not ask the scores to move by three standard errors, and where 20 judges or more
    stand behind them; None where no annotator has such votes.

    Parameters
    ----------
    lean : as for `fit_null_model`
    ability : natural units
    judges : from `count_judges`
    """
    asked = (habits.ability < OPPOSED) & (judges < FEW_JUDGES)
    if not asked.any():
        return None
    rows, R, out = CellRows(cells), np.nan_to_num(R), np.zeros((cells.n_annotators, len(ability)))
    limited, tied = limit_votes(cells), sum_by(cells.annotator, cells.ties, cells.n_annotators)
    scores = np.stack([R, fit_evenly(limited, R)])
    errors = [find_score_errors(limited, one) for one in scores]
    inverse, covariance = (np.stack([getattr(one, name) for one in errors]) for name in ("inverse", "covariance"))
    own = 2.0 * tied / (cells.votes_by_annotator() - tied + 1.0)  # not drawn to the crowd's: some always tie
    tie_propensity = np.maximum(np.exp(np.nan_to_num(habits.tie_log)), own)
    map_parts(
        lambda part: add_doubts(
            *part, rows.starts, cells.model_a, cells.model_b, cells.wins_a, cells.ties, cells.wins_b, limited.n,
            limited.s, scores, lean, asked, habits.typical, tie_propensity, inverse, covariance, judges, ability,
            out,
        ),
        rows.parts,
    )  # fmt: skip
    return out


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
    """Add the information, and half the outer product of each gradient, of annotators first … last−1.

    meat: an entry (i, j) for each pair of an annotator's models, without (j, i); those with i = j are halved.
    """
    gradient, models = np.zeros(len(R)), np.empty(len(R), dtype=np.int64)
    seen = np.zeros(len(R), dtype=np.bool_)
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
            row, surplus = models[i], gradient[models[i]]
            for j in range(i):
                meat[row, models[j]] += surplus * gradient[models[j]]
            meat[row, row] += 0.5 * surplus * surplus
        gradient[models[:many]] = 0.0


@compiled
def add_votes(first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, n: Floats, sums: Floats) -> None:
    """Add the votes of annotators first … last−1 on each model to sums[0], and their squares to sums[1]."""
    own = np.zeros(sums.shape[1])
    for k in range(first, last):
        for cell in range(starts[k], starts[k + 1]):
            for model in pair_of(model_a, model_b, cell):
                sums[0, model] += n[cell]
                sums[1, model] += n[cell] * (2.0 * own[model] + n[cell])
                own[model] += n[cell]
        for cell in range(starts[k], starts[k + 1]):
            own[model_a[cell]] = own[model_b[cell]] = 0.0


@compiled
def add_doubts(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats,
    n: Floats, s: Floats, scores: Floats, lean: Floats, asked: Mask, typical: float, tie_propensity: Floats,
    inverse: Floats, errors: Floats, judges: Floats, ability: Floats, out: Floats,
) -> None:  # fmt: skip
    """Set `out`, shape (n_annotators, abilities), to what the scores' errors add to log-likelihoods.

    log ½ Σ_s Σ_t w_t L(a | R_s + t b_s) / L(a | R_0), w Student's t, b = C g/√(g′C g): of all moves of the scores that
    are a standard error long, the one that explains most of the annotator's votes at the typical ability. g: gradient
    by R_s. C: of the others' votes.

    n, s : of each cell, with the weights of the limit of influence
    scores : R_0 and R_1, shape (2, n_models)
    asked : the annotators to do so for, shape (n_annotators,)
    inverse, errors : H⁻¹ and C of all annotators at R_0 and R_1, shape (2, n_models, n_models)
    judges : effective number behind each annotator's models; one more than the degrees of freedom
    """
    size, moves = scores.shape[1], len(MOVES)
    gradient, own, move, seen = np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size, dtype=np.bool_)
    models, log, log_weight = np.empty(size, dtype=np.int64), np.empty((2 * moves, len(ability))), np.empty(2 * moves)
    for k in range(first, last):
        if not asked[k]:
            continue
        begin, end, v = starts[k], starts[k + 1], tie_propensity[k]
        many, doubtful = list_models(begin, end, model_a, model_b, seen, models), True
        for which in range(2):
            R = scores[which]
            gain = find_move(
                begin, end, model_a, model_b, win, tie, loss, n, s, R, lean, typical, v, inverse[which], errors[which],
                models[:many], gradient, own, move,
            )  # fmt: skip
            doubtful = doubtful and (which > 0 or gain >= WORTH)
            if doubtful:
                here = log[which * moves : (which + 1) * moves]
                weigh_moves(begin, end, model_a, model_b, win, tie, loss, R, lean, v, move, ability, here)
            move[models[:many]] = 0.0
        if not doubtful:
            continue
        freedom = max(judges[k] - 1.0, 1.0)
        log_weight[:moves] = -0.5 * (freedom + 1.0) * np.log1p(MOVES**2 / freedom)
        log_weight[:moves] -= math.log(2.0 * np.exp(log_weight[:moves]).sum())
        log_weight[moves:] = log_weight[:moves]
        for i in range(len(ability)):
            out[k, i] = log_mean_exp(log[:, i], log_weight) - log[STAYS, i]


@compiled
def find_move(
    first: int, last: int, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats, n: Floats, s: Floats,
    R: Floats, lean: Floats, typical: float, tie_propensity: float, inverse: Floats, errors: Floats, models: Indices,
    gradient: Floats, own: Floats, move: Floats,
) -> float:  # fmt: skip
    """Set `move` of the models listed to b = C g/√(g′C g), and return g′C g; `gradient` and `own` stay 0.

    C is without the annotator's own part, u u′ with u = H⁻¹ times the gradient at ability 1.
    """
    for cell in range(first, last):
        a, b = pair_of(model_a, model_b, cell)
        lead, _, _ = shares(0.5 * (typical * (R[a] - R[b]) + lean[cell]), tie_propensity)
        surplus = 0.5 * typical * (win[cell] - loss[cell] - (win[cell] + tie[cell] + loss[cell]) * lead)
        gradient[a] += surplus
        gradient[b] -= surplus
        residual = s[cell] - n[cell] / (1.0 + math.exp(-(R[a] - R[b])))
        for one in models:
            own[one] += residual * (inverse[one, a] - inverse[one, b])
    part = own[models] @ gradient[models]
    gain = 0.0
    for one in models:
        move[one] = -part * own[one]
        for other in models:
            move[one] += errors[one, other] * gradient[other]
        gain += gradient[one] * move[one]
    for one in models:
        move[one] /= math.sqrt(max(gain, TINY))
    gradient[models] = own[models] = 0.0
    return gain


@compiled
def weigh_moves(
    first: int, last: int, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats, R: Floats,
    lean: Floats, tie_propensity: float, move: Floats, ability: Floats, log: Floats,
) -> None:  # fmt: skip
    """Set `log`, shape (moves, abilities), to log L(a | R + t · move) of cells first … last−1, but for ties' factor."""
    log[:] = 0.0
    for cell in range(first, last):
        a, b = pair_of(model_a, model_b, cell)
        n, net = win[cell] + tie[cell] + loss[cell], win[cell] - loss[cell]
        for t in range(len(MOVES)):
            d = R[a] - R[b] + MOVES[t] * (move[a] - move[b])
            for i in range(len(ability)):
                y = 0.5 * (ability[i] * d + lean[cell])
                u = math.exp(-abs(y))
                log[t, i] += net * y - n * (abs(y) + math.log1p(u * u + tie_propensity * u))
