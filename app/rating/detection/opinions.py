"""How well honest annotators' own opinions of models explain their votes."""

import math

import numpy as np

from app.rating.arrays import AnyInts, Floats, Indices, Ints, Mask, log_sum_exp
from app.rating.compiled import compiled
from app.rating.detection.favouritism import number_models
from app.rating.detection.habits import Habits
from app.rating.detection.habits_kernels import shares
from app.rating.detection.null_model import ABILITY, COIN, FIRST_HONEST, LOG_ABILITY
from app.rating.fit.kernels import pair_of
from app.rating.fit.rows import CellRows
from app.rating.threads import map_parts
from app.rating.units import ELO_PER_NATURAL
from app.rating.votes.cells import Cells

SDS = np.array([0.0, 60.0, 120.0, 240.0]) / ELO_PER_NATURAL  # of an annotator's opinions around the scores
START = np.array([3.0, 1.0, 1.0, 1.0]) / 6.0  # shares of annotators with these before the votes are seen
ASSUMED = 2.0  # annotators that count as evidence for them
SPREAD = 0.5  # of log abilities around the typical one, while the shares are estimated
TIES_SD = 2.0  # of the prior that keeps tie propensities finite
ROUNDS = 30
ENOUGH = 2_000  # annotators that determine the shares and the crowd's mixture
OPPOSED = 0.5  # adjusted ability below which every annotator's tastes are weighed, however many there are
UNSEEN = -1e300  # log-likelihood of abilities that do not matter


def explain_by_opinions(cells: Cells, R: Floats, lean: Floats, habits: Habits, whose: Indices) -> Floats | None:
    """Return log Σ_s p_s ∫ P(votes of k | a, R + u) dN(u; 0, s²) without and with tastes; None in a crowd without any.

    u are the annotator's own opinions of the models, s one of `SDS` for each annotator. The shares p of the crowd are
    found by expectation-maximisation, so that a few attackers move them by their number alone. A negative ability has
    the same opinions as a positive one; an ability of 0 is noise, and has none.

    Parameters
    ----------
    lean : as for `fit_null_model`
    whose : annotators to weigh; those who follow the ranking too closely are left out, as opinions explain mimics too

    Returns
    -------
    array
        Shape (2, n_annotators, abilities): log p_0, and the log of the other terms. NaN for annotators who are not
        weighed: in crowds of more than 2,000, most of those whose ability is not low.
    """
    if habits.taste_sd == 0.0:
        return None
    rows, known = CellRows(cells), whose[np.isfinite(habits.ability[whose])]
    look = np.zeros(cells.n_annotators, dtype=bool)
    look[known[:: 1 + len(known) // ENOUGH]] = True
    look[known[habits.ability[known] < OPPOSED]] = True
    log = np.full((cells.n_annotators, len(ABILITY), len(SDS)), UNSEEN)
    begin = np.searchsorted(ABILITY, np.nan_to_num(habits.ability) * habits.typical)
    begin = np.clip(begin, FIRST_HONEST, len(ABILITY) - 1)
    map_parts(
        lambda part: weigh_opinions(
            *part, rows.starts, cells.model_a, cells.model_b, cells.wins_a, cells.ties, cells.wins_b, lean,
            np.nan_to_num(R), np.nan_to_num(habits.tie_log, neginf=-np.inf), habits.ties.mean, 1.0 / TIES_SD**2, look,
            begin, ABILITY, COIN, SDS, log,
        ),
        rows.parts,
    )  # fmt: skip
    share = _find_shares(log[look], habits.typical)
    found = np.full((2, *log.shape[:2]), np.nan)
    found[0, look] = np.log(share[0])
    found[1, look] = log_sum_exp(log[look][:, :, 1:] + np.log(share[1:]))
    return found


def _find_shares(log: Floats, typical: float) -> Floats:
    """Return the share of annotators with each of `SDS`.

    Coins count too: any strength of opinions fits them about as well, so they hardly move the shares.
    """
    prior = -0.5 * ((LOG_ABILITY - np.log(typical)) / SPREAD) ** 2
    prior -= log_sum_exp(prior)
    of_sd, share = log_sum_exp((log[:, FIRST_HONEST:] + prior[:, None]).transpose(0, 2, 1)), START
    for _ in range(ROUNDS):
        weighed = of_sd + np.log(share)
        mass = np.exp(weighed - log_sum_exp(weighed)[:, None]).sum(axis=0) + ASSUMED * START
        share = mass / mass.sum()
    return share


MOST_STEPS = 12
MOST_INNER = 25
FURTHEST = 2.0  # no opinion moves further in one step
NEAR = 0.02  # length of the last step
EXACT = 0.01  # residual of a step, times the gradient's length
PRODUCT_LIMIT = 1e250
FAR_BELOW = 20.0  # log-likelihood below the best ability's from which other abilities do not matter


@compiled
def weigh_opinions(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats,
    lean: Floats, R: Floats, tie_log: Floats, tie_centre: float, tie_precision: float, look: Mask, begin: Indices,
    ability: Floats, coin: int, sds: Floats, out: Floats,
) -> None:  # fmt: skip
    """Set `out`, shape (n_annotators, abilities, sds), of annotators to look at to log ∫ L(a, R + u) dN(u; 0, sd²).

    By Laplace's approximation, at the likeliest tie propensity. Abilities are tried from `begin` up and down while they
    matter; entries of others stay as they are. sds[0] is 0: no opinions.

    Parameters
    ----------
    tie_log : where the search of the log tie propensity begins, shape (n_annotators,); −∞ in a crowd without ties
    tie_centre, tie_precision : of its normal prior, which keeps it finite
    coin : place of ability 0 in `ability`, above the negative ones
    """
    place, touched = np.full(len(R), -1), np.empty(len(R), dtype=np.int64)
    for k in range(first, last):
        if not look[k]:
            continue
        cells = slice(starts[k], starts[k + 1])
        many = number_models(starts[k], starts[k + 1], model_a, model_b, place, touched)
        a, b = np.empty((2, len(win[cells])), dtype=np.uint32)  # an index that could be negative costs a branch
        d = np.empty(len(a))
        for cell in range(len(a)):
            i, j = pair_of(model_a, model_b, starts[k] + cell)
            a[cell], b[cell], d[cell] = place[i], place[j], R[i] - R[j]
        place[touched[:many]] = -1
        u, work = np.zeros(many), np.empty((5, many))
        for which in range(len(sds)):
            best = -np.inf
            for up in (True, False):
                u[:] = 0.0
                node, tied = begin[k] + (0 if up else -1), tie_log[k]
                while 0 <= node < len(ability):
                    if node == coin and which > 0:  # opinions change no vote of a coin
                        node -= 1
                        continue
                    value, tied = climb(
                        a, b, d, win[cells], tie[cells], loss[cells], lean[cells], ability[node], sds[which], tied,
                        tie_centre, tie_precision, u, work,
                    )  # fmt: skip
                    out[k, node, which] = value
                    best = max(best, value)
                    if value < best - FAR_BELOW and node != coin:
                        break
                    node += 1 if up else -1


@compiled
def climb(
    a: AnyInts, b: AnyInts, d: Floats, win: Floats, tie: Floats, loss: Floats, lean: Floats, ability: float, sd: float,
    tie_log: float, tie_centre: float, tie_precision: float, u: Floats, work: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Return log ∫ L(a, R + u) dN(u; 0, sd²) by Laplace's approximation, and the log tie propensity of its maximum.

    Sets `u` to the opinions there, times the ability. The determinant of the Hessian, D − O with the diagonal D, is
    taken to second order: log|D| − ½ tr (D⁻¹O)². Newton's steps by conjugate gradients.
    """
    own, ties = abs(ability) * sd, tie_log > -np.inf
    precision = 1.0 / (own * own) if own > 0.0 else 0.0
    gradient, diagonal, step, way, product = work[0], work[1], work[2], work[3], work[4]
    curvature, value = np.empty(len(a)), 0.0
    for _ in range(MOST_STEPS):
        value, excess, bend = expand_opinions(
            a, b, d, win, tie, loss, lean, ability, tie_log, precision, u, gradient, diagonal, curvature
        )
        furthest = 0.0
        if ties:
            moved = (excess - tie_precision * (tie_log - tie_centre)) / (bend + tie_precision)
            moved = max(-FURTHEST, min(FURTHEST, moved))
            furthest = abs(moved)
        if own > 0.0:
            solve_step(a, b, curvature, precision, diagonal, gradient, step, way, product)
            furthest = max(furthest, np.abs(step).max())
        if furthest <= NEAR:
            break
        if ties:
            tie_log += moved
        if own > 0.0:
            u += min(1.0, FURTHEST / furthest) * step
    if own > 0.0:
        for i in range(len(u)):
            value -= 0.5 * (precision * u[i] * u[i] + math.log(diagonal[i] / precision))
        for cell in range(len(a)):
            value += 0.5 * curvature[cell] ** 2 / (diagonal[a[cell]] * diagonal[b[cell]])
    return value, tie_log


@compiled
def expand_opinions(
    a: AnyInts, b: AnyInts, d: Floats, win: Floats, tie: Floats, loss: Floats, lean: Floats, ability: float,
    tie_log: float, precision: float, u: Floats, gradient: Floats, diagonal: Floats, curvature: Floats,
) -> tuple[float, float, float]:  # fmt: skip
    """Return log L, and its first and negative second derivative by the log tie propensity.

    Sets `gradient` and `diagonal` to those of log L − precision u²/2 by u, `curvature` to what each cell adds.
    """
    ties = tie_log > -np.inf
    tie_propensity = math.exp(tie_log) if ties else 0.0
    value, excess, bend = 0.0, 0.0, 0.0
    product = 1.0  # of the totals of single votes, as far as it cannot overflow: one logarithm serves many
    for i in range(len(u)):
        gradient[i], diagonal[i] = -precision * u[i], precision
    for cell in range(len(a)):
        i, j, n = a[cell], b[cell], win[cell] + tie[cell] + loss[cell]
        y = 0.5 * (ability * d[cell] + lean[cell] + u[i] - u[j])
        lead, tied, total = shares(y, tie_propensity)
        net = win[cell] - loss[cell]
        value += net * y - n * abs(y)
        if n == 1.0 and product < PRODUCT_LIMIT:
            product *= total
        else:
            value -= n * math.log(total)
        if ties:
            value += tie[cell] * tie_log
        excess += tie[cell] - n * tied
        bend += n * tied * (1.0 - tied)
        surplus, curvature[cell] = 0.5 * (net - n * lead), 0.25 * n * (1.0 - tied - lead * lead)
        gradient[i] += surplus
        gradient[j] -= surplus
        diagonal[i] += curvature[cell]
        diagonal[j] += curvature[cell]
    return value - math.log(product), excess, bend


@compiled
def solve_step(
    a: AnyInts, b: AnyInts, curvature: Floats, precision: float, diagonal: Floats, gradient: Floats, step: Floats,
    way: Floats, product: Floats,
) -> None:  # fmt: skip
    """Set `step` to H⁻¹ times the gradient by conjugate gradients, the diagonal as preconditioner; spoils `gradient`.

    H is the precision on the diagonal plus, for each cell, its curvature times (e_a − e_b)(e_a − e_b)′.
    """
    size, left = 0.0, 0.0
    for i in range(len(step)):  # plain loops: array expressions would allocate an array each
        step[i], way[i] = 0.0, gradient[i] / diagonal[i]
        size += gradient[i] * way[i]
        left += gradient[i] * gradient[i]
    enough = EXACT * EXACT * left
    for _ in range(MOST_INNER):
        if left <= enough:
            break
        for i in range(len(way)):
            product[i] = precision * way[i]
        for cell in range(len(a)):
            pull = curvature[cell] * (way[a[cell]] - way[b[cell]])
            product[a[cell]] += pull
            product[b[cell]] -= pull
        along = 0.0
        for i in range(len(way)):
            along += way[i] * product[i]
        length, before = size / along, size
        for i in range(len(way)):
            step[i] += length * way[i]
            gradient[i] -= length * product[i]
            product[i] = gradient[i] / diagonal[i]
        size, left = 0.0, 0.0
        for i in range(len(way)):
            size += gradient[i] * product[i]
            left += gradient[i] * gradient[i]
        for i in range(len(way)):
            way[i] = way[i] * (size / before) + product[i]
