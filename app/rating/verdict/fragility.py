"""How few votes, annotators and prompts decide the order of a leaderboard: dropped, or votes flipped or added."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Indices, Mask, sum_by
from app.rating.threads import map_parts, one_blas_thread
from app.rating.uncertainty.influence import Influence, VoteChange, find_influence, leave_annotators_out
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.rating import Rating

PAIRS_AT_ONCE = 128
LOOKS = (0.5, 0.1, 0.02, 0.0)  # shares of the largest influence above which votes are sorted, until they are enough

CHANGES: tuple[VoteChange, ...] = ("dropped", "flipped", "added")
HANDFUL = 5  # votes: a pair that so few votes decide counts as tied
MOST_BEST = 10  # for the best 1 to 10 models it is found how few changes put another among them
NEAREST = 3  # models on either side of the line between the best k and the others that are looked at


@dataclass(frozen=True)
class Fewest:
    """The fewest changes, as far as their influences add up; int arrays of one shape, −1 where no number is known.

    Attributes
    ----------
    dropped, flipped : votes taken away, and votes with the opposite verdict (ties stay as they are)
    added : new votes by the annotators who count, each at most as many on a pair as they cast there
    annotators, prompts : taken away with all their votes; of prompts −1 where they are not known
    """

    dropped: Indices
    flipped: Indices
    added: Indices
    annotators: Indices
    prompts: Indices


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
    `verify_votes` and `verify_annotators` fit again. Costs a `fewest_votes` and a `leave_annotators_out`.

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
    gap = result.fit.R[upper] - result.fit.R[lower]
    with one_blas_thread():
        votes, prompts = fewest_votes(influence, upper, lower, gap), fewest_prompts(influence, upper, lower, gap)
        annotators = fewest_annotators(leave_annotators_out(influence), upper, lower, gap)
    found, ends = [*votes, annotators, prompts], np.cumsum([len(neighbours[0]), *(len(pairs[0]) for pairs in best)])
    upper, lower = upper[: ends[0]], lower[: ends[0]]
    return Fragility(
        small[upper], small[lower], ELO_PER_NATURAL * gap[: ends[0]],
        Fewest(*(counts[: ends[0]] for counts in found)),
        Fewest(*(_least(np.split(counts, ends)[1:-1]) for counts in found)),
    )  # fmt: skip


def _best_first(result: Rating, ranked: Mask) -> tuple[Indices, Indices]:
    """Return the models, best first in each component, as indices in `small`; and their components."""
    label = result.components.label[result.small.models]
    order = np.lexsort((-result.fit.R, label))
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


def fewest_votes(influence: Influence, upper: Indices, lower: Indices, gap: Floats) -> Indices:
    """Find for every pair the smallest number of changed votes whose influences on R_upper − R_lower exceed its gap.

    Parameters
    ----------
    upper, lower : of models, indices as in `influence.rating.small`, shape (n_pairs,)
    gap : R_upper − R_lower, shape (n_pairs,)

    Returns
    -------
    int array, shape (3, n_pairs), by `CHANGES`; −1 where the influences of all votes do not exceed it

    Notes
    -----
    O(n_cells × n_pairs), memory O(n_annotators × 128).
    """
    ways = [influence.vote_groups(change) for change in CHANGES]

    def count(moved: Floats, distance: float) -> list[int]:
        return [_fewest(votes.residual * moved[votes.cell], votes.size, distance) for votes in ways]

    return _count_each(influence, upper, lower, gap, count, len(ways))


def fewest_prompts(influence: Influence, upper: Indices, lower: Indices, gap: Floats) -> Indices:
    """Find for every pair the smallest number of prompts without which it swaps, −1 where none is known.

    Parameters
    ----------
    upper, lower, gap : as for `fewest_votes`
    """
    prompts = influence.prompt_groups()
    if prompts is None:
        return np.full(len(gap), -1)

    def count(moved: Floats, distance: float) -> list[int]:
        influences = sum_by(prompts.prompt, prompts.residual * moved[prompts.cell], prompts.number)
        return [_fewest(influences, np.ones(prompts.number), distance)]

    fewest: Indices = _count_each(influence, upper, lower, gap, count, 1)[0]
    return fewest


def _count_each(
    influence: Influence, upper: Indices, lower: Indices, gap: Floats, count: Callable[[Floats, float], list[int]],
    size: int,
) -> Indices:  # fmt: skip
    """Return so many counts of each pair, shape (size, n_pairs), by what a unit of residual of each cell moves it."""
    found = np.empty((len(gap), size), dtype=np.int64)

    def one(pair: tuple[Floats, Floats, float]) -> list[int]:
        y, q, distance = pair
        return count(influence.moved(y, q), distance)

    for first in range(0, len(gap), PAIRS_AT_ONCE):
        here = slice(first, first + PAIRS_AT_ONCE)
        contrasts, pairs = np.zeros((influence.rating.small.cells.n_models, len(gap[here]))), np.arange(len(gap[here]))
        contrasts[upper[here], pairs], contrasts[lower[here], pairs] = 1.0, -1.0
        Y = influence.solve(contrasts)
        columns = (np.ascontiguousarray(each.T) for each in (Y, influence.shares(Y)))
        found[here] = map_parts(one, zip(*columns, gap[here].tolist(), strict=True))
    by_count: Indices = found.T
    return by_count


def strongest(influences: Floats, size: Floats, gap: float) -> Indices:
    """Return the places of the positive influences, the largest first, at least until they add up to more than the gap.

    Parameters
    ----------
    size : number of votes of each, same shape
    """
    most = influences.max(initial=0.0)
    for share in LOOKS:
        top = np.flatnonzero(influences > share * most)
        if float(influences[top] @ size[top]) > gap:
            break
    return top[np.argsort(-influences[top], kind="stable")]


def enough(influences: Floats, size: Floats, gap: float) -> int:
    """Return how many votes, taken in order, exceed the gap; −1 if all together do not."""
    total = np.cumsum(influences * size)
    at = int(np.searchsorted(total, gap, side="right"))
    if at >= len(influences):
        return -1
    before = float(total[at - 1]) if at else 0.0
    return int(size[:at].sum()) + max(1, int(np.ceil((gap - before) / influences[at])))


def fewest_annotators(change: Floats, upper: Indices, lower: Indices, gap: Floats) -> Indices:
    """Find for every pair the smallest number of annotators whose influences on it exceed its gap.

    Parameters
    ----------
    change : from `leave_annotators_out`; NaN, where the influence is unknown, is left out
    upper, lower, gap : as for `fewest_votes`
    """
    by_model, alone = np.ascontiguousarray(np.nan_to_num(change).T) / ELO_PER_NATURAL, np.ones(len(change))
    pairs = zip(upper, lower, gap.tolist(), strict=True)
    return np.array([_fewest(by_model[j] - by_model[i], alone, far) for i, j, far in pairs], dtype=np.int64)


def _fewest(influences: Floats, size: Floats, gap: float) -> int:
    top = strongest(influences, size, gap)
    return enough(influences[top], size[top], gap)
