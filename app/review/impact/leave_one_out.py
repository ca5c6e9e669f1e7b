"""The scores without some annotators, or with more. The child process, which imports this module alone, runs it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import Floats, Mask
from app.rating.errors import VotesError

if TYPE_CHECKING:  # servers know the answers, and only their children the mathematics
    from collections.abc import Sequence

    from app.rating.verdict.rating import Rating
    from app.refits.fit.interface import FitInput

DECIDED = ("excluded", "trusted", "active")
"""Standings that a decision sets; the others are the rule's."""


@dataclass(frozen=True)
class ScoreChange:
    """The scores before and after leaving annotators out, or letting them in.

    Attributes
    ----------
    inside : whether one of the annotators was in the fit
    votes : of the annotators that the snapshot read
    model_ids : of the models, shape (n_models,)
    before, after : Elo points of each model, NaN without a score, shape (n_models,)
    unranked : provisional models before, for few votes or annotators, shape (n_models,)
    rank_before : 0 for these models
    rank : 0 for a model that then has no score, or few votes or annotators
    """

    inside: bool
    votes: int
    model_ids: NDArray[np.int32]
    before: Floats
    after: Floats
    unranked: Mask
    rank_before: NDArray[np.int64]
    rank: NDArray[np.int64]


def leave_out(
    fit_input: FitInput, annotators: NDArray[np.int64], decided: Sequence[tuple[int, str]] = ()
) -> ScoreChange:
    """Return the scores without annotators or, if all of them are outside the fit, with them.

    Both are what a refit of the same votes publishes: with the annotators' standing as it is, and with a decision that
    excludes them, or trusts them. So the others' standings follow the rule in both.

    `annotators`: positions among the input's annotators.
    `decided`: other annotators' positions, and the standings that decisions of theirs have set since.
    Raises RatingError: no votes are left, or those left have no ranking.
    """
    settings, overrides = replace(fit_input.settings, interval="none"), fit_input.overrides.astype("<U8")
    for position, standing in decided:
        overrides[position] = standing if standing in DECIDED else ""
    base = fit_input.run_round(settings, overrides)
    counted, own = base.cells.votes_by_annotator() > 0, fit_input.votes_by_annotator
    inside = bool(counted[annotators].any())
    votes = int(np.isin(fit_input.annotator, annotators).sum() if own is None else own[annotators].sum().round())
    after = base
    if votes:
        counted[annotators] = not inside
        if not counted[fit_input.annotator].any():
            raise VotesError(
                "no other annotator's votes count: without this annotator there is no leaderboard", "no-votes"
            )
        overrides[annotators] = "excluded" if inside else "trusted"
        after = fit_input.run_round(settings, overrides, None if inside else annotators)
    unranked = ~base.models.ranked  # without intervals none is too wide
    before, later = base.models.score, after.models.score
    return ScoreChange(inside, votes, fit_input.model_ids, before, later, unranked, _ranks(base), _ranks(after))


def _ranks(rating: Rating) -> NDArray[np.int64]:
    ranks: NDArray[np.int64] = np.where(rating.models.ranked, rating.models.rank, 0)
    return ranks
