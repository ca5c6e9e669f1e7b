"""Simulated votes for the small arenas."""

import numpy as np

from app.rating.arrays import Floats
from app.rating.votes.cells import Cells, aggregate
from app.rating.votes.features import SidedCells


class Votes:
    """Votes of annotators who follow the ranking 0, 1, 2, … in a share of theirs, and call a fifth of them ties.

    The last annotators oppose it, or are fans of the last model, who vote on no other pair and always for it.
    """

    def __init__(
        self, annotators: int, models: int, votes_each: int, *, seed: int = 0, follows: float = 0.75, opposed: int = 0,
        fans: int = 0,
    ) -> None:  # fmt: skip
        generator, size = np.random.default_rng(seed), annotators * votes_each
        self.sizes = {"n_annotators": annotators, "n_models": models}
        self.annotator = np.repeat(np.arange(annotators), votes_each)
        self.a = generator.integers(models, size=size)
        self.b = (self.a + generator.integers(1, models, size=size)) % models
        share = np.where(self.annotator < annotators - opposed, follows, 1.0 - follows)
        fan = self.annotator >= annotators - fans
        self.a, self.b = np.where(fan, self.a % (models - 1), self.a), np.where(fan, models - 1, self.b)
        along = generator.random(size) < share
        self.W = np.where(fan, 0.0, np.where(generator.random(size) < 0.2, 0.5, along == (self.a < self.b)))
        self.weight = 0.25 * generator.integers(1, 9, size)

    def cells(self, *, weighted: bool = False) -> Cells:
        weight = self.weight if weighted else None
        return aggregate(self.annotator, self.a, self.b, self.W, weight=weight, **self.sizes)

    def sided(self) -> SidedCells:
        return SidedCells.of_votes(self.annotator, self.a, self.b, self.W, **self.sizes)


def ranking(models: int, slope: float = 0.3) -> Floats:
    """Scores of the models 0, 1, 2, …, the best first."""
    return -slope * np.arange(models)
