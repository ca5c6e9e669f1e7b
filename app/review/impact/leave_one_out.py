"""The scores without one annotator, or with one more. The child process runs this."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from app.rating.errors import VotesError
from app.rating.uncertainty.estimate import estimate
from app.rating.uncertainty.influence import find_influence, leave_annotator_out
from app.rating.uncertainty.rating import Rating
from app.rating.votes.graph import find_components, find_identified
from app.refits.fit.interface import FitInput

How = Literal["influence", "refit"]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

LARGEST_SHARE = 0.05
"""Largest share of the counted votes that one Newton step may leave out; with more it is too coarse."""


@dataclass(frozen=True)
class ScoreChange:
    """The scores before and after leaving one annotator out, or letting one in.

    Attributes
    ----------
    how : by influence, or by a true refit
    before, after : Elo points of each model, NaN without a score, shape (n_models,)
    few : models that are provisional before for few votes or annotators, shape (n_models,)
    rank : after a refit, 0 for a model that is then provisional for few votes or annotators; None for influence, which
        gives only scores
    """

    how: How
    before: Floats
    after: Floats
    few: Mask
    rank: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Computed:
    """The computed part of an impact.

    Attributes
    ----------
    change : of the models in `model_ids`
    inside : whether the annotator was in the fit
    votes : of the annotator that the snapshot read
    """

    change: ScoreChange
    model_ids: NDArray[np.int32]
    inside: bool
    votes: int


def compute_impact(fit_input: FitInput, in_fit: Mask, annotator: int, *, exact: bool) -> Computed:
    """Compute an impact, as `leave_out` does; the child process, which imports this module alone, calls this."""
    change = leave_out(fit_input, in_fit, annotator, exact=exact)
    votes = int((fit_input.annotator == annotator).sum())
    return Computed(change, fit_input.model_ids, bool(in_fit[annotator]), votes)


def leave_out(fit_input: FitInput, in_fit: Mask, annotator: int, *, exact: bool) -> ScoreChange:
    """Return the scores without an annotator or, for an annotator outside the fit, with them.

    Every other annotator stays in or out. One Newton step (influence) gives the scores where it is good enough. A refit
    gives them with `exact`, for an annotator outside the fit, for one with more than one in twenty of the counted
    votes, and where a model would lose its score.

    Parameters
    ----------
    in_fit : annotators that count, shape (n_annotators,)
    annotator : position among the input's annotators

    Raises
    ------
    RatingError
        No votes are left, or those left have no ranking.
    """
    cells = fit_input.cells()
    settings = replace(fit_input.settings, interval="none")
    base = estimate(cells.where(in_fit[cells.annotator]), settings)
    before, few = base.models.score, base.models.provisional  # without intervals none is too wide
    if not (cells.annotator == annotator).any():
        return ScoreChange("influence", before, before, few)
    if not exact and in_fit[annotator] and _is_small_change(base, annotator):
        after = before + _newton_step(base, annotator)
        if np.isfinite(after[base.identified]).all():
            return ScoreChange("influence", before, after, few)
    other = in_fit.copy()
    other[annotator] = ~other[annotator]
    if not other[cells.annotator].any():
        raise VotesError("no other annotator's votes count: without this annotator there is no leaderboard")
    refitted = estimate(cells.where(other[cells.annotator]), settings, base.optimum).models
    return ScoreChange("refit", before, refitted.score, few, np.where(refitted.provisional, 0, refitted.rank))


def _is_small_change(base: Rating, annotator: int) -> bool:
    """Return whether one Newton step is good enough, and all models keep their score without the annotator."""
    left = base.cells.where(base.cells.annotator != annotator)
    if left.n_votes < (1.0 - LARGEST_SHARE) * base.cells.n_votes:
        return False
    identified = find_identified(left, find_components(left), base.abilities())
    return bool(np.array_equal(identified, base.identified))


def _newton_step(base: Rating, annotator: int) -> Floats:
    """Return the change of the scores without the annotator, NaN without a score, shape (n_models,)."""
    points = np.full(base.cells.n_models, np.nan)
    points[base.small.models] = 0.0
    row = np.flatnonzero(base.small.annotators == annotator)
    if len(row):  # otherwise none of the votes is between two models with a score
        points[base.small.models] = leave_annotator_out(find_influence(base), int(row[0]))
    return points
