"""The scores without some annotators, or with more. The child process, which imports this module alone, runs it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from app.rating.errors import VotesError
from app.rating.uncertainty.influence import find_influence, leave_annotator_out
from app.rating.verdict.rating import Rating
from app.rating.votes.graph import find_components, find_identified
from app.refits.fit.interface import FitInput

How = Literal["influence", "refit"]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

LARGEST_SHARE = 0.05
"""Largest share of the counted votes that one Newton step may leave out; with more it is too coarse."""


@dataclass(frozen=True)
class ScoreChange:
    """The scores before and after leaving annotators out, or letting them in.

    Attributes
    ----------
    how : by influence, or by a true refit
    inside : whether one of the annotators was in the fit
    votes : of the annotators that the snapshot read
    model_ids : of the models, shape (n_models,)
    before, after : Elo points of each model, NaN without a score, shape (n_models,)
    unranked : provisional models before, for few votes or annotators, shape (n_models,)
    rank_before : 0 for these models
    rank : after a refit, 0 for a model that then has no score, or few votes or annotators; None for influence, which
        gives only scores
    """

    how: How
    inside: bool
    votes: int
    model_ids: NDArray[np.int32]
    before: Floats
    after: Floats
    unranked: Mask
    rank_before: NDArray[np.int64]
    rank: NDArray[np.int64] | None = None


def leave_out(
    fit_input: FitInput, in_fit: Mask, unflagged: Mask, annotators: NDArray[np.int64], *, exact: bool
) -> ScoreChange:
    """Return the scores without annotators or, if all of them are outside the fit, with them.

    Every other annotator stays in or out. One Newton step (influence) gives the scores where it is good enough. A refit
    gives them with `exact`, for several annotators, for annotators outside the fit, for one with more than one in
    twenty of the counted votes, where a model would lose its score, and where votes weigh less because annotators push
    a model.

    `in_fit`, `unflagged`: annotators whose votes count, and of those the ones in the unit, shape (n_annotators,).
    `annotators`: positions among the input's annotators.
    Raises RatingError: no votes are left, or those left have no ranking.
    """
    base = fit_input.fit_again(in_fit, unflagged)
    before, unranked = base.models.score, ~base.models.ranked  # without intervals none is too wide
    inside, own = bool(in_fit[annotators].any()), fit_input.votes_by_annotator
    votes = int(np.isin(fit_input.annotator, annotators).sum() if own is None else own[annotators].sum().round())

    def change(how: How, after: Floats, rank: NDArray[np.int64] | None = None) -> ScoreChange:
        return ScoreChange(how, inside, votes, fit_input.model_ids, before, after, unranked, _ranks(base), rank)

    if not votes:
        return change("influence", before)
    if not exact and inside and len(annotators) == 1 and _is_small_change(base, int(annotators[0])):
        after = before + _newton_step(base, int(annotators[0]))
        if np.isfinite(after[base.identified]).all():
            return change("influence", after)
    other, also = in_fit.copy(), unflagged.copy()
    other[annotators] = also[annotators] = not inside
    if not other[fit_input.annotator].any():
        raise VotesError("no other annotator's votes count: without this annotator there is no leaderboard", "no-votes")
    refitted = fit_input.fit_again(other, also, base.optimum)
    return change("refit", refitted.models.score, _ranks(refitted))


def _ranks(rating: Rating) -> NDArray[np.int64]:
    ranks: NDArray[np.int64] = np.where(rating.models.ranked, rating.models.rank, 0)
    return ranks


def _is_small_change(base: Rating, annotator: int) -> bool:
    """Return whether one Newton step is good enough, and all models keep their score without the annotator.

    Where votes are in doubt they weigh otherwise without any one annotator.
    """
    if base.cells.trust is not None:
        return False
    left = base.cells.where(base.cells.annotator != annotator)
    if left.n_votes < (1.0 - LARGEST_SHARE) * base.cells.n_votes:
        return False
    identified = find_identified(left, find_components(left), base.bounding)
    return bool(np.array_equal(identified, base.identified))


def _newton_step(base: Rating, annotator: int) -> Floats:
    """Return the change of the scores without the annotator, NaN without a score, shape (n_models,)."""
    points = np.full(base.cells.n_models, np.nan)
    points[base.small.models] = 0.0
    row = np.flatnonzero(base.small.annotators == annotator)
    if len(row):  # otherwise none of the votes is between two models with a score
        points[base.small.models] = leave_annotator_out(find_influence(base), int(row[0]))
    return points
