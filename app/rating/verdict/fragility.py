"""How few votes, and how few annotators, decide the order of a leaderboard: dropped, flipped or added."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from app.rating.arrays import Floats, Indices, Mask
from app.rating.errors import RatingError
from app.rating.fit.scale import ELO_PER_NATURAL
from app.rating.fit.warm_start import Start
from app.rating.settings import LoopSettings
from app.rating.threads import one_blas_thread
from app.rating.uncertainty.estimate import estimate
from app.rating.uncertainty.influence import Influence, find_influence, leave_annotators_out
from app.rating.uncertainty.rating import Rating
from app.rating.uncertainty.vote_changes import ADDED, DROPPED, FLIPPED, VoteChange
from app.rating.verdict.fewest import enough, fewest_annotators, fewest_votes, strongest_annotators, strongest_votes
from app.rating.votes.cells import Cells

HANDFUL = 5  # votes: a pair that so few votes decide counts as tied
MOST_REFITS = 12
MOST_BEST = 10  # for the best 1 to 10 models it is found how few changes put another among them
NEAREST = 3  # models on either side of the line between the best k and the others that are looked at


@dataclass(frozen=True)
class Fewest:
    """The fewest changes, as far as their influences add up; int arrays of one shape, −1 where no number is known.

    Attributes
    ----------
    dropped, flipped : votes taken away, and votes with the opposite verdict (ties stay as they are)
    added : new votes by the annotators who count, each at most as many on a pair as they cast there
    annotators : taken away with all their votes
    """

    dropped: Indices
    flipped: Indices
    added: Indices
    annotators: Indices


@dataclass(frozen=True)
class Fragility:
    """How few changes of the votes change the order.

    Attributes
    ----------
    upper, lower : neighbours on the leaderboard, best first, indices as in the votes, shape (n_pairs,)
    gap : Elo points between them
    swap : the fewest that swap two neighbours, shape (n_pairs,)
    best : the fewest that change which models are the best k of the component with the most votes, at k = 1, 2, …; at
        most 10, and fewer than its models
    """

    upper: Indices
    lower: Indices
    gap: Floats
    swap: Fewest
    best: Fewest

    @property
    def tied(self) -> Mask:
        """Pairs that a handful of votes decides."""
        tied: Mask = (self.swap.dropped >= 0) & (self.swap.dropped <= HANDFUL)
        return tied


def find_fragility(result: Rating, influence: Influence | None = None, *, ranked: Mask | None = None) -> Fragility:
    """Find the smallest sets of changes that swap neighbours, and that change which models are the best.

    The sets have the largest influences on the difference of two models, taken until they add up to it. The best k
    change once one of them swaps with one of the others; of both the nearest three are looked at.

    Parameters
    ----------
    influence : of the same estimate; computed by default
    ranked : models that have a rank, shape (n_models,); by default those with a score

    Notes
    -----
    Exact for small changes. Influences of large sets do not quite add up, and another set may be smaller:
    `verify_votes` and `verify_annotators` fit again. Costs three `fewest_votes` and a `leave_annotators_out`.

    References
    ----------
    Broderick, Giordano and Meager (2020), An automatic finite-sample robustness metric; Huang, Shen, Wei and Broderick
    (2025), Dropping just a handful of preferences can change top large language model rankings.
    """
    influence = influence or find_influence(result)
    small = result.small.models
    order, label = _best_first(result, np.ones(len(small), dtype=bool) if ranked is None else ranked[small])
    together = label[:-1] == label[1:]
    neighbours = order[:-1][together], order[1:][together]
    best = _candidates(order[label == 0])
    upper, lower = (np.concatenate([near, *(pairs[side] for pairs in best)]) for side, near in enumerate(neighbours))
    gap = result.fit.scores[upper] - result.fit.scores[lower]
    with one_blas_thread():
        votes = [fewest_votes(influence, upper, lower, gap, change) for change in (DROPPED, FLIPPED, ADDED)]
        annotators = fewest_annotators(result, leave_annotators_out(influence), upper, lower, gap)
    found, ends = [*votes, annotators], np.cumsum([len(neighbours[0]), *(len(pairs[0]) for pairs in best)])
    upper, lower = upper[: ends[0]], lower[: ends[0]]
    return Fragility(
        small[upper], small[lower], ELO_PER_NATURAL * result.unit[upper] * gap[: ends[0]],
        Fewest(*(counts[: ends[0]] for counts in found)),
        Fewest(*(_least(np.split(counts, ends)[1:-1]) for counts in found)),
    )  # fmt: skip


def verify_votes(
    result: Rating,
    settings: LoopSettings,
    upper: int,
    lower: int,
    influence: Influence | None = None,
    change: VoteChange = DROPPED,
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
    influences, group = strongest_votes(influence, i, j, np.inf, change)
    votes = influence.vote_groups(change)
    size = votes.size[group]
    guess = enough(influences, size, float(result.fit.scores[i] - result.fit.scores[j]))
    each = np.repeat(group, size.astype(np.int64))
    cell, kind = votes.cell[each], votes.kind[each]

    def swapped(number: int) -> bool:
        return _swapped(result, settings, change.apply(result.small.cells, cell[:number], kind[:number]), i, j)

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


def _best_first(result: Rating, ranked: Mask) -> tuple[Indices, Indices]:
    """Return the models, best first in each component, as indices in `small`; and their components."""
    label = result.components.label[result.small.models]
    order = np.lexsort((-result.fit.scores, label))
    order = order[ranked[order]]
    return order, label[order]


def _candidates(order: Indices) -> list[tuple[Indices, Indices]]:
    """Return for k = 1, 2, … the pairs of one of the best k models and one of the others, of both the nearest three."""
    pairs = []
    for k in range(1, min(MOST_BEST, len(order) - 1) + 1):
        inside, outside = order[max(0, k - NEAREST) : k], order[k : k + NEAREST]
        pairs.append((np.repeat(inside, len(outside)), np.tile(outside, len(inside))))
    return pairs


def _least(parts: list[Indices]) -> Indices:
    """Return the smallest known number of each part, −1 where none is."""
    known = [part[part >= 0] for part in parts]
    return np.array([part.min() if len(part) else -1 for part in known], dtype=np.int64)
