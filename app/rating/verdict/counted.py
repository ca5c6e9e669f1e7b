"""How much the votes that count weigh in the scores: in full, or less."""

from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, sum_by
from app.rating.model.weights import weigh_votes
from app.rating.verdict.rating import Rating

IN_FULL = 1.0 - 1e-9


@dataclass(frozen=True)
class CountedVotes:
    """Each annotator's votes that count, apart by their weight; arrays of shape (n_annotators,).

    Attributes
    ----------
    full : votes with the weight 1
    pushed, pushed_worth : those that weigh less because they seem to push a model or to bury it, and as how many
    many, many_worth : those that weigh less because their annotator has many more votes on a model than its other
        judges, and as how many they count
    """

    full: Floats
    pushed: Floats
    pushed_worth: Floats
    many: Floats
    many_worth: Floats


def count_by_weight(rating: Rating) -> CountedVotes:
    """Count the votes of a rating by their weight in the equations of the scores; those on models without one in full.

    A weight is the limit on votes of one annotator on one model, times the probability that they push none.
    """
    cells, weight, pushes = rating.cells, np.ones(len(rating.cells.n)), np.zeros(len(rating.cells.n), dtype=np.bool_)
    if rating.marginal is not None:
        inside = rating.identified[cells.model_a] & rating.identified[cells.model_b]
        weight[inside] = weigh_votes(rating.small.cells, rating.settings.influence_limit)
        if cells.trust is not None:
            pushes = inside & (cells.trust < IN_FULL)
            weight[inside] *= cells.trust[inside]
    less = weight < IN_FULL

    def by_annotator(votes: Floats) -> Floats:
        return sum_by(cells.annotator, votes, cells.n_annotators)

    many = less & ~pushes
    return CountedVotes(
        by_annotator(cells.n * ~less),
        by_annotator(cells.n * pushes),
        by_annotator(cells.n * pushes * weight),
        by_annotator(cells.n * many),
        by_annotator(cells.n * many * weight),
    )
