"""Boards between two snapshots, which nobody published: fitted in the process that fits."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.rating.data.votes import Cells, aggregate
from app.rating.loop.board import make_board
from app.rating.results import LoopSettings
from app.rating.solver.estimate import estimate
from app.refits.fit.fitting import fit_turn, task_cells
from app.refits.fit.task import FitTask
from app.refits.load import CountedVotes
from app.review.impact.leaving import Floats, Mask


@dataclass(frozen=True)
class Crowd:
    """Who has votes left in a snapshot, and who of them counts, shape (n_annotators,) each."""

    voted: Mask
    counted: Mask


Counted = Crowd | FitTask
"""Who counts in a snapshot: known, or to be found by running its refit again."""


@dataclass(frozen=True)
class Between:
    """What was read of two snapshots, for the boards between them.

    Attributes
    ----------
    votes : the earlier snapshot's, those left out that are over the later policy's quota
    sizes : n_annotators and n_models
    before, after : who has votes and counts in the earlier snapshot and in the later
    settings : of the later, with the method asked about
    policy_changed : whether how scores are estimated differs: settings, quota, the service's version
    votes_changed : whether the later snapshot has other votes
    """

    votes: CountedVotes
    sizes: tuple[int, int]
    before: Counted
    after: Counted
    settings: LoopSettings
    policy_changed: bool
    votes_changed: bool


@dataclass(frozen=True)
class State:
    """A board between two snapshots.

    Attributes
    ----------
    score : Elo points, NaN where a model has none, shape (n_models,)
    component : of each model's; −1 for a model without a counted vote
    """

    score: Floats
    component: NDArray[np.int64]


@dataclass(frozen=True)
class States:
    """The boards between two snapshots; None where the one before it is the same.

    Attributes
    ----------
    policy : the earlier votes and crowd under the later policy; None is the earlier board
    crowd : the earlier votes of the later crowd under the later policy; None is the board before
    """

    policy: State | None
    crowd: State | None


def fit_states(between: Between) -> States:
    """Fit what lies between two snapshots, where it differs from its neighbours.

    Raises
    ------
    RatingError
        The votes of such a state have no ranking.
    """
    n_annotators, n_models = between.sizes
    votes = between.votes
    cells = aggregate(
        votes.annotator, votes.model_a, votes.model_b, votes.outcome, n_annotators=n_annotators, n_models=n_models
    )
    before, later = _crowd(between.before).counted, _crowd(between.after)
    # Nobody judged those whose votes are all gone: what the board lost with them, it lost with the votes.
    after = np.where(later.voted, later.counted, before)
    policy = crowd = None
    if between.policy_changed:
        policy = _fit(cells, before, between.settings)
    # Who is new in the later crowd has no votes among the earlier ones, and makes no difference to them.
    if between.votes_changed and bool(np.any((before != after) & (cells.votes_by_annotator() > 0))):
        crowd = _fit(cells, after, between.settings)
    return States(policy, crowd)


def _crowd(counted: Counted) -> Crowd:
    if isinstance(counted, FitTask):
        crowd = fit_turn(counted, task_cells(counted)).rating.crowd
        enough = (crowd.standing != "pending") & ~counted.keep_never
        return Crowd(crowd.votes > 0, enough & (counted.keep_always | (crowd.standing != "excluded")))
    return counted


def _fit(cells: Cells, counted: Mask, settings: LoopSettings) -> State:
    board = make_board(estimate(cells.where(counted[cells.annotator]), settings), settings)
    return State(board.score, board.component)
