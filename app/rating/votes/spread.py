"""How the votes are spread over annotators, models and pairs of models: the am-ELO paper's Table 1."""

from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats
from app.rating.votes.cells import Cells
from app.rating.votes.compact import pool_annotators
from app.rating.votes.graph import find_components


@dataclass(frozen=True)
class VoteSpread:
    """Votes of one annotator, on one model or on one pair of models, over those that have votes."""

    mean: float
    median: float
    least: float
    most: float


def spread_votes(cells: Cells) -> dict[str, VoteSpread]:
    """Return the spread of the votes per "annotator", "model" and "pair"; a vote counts for both of its models."""
    pairs = pool_annotators(cells)
    counts = {"annotator": cells.votes_by_annotator(), "model": find_components(pairs).votes, "pair": pairs.n}
    return {name: summarise(each[each > 0]) for name, each in counts.items()}


def summarise(votes: Floats) -> VoteSpread:
    """Return the spread of these numbers of votes."""
    return VoteSpread(float(votes.mean()), float(np.median(votes)), float(votes.min()), float(votes.max()))
