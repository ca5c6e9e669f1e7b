"""Every annotator's ability at fixed scores: one-dimensional concave problems."""

import math
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices, Mask
from app.rating.compiled import compiled
from app.rating.fit.kernels import moments, pair_of, squared_residual
from app.rating.fit.rows import CellRows, count_following
from app.rating.threads import map_parts
from app.rating.votes.cells import CellArrays, Cells

MOST_STEPS = 100
MOST_CORRECTED = (
    0.5  # standard errors that a correction may move a value: beyond it a first-order expansion is not valid
)


class ProfiledAbilities(NamedTuple):
    """The maximum of each annotator's own objective, arrays of shape (n_annotators,).

    All but `theta` are taken at the last point of the search, at most a step of `near` away from it.

    Attributes
    ----------
    theta : the maximum; the start for an annotator whose objective is flat
    value : the objective; 0 unless `valued`
    information : −ℓ_k'' · weight, without the prior
    third : derivative of `information` by θ_k
    noise : Σ (W − p)² d² over the votes
    """

    theta: Floats
    value: Floats
    information: Floats
    third: Floats
    noise: Floats


class OwnTerms(NamedTuple):
    """The objective of one ability, and how well it is maximised; as for `profile_abilities`.

    Attributes
    ----------
    multiplier : λ of the constraint on the scale, shape (n_annotators,); 0 without one
    cap : upper bound on θ
    """

    weight: float
    precision: float
    multiplier: Floats
    cap: float
    near: float
    valued: bool


class Bracket(NamedTuple):
    """Where each of the abilities listed is, and whether its search goes on; shape (n_listed,)."""

    low: Floats
    high: Floats
    moving: Mask


def profile_abilities(
    rows: CellRows,
    R: Floats,
    start: Floats,
    *,
    precision: float,
    weight: float = 1.0,
    near: float = 1e-6,
    valued: bool = False,
) -> ProfiledAbilities:
    """Maximise weight · ℓ_k(θ_k | R) − precision · (θ_k − 1)²/2 for every annotator.

    Parameters
    ----------
    rows : the annotators' votes
    R : natural units, shape (n_models,)
    start : finite, shape (n_annotators,)
    precision : 1/sd² of the prior; 0 for no prior, which needs votes both along and against R from every annotator
    near : the search stops after a step of at most this length; the error is of its square in θ, and of itself in the
        derivatives
    valued : whether to compute the objective itself

    Notes
    -----
    Newton's method within a bracket, which always converges. Annotators are independent of each other.
    """
    own = ProfiledAbilities(start.copy(), *(np.zeros(len(start)) for _ in range(4)))
    terms = OwnTerms(weight, precision, np.zeros(len(start)), np.inf, near, valued)

    def profile_part(part: tuple[int, int]) -> None:
        profile_annotators(np.arange(*part), rows, R, terms, own)

    map_parts(profile_part, rows.parts)
    return own


def profile_annotators(who: Indices, rows: CellRows, R: Floats, terms: OwnTerms, own: ProfiledAbilities) -> None:
    """Set the arrays for the annotators listed, starting from `own.theta`, which is at most `cap`.

    Of the objective λ_k 0.3 tanh((θ_k − 1)/0.3) is taken off, λ_k the multiplier of the constraint on the scale.
    """
    c, starts = rows.cells, rows.starts
    low, high = np.full(len(who), -np.inf), np.full(len(who), np.inf)
    for _ in range(MOST_STEPS):
        u = np.empty(int((starts[who + 1] - starts[who]).sum()))
        list_distances(who, c.arrays, R, own.theta, u)
        np.exp(u, out=u)
        moving = np.zeros(len(who), dtype=np.bool_)
        step_abilities(who, c.arrays, R, u, terms, own, Bracket(low, high, moving))
        who, low, high = who[moving], low[moving], high[moving]
        if len(who) == 0:
            break


@compiled
def list_distances(who: Indices, cells: CellArrays, R: Floats, theta: Floats, out: Floats) -> None:
    """Set `out` to −|x|, x = θ_k (R_a − R_b), of the cells of the annotators listed, one after the other."""
    starts, model_a, model_b = cells.starts, cells.model_a, cells.model_b
    place = 0
    for k in who:
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            out[place] = -abs(theta[k] * (R[a] - R[b]))
            place += 1


@compiled
def step_abilities(
    who: Indices, cells: CellArrays, R: Floats, u: Floats, terms: OwnTerms, own: ProfiledAbilities, bracket: Bracket
) -> None:
    """Set the arrays of the annotators listed at their abilities, and move these by a step of `profile_annotators`.

    u is e^−|x| of their cells, one after the other.
    """
    starts, model_a, model_b, n, s, ties = cells.starts, cells.model_a, cells.model_b, cells.n, cells.s, cells.ties
    weight, precision, multiplier, cap, near, valued = terms
    theta, value, information, third, noise = own
    low, high, moving = bracket
    first = 0
    for place in range(len(who)):
        k = who[place]
        ability, likelihood, slope, bend, skewness, squares = theta[k], 0.0, 0.0, 0.0, 0.0, 0.0
        offset = first - starts[k]
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            d = R[a] - R[b]
            x, e = ability * d, u[offset + cell]
            p, variance, skew = moments(x, e)
            if valued:
                likelihood += s[cell] * x - n[cell] * (max(x, 0.0) + math.log1p(e))
            slope += (s[cell] - n[cell] * p) * d
            bend += n[cell] * variance * d * d
            skewness += n[cell] * skew * d * d * d
            squares += squared_residual(p, n[cell], s[cell], ties[cell]) * d * d
        first = offset + starts[k + 1]
        if valued:
            value[k] = weight * likelihood - 0.5 * precision * (ability - 1.0) ** 2
        information[k], third[k], noise[k] = weight * bend, weight * skewness, squares
        gradient = weight * slope - precision * (ability - 1.0)
        curvature = weight * bend + precision
        if gradient == 0.0 or curvature <= 0.0 or (ability >= cap and gradient > 0.0):
            continue
        if gradient > 0.0:
            low[place] = ability
        else:
            high[place] = ability
        furthest = 2.0 + abs(ability)
        step = min(max(gradient / curvature, -furthest), furthest)
        stepped = min(ability + step, cap)
        if abs(stepped - ability) <= near:
            theta[k] = stepped
        else:
            theta[k] = stepped if low[place] < stepped < high[place] else 0.5 * (low[place] + high[place])
            moving[place] = True
