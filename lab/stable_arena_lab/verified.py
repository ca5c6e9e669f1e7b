"""How few votes, or annotators, decide the order of two models, found by fitting again."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.errors import RatingError
from app.rating.settings import LoopSettings
from app.rating.uncertainty.estimate import fit_without_errors
from app.rating.uncertainty.influence import (
    VERDICTS,
    Influence,
    VoteChange,
    find_influence,
    leave_annotators_out,
)
from app.rating.uncertainty.results import Start
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.fragility import enough, strongest
from app.rating.verdict.rating import Rating
from app.rating.votes.cells import Cells

MOST_REFITS = 12


def verify_votes(
    result: Rating,
    settings: LoopSettings,
    upper: int,
    lower: int,
    influence: Influence | None = None,
    change: VoteChange = "dropped",
) -> int:
    """Find by fitting again how many votes, in the order of their influence, must be changed to swap two models.

    −1 if no number of them swaps the two, or a fit fails on the way.

    Parameters
    ----------
    settings : of `result`, without intervals
    upper, lower : indices as in the votes, both with a score
    change : how a vote is changed

    Notes
    -----
    Up to 12 fits, each started from `result`: doubles the approximate number, then bisects. It assumes that changing
    more votes in this order brings the two closer.
    """
    influence = influence or find_influence(result)
    i, j = _places(result, upper, lower)
    contrast, votes = np.zeros(result.small.cells.n_models), influence.vote_groups(change)
    contrast[[i, j]] = 1.0, -1.0
    influences = influence.of_votes(contrast, change)
    group = strongest(influences, votes.size, np.inf)
    size = votes.size[group]
    guess = enough(influences[group], size, float(result.fit.R[i] - result.fit.R[j]))
    each = np.repeat(group, size.astype(np.int64))
    cell, kind = votes.cell[each], votes.kind[each]

    def swapped(number: int) -> bool:
        return _swapped(result, settings, change_votes(result.small.cells, change, cell[:number], kind[:number]), i, j)

    return smallest(swapped, guess, len(each))


def verify_annotators(
    result: Rating, settings: LoopSettings, upper: int, lower: int, influence: Influence | None = None
) -> int:
    """Find by fitting again how many annotators, in the order of their influence, must be removed to swap two models.

    As `verify_votes`, for annotators.
    """
    i, j = _places(result, upper, lower)
    change = leave_annotators_out(influence or find_influence(result))
    influences, annotator = strongest_annotators(change, i, j)
    guess = enough(influences, np.ones(len(influences)), float(result.fit.R[i] - result.fit.R[j]))
    cells = result.small.cells

    def swapped(number: int) -> bool:
        gone = np.zeros(cells.n_annotators, dtype=bool)
        gone[annotator[:number]] = True
        return _swapped(result, settings, cells.where(~gone[cells.annotator]), i, j)

    return smallest(swapped, guess, len(annotator))


def change_votes(cells: Cells, change: VoteChange, cell: Indices, kind: Indices) -> Cells:
    """Return the votes after one change for each entry of `cell`, of a vote of the kind in `kind`."""
    changes = np.zeros((len(cells.n), 3))
    np.add.at(changes, (cell, kind), 1.0)
    number = {"dropped": -1.0, "flipped": 0.0, "added": 1.0}[change]
    won = number * VERDICTS if number else 1.0 - 2.0 * VERDICTS
    n = cells.n + number * changes.sum(axis=1)
    ties = cells.ties + number * changes[:, 1]
    return replace(cells, n=n, s=cells.s + changes @ won, ties=ties).where(n > 0)


def smallest(swapped: Callable[[int], bool], guess: int, most: int) -> int:
    """Find the smallest number for which `swapped` holds; −1 if there is none up to `most`, or a fit fails first.

    After twelve tries, return the smallest number tried that swaps.
    """
    kept, found, number = 0, -1, min(max(1, guess), most)
    for _ in range(MOST_REFITS):
        if number == kept:
            break
        try:
            if swapped(number):
                found = number
            else:
                kept = number
        except RatingError:
            break
        if found == kept + 1:
            break
        number = min(most, 2 * kept) if found < 0 else (kept + found) // 2
    return found


def _swapped(result: Rating, settings: LoopSettings, cells: Cells, i: int, j: int) -> bool:
    begin = Start(ELO_PER_NATURAL * result.fit.R)
    R = fit_without_errors(cells, settings, begin).natural_scores()
    return bool(R[i] < R[j])  # false where one has no score any more


def _places(result: Rating, *models: int) -> tuple[int, ...]:
    return tuple(int(np.searchsorted(result.small.models, model)) for model in models)


def strongest_annotators(change: Floats, i: int, j: int) -> tuple[Floats, Indices]:
    """Return the influences on R_i − R_j, natural units, and their annotators, the largest first.

    Parameters
    ----------
    change : from `leave_annotators_out`
    """
    influences = np.nan_to_num((change[:, j] - change[:, i]) / ELO_PER_NATURAL, nan=-np.inf)
    who = np.argsort(-influences, kind="stable")[: np.count_nonzero(influences > 0)]
    return influences[who], who
