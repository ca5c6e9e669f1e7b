"""How few votes, and how few annotators, decide the order of two neighbours on the board."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from app.rating.data.arrays import Floats, Indices, Mask
from app.rating.data.threads import one_blas_thread
from app.rating.data.votes import Cells
from app.rating.errors import RatingError
from app.rating.inference.estimate import Estimate, estimate
from app.rating.inference.influence import Influence, find_influence, leave_annotators_out
from app.rating.robustness.fewest import fewest_annotators, fewest_votes
from app.rating.robustness.strongest import enough, strongest_annotators, strongest_votes
from app.rating.settings import LoopSettings
from app.rating.solver.gauge import ELO_PER_NATURAL
from app.rating.solver.warm_start import Start

HANDFUL = 5  # votes: a pair that so few decide is as good as tied
MOST_REFITS = 12


@dataclass(frozen=True)
class Fragility:
    """Neighbours on the board, best first, arrays of shape (n_pairs,); −1 where no number of removals is known to swap.

    Attributes
    ----------
    upper, lower : the models, indices as in the votes
    gap : Elo points between them
    votes, annotators : whose removal swaps the two, the fewest as far as influences add up: biased upwards
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


def find_fragility(result: Estimate, influence: Influence | None = None) -> Fragility:
    """Find for every two neighbours the smallest set of votes, and of annotators, whose removal swaps them.

    The sets are those with the most influence on the difference, taken until their influences add up to it.

    Parameters
    ----------
    influence : of the same estimate, if there is one already

    Notes
    -----
    Exact for small changes; for large sets influences do not quite add up, and another set may be smaller
    (`verify_votes`, `verify_annotators`). `fewest_votes` and one `leave_annotators_out`.

    References
    ----------
    Broderick, Giordano and Meager (2020), An automatic finite-sample robustness metric; Huang, Shen, Wei and Broderick
    (2025), Dropping just a handful of preferences can change top large language model rankings.
    """
    influence = influence or find_influence(result)
    upper, lower = _neighbours(result)
    gap = result.solution.R[upper] - result.solution.R[lower]
    with one_blas_thread():
        votes = fewest_votes(influence, upper, lower, gap)
        annotators = fewest_annotators(result, leave_annotators_out(influence), upper, lower, gap)
    models = result.small.models
    return Fragility(models[upper], models[lower], ELO_PER_NATURAL * result.unit[upper] * gap, votes, annotators)


def verify_votes(
    result: Estimate, settings: LoopSettings, upper: int, lower: int, influence: Influence | None = None
) -> int:
    """Find by refitting how many of the votes that hold up one model over another must go to swap the two.

    Votes go in the order of their influence. −1 if no number of them does it, or a refit fails on the way.

    Parameters
    ----------
    settings : of `result`; intervals are not made
    upper, lower : indices as in the votes, both with a score

    Notes
    -----
    Up to 12 refits, from the fit at hand: doubling from the approximate number, then halving the bracket. Removing
    more votes in this order is taken to bring the two closer.
    """
    influence = influence or find_influence(result)
    i, j = _places(result, upper, lower)
    held, verdict = strongest_votes(influence, i, j, np.inf)
    size = influence.verdicts.size[verdict]
    guess = enough(held, size, float(result.solution.R[i] - result.solution.R[j]))
    each = np.repeat(verdict, size.astype(np.int64))
    cell, kind = influence.verdicts.cell[each], influence.verdicts.kind[each]

    def swapped(number: int) -> bool:
        return _swapped(result, settings, without_votes(result.small.cells, cell[:number], kind[:number]), i, j)

    return _smallest(swapped, guess, len(each))


def verify_annotators(
    result: Estimate, settings: LoopSettings, upper: int, lower: int, influence: Influence | None = None
) -> int:
    """Find by refitting how many of the annotators who hold up one model over another must go to swap the two.

    As `verify_votes`, for annotators.
    """
    i, j = _places(result, upper, lower)
    change = leave_annotators_out(influence or find_influence(result))
    held, annotator = strongest_annotators(result, change, i, j)
    guess = enough(held, np.ones(len(held)), float(result.solution.R[i] - result.solution.R[j]))
    cells = result.small.cells

    def swapped(number: int) -> bool:
        gone = np.zeros(cells.n_annotators, dtype=bool)
        gone[annotator[:number]] = True
        return _swapped(result, settings, cells.where(~gone[cells.annotator]), i, j)

    return _smallest(swapped, guess, len(annotator))


def without_votes(cells: Cells, cell: Indices, kind: Indices) -> Cells:
    """Remove one vote for every entry: of which cell, and which (0 for model_a, 1 a tie, 2 for model_b)."""
    gone = np.zeros((len(cells.n), 3))
    np.add.at(gone, (cell, kind), 1.0)
    n, s = cells.n - gone.sum(axis=1), cells.s - gone[:, 0] - gone[:, 1] / 2.0
    return replace(cells, n=n, s=s, ties=cells.ties - gone[:, 1]).where(n > 0)


def _smallest(swapped: Callable[[int], bool], guess: int, most: int) -> int:
    """Find the smallest number for which `swapped` holds, −1 if it does for none up to `most` or a fit fails before.

    From a guess far off, the smallest of the twelve that were tried.
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


def _swapped(result: Estimate, settings: LoopSettings, cells: Cells, i: int, j: int) -> bool:
    begin = Start(ELO_PER_NATURAL * result.solution.R, result.solution.theta, 1.0)
    R = estimate(cells, replace(settings, interval="none"), begin).scores(cells.n_models)
    return bool(R[i] < R[j])  # one that has no score any more is not below


def _places(result: Estimate, *models: int) -> tuple[int, ...]:
    return tuple(int(np.searchsorted(result.small.models, model)) for model in models)


def _neighbours(result: Estimate) -> tuple[Indices, Indices]:
    """Models next to each other on the board of each component, indices in `small`: the better ones, the others."""
    R, label = result.solution.R, result.components.label[result.small.models]
    order = np.lexsort((-R, label))
    together = label[order[:-1]] == label[order[1:]]
    return order[:-1][together], order[1:][together]
