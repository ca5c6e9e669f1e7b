"""How few votes, and how few annotators, decide the order of two neighbours on the leaderboard."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from app.rating.data.arrays import Floats, Indices, Mask
from app.rating.data.threads import one_blas_thread
from app.rating.data.votes import Cells
from app.rating.errors import RatingError
from app.rating.inference.estimate import estimate
from app.rating.inference.influence import Influence, find_influence, leave_annotators_out
from app.rating.inference.rating import Rating
from app.rating.robustness.fewest import fewest_annotators, fewest_votes
from app.rating.robustness.strongest import enough, strongest_annotators, strongest_votes
from app.rating.settings import LoopSettings
from app.rating.solver.gauge import ELO_PER_NATURAL
from app.rating.solver.warm_start import Start

HANDFUL = 5  # votes: a pair that so few votes decide counts as tied
MOST_REFITS = 12


@dataclass(frozen=True)
class Fragility:
    """Neighbours on the leaderboard, best first, arrays of shape (n_pairs,); −1 where no number of removals swaps them.

    Attributes
    ----------
    upper, lower : the models, indices as in the votes
    gap : Elo points between them
    votes, annotators : the fewest whose removal swaps the two, as far as influences add up (an upper bound)
    """

    upper: Indices
    lower: Indices
    gap: Floats
    votes: Indices
    annotators: Indices

    @property
    def tied(self) -> Mask:
        """Pairs that a handful of votes decides."""
        tied: Mask = (self.votes >= 0) & (self.votes <= HANDFUL)
        return tied


def find_fragility(result: Rating, influence: Influence | None = None) -> Fragility:
    """Find for every two neighbours the smallest set of votes, and of annotators, whose removal swaps them.

    The sets have the largest influences on the difference, taken until they add up to it.

    Parameters
    ----------
    influence : of the same estimate; computed by default

    Notes
    -----
    Exact for small changes. Influences of large sets do not quite add up, and another set may be smaller:
    `verify_votes` and `verify_annotators` fit again. Costs a `fewest_votes` and a `leave_annotators_out`.

    References
    ----------
    Broderick, Giordano and Meager (2020), An automatic finite-sample robustness metric; Huang, Shen, Wei and Broderick
    (2025), Dropping just a handful of preferences can change top large language model rankings.
    """
    influence = influence or find_influence(result)
    upper, lower = _neighbours(result)
    gap = result.fit.scores[upper] - result.fit.scores[lower]
    with one_blas_thread():
        votes = fewest_votes(influence, upper, lower, gap)
        annotators = fewest_annotators(result, leave_annotators_out(influence), upper, lower, gap)
    models = result.small.models
    return Fragility(models[upper], models[lower], ELO_PER_NATURAL * result.unit[upper] * gap, votes, annotators)


def verify_votes(
    result: Rating, settings: LoopSettings, upper: int, lower: int, influence: Influence | None = None
) -> int:
    """Find by fitting again how many votes, in the order of their influence, must be removed to swap two models.

    −1 if no number of them swaps the two, or a fit fails on the way.

    Parameters
    ----------
    settings : of `result`, without intervals
    upper, lower : indices as in the votes, both with a score

    Notes
    -----
    Up to 12 fits, each started from `result`: doubles the approximate number, then bisects. It assumes that removing
    more votes in this order brings the two closer.
    """
    influence = influence or find_influence(result)
    i, j = _places(result, upper, lower)
    influences, group = strongest_votes(influence, i, j, np.inf)
    size = influence.vote_groups.size[group]
    guess = enough(influences, size, float(result.fit.scores[i] - result.fit.scores[j]))
    each = np.repeat(group, size.astype(np.int64))
    cell, kind = influence.vote_groups.cell[each], influence.vote_groups.kind[each]

    def swapped(number: int) -> bool:
        return _swapped(result, settings, without_votes(result.small.cells, cell[:number], kind[:number]), i, j)

    return _smallest(swapped, guess, len(each))


def verify_annotators(
    result: Rating, settings: LoopSettings, upper: int, lower: int, influence: Influence | None = None
) -> int:
    """Find by fitting again how many annotators, in the order of their influence, must be removed to swap two models.

    As `verify_votes`, for annotators.
    """
    i, j = _places(result, upper, lower)
    change = leave_annotators_out(influence or find_influence(result))
    influences, annotator = strongest_annotators(result, change, i, j)
    guess = enough(influences, np.ones(len(influences)), float(result.fit.scores[i] - result.fit.scores[j]))
    cells = result.small.cells

    def swapped(number: int) -> bool:
        gone = np.zeros(cells.n_annotators, dtype=bool)
        gone[annotator[:number]] = True
        return _swapped(result, settings, cells.where(~gone[cells.annotator]), i, j)

    return _smallest(swapped, guess, len(annotator))


def without_votes(cells: Cells, cell: Indices, kind: Indices) -> Cells:
    """Remove one vote for every entry of `cell`, of the kind in `kind`: 0 for model_a, 1 a tie, 2 for model_b."""
    gone = np.zeros((len(cells.n), 3))
    np.add.at(gone, (cell, kind), 1.0)
    n, s = cells.n - gone.sum(axis=1), cells.s - gone[:, 0] - gone[:, 1] / 2.0
    return replace(cells, n=n, s=s, ties=cells.ties - gone[:, 1]).where(n > 0)


def _smallest(swapped: Callable[[int], bool], guess: int, most: int) -> int:
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
    begin = Start(ELO_PER_NATURAL * result.fit.scores, result.fit.abilities, 1.0)
    R = estimate(cells, replace(settings, interval="none"), begin).scores()
    return bool(R[i] < R[j])  # false where one has no score any more


def _places(result: Rating, *models: int) -> tuple[int, ...]:
    return tuple(int(np.searchsorted(result.small.models, model)) for model in models)


def _neighbours(result: Rating) -> tuple[Indices, Indices]:
    """Return models next to each other in each component, as indices in `small`: the better ones, the others."""
    R, label = result.fit.scores, result.components.label[result.small.models]
    order = np.lexsort((-R, label))
    together = label[order[:-1]] == label[order[1:]]
    return order[:-1][together], order[1:][together]
