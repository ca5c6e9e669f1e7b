"""What a board would be without an annotator, or with one more: runs in the process that fits."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from app.rating.data.graph import find_components, find_identified
from app.rating.errors import VotesError
from app.rating.inference.estimate import Estimate, estimate
from app.rating.inference.influence import find_influence, leave_annotators_out
from app.rating.loop.models import make_model_estimates
from app.refits.fit.interface import FitInput

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

How = Literal["influence", "refit"]

LARGEST_TABLE = 20_000_000
"""Annotators × models up to which influences are found, which come for everybody at once (160 MB)."""

LARGEST_SHARE = 0.05
"""Of the votes that count; leaving out more of them is no small change, and no single step foresees it."""


@dataclass(frozen=True)
class Change:
    """What leaving one annotator out, or letting one in, does to the scores.

    Attributes
    ----------
    how : by influence, or by a true refit
    before, after : Elo points of each model, NaN where it has no score, shape (n_models,)
    rank : after a refit; None where influence tells no more than scores
    """

    how: How
    before: Floats
    after: Floats
    rank: NDArray[np.int64] | None = None


def leave_out(fit_input: FitInput, in_fit: Mask, annotator: int, *, exact: bool) -> Change:
    """Change of the scores if an annotator were left out; if outside the fit, let in.

    Everybody else stays in or out as they are. By influence, unless `exact` asks for a refit, or influence cannot
    tell: of somebody outside the fit, of somebody with more than one in twenty of the votes that count or without whom
    a model has no score any more, of too large a crowd.

    Parameters
    ----------
    in_fit : who counts, shape (n_annotators,)
    annotator : position among the input's

    Raises
    ------
    RatingError
        No votes are left, or those left have no ranking.
    """
    cells = fit_input.cells()
    settings = replace(fit_input.settings, interval="none")
    base = estimate(cells.where(in_fit[cells.annotator]), settings)
    before = make_model_estimates(base, settings).score
    if not (cells.annotator == annotator).any():
        return Change("influence", before, before)
    if not exact and in_fit[annotator] and _is_small_change(base, annotator):
        after = before + _foreseen(base, annotator)
        if np.isfinite(after[base.identified]).all():
            return Change("influence", before, after)
    other = in_fit.copy()
    other[annotator] = ~other[annotator]
    if not other[cells.annotator].any():
        raise VotesError("nobody else's votes count: without this annotator's there is no board to compare with")
    board = make_model_estimates(estimate(cells.where(other[cells.annotator]), settings, base.optimum), settings)
    return Change("refit", before, board.score, board.rank)


def _is_small_change(base: Estimate, annotator: int) -> bool:
    """Whether the same models keep a score without the annotator, who holds few of the votes of no too large crowd."""
    if len(base.small.annotators) * len(base.small.models) > LARGEST_TABLE:
        return False
    left = base.cells.where(base.cells.annotator != annotator)
    if left.n_votes < (1.0 - LARGEST_SHARE) * base.cells.n_votes:
        return False
    identified = find_identified(left, find_components(left), base.abilities(left.n_annotators))
    return bool(np.array_equal(identified, base.identified))


def _foreseen(base: Estimate, annotator: int) -> Floats:
    """Change of the scores without the annotator, NaN without a score, shape (n_models,)."""
    points = np.full(base.cells.n_models, np.nan)
    points[base.small.models] = 0.0
    row = np.flatnonzero(base.small.annotators == annotator)
    if len(row):  # else none of the votes is between two models that have a score
        points[base.small.models] = leave_annotators_out(find_influence(base))[row[0]]
    return points
