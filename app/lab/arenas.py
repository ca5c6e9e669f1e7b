from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.lab.simulate import draw_pairs, make_world
from app.rating.data.arrays import Floats
from app.rating.data.votes import Cells, aggregate
from app.rating.errors import VotesError

TIE = 0.5
PAPER_ANNOTATORS, PAPER_MODELS, PAPER_VOTES = 42, 20, 4_321


@dataclass(frozen=True)
class Arena:
    """The votes of an experiment, of a file or simulated, in the recorded order.

    Attributes
    ----------
    name : for tables
    annotator, model_a, model_b : integer arrays, shape (n_votes,), indices without gaps
    outcome : W, shape (n_votes,): 1 where model_a won, 0.5 for a tie, 0 where model_b won
    truth : true scores, Elo points, shape (n_models,); None where they are unknown
    """

    name: str
    annotator: NDArray[np.integer]
    model_a: NDArray[np.integer]
    model_b: NDArray[np.integer]
    outcome: Floats
    n_annotators: int
    n_models: int
    truth: Floats | None = None

    @property
    def n_votes(self) -> int:
        """Number of votes."""
        return len(self.outcome)

    def cells(self) -> Cells:
        """Collapse the votes to cells."""
        return aggregate(
            self.annotator, self.model_a, self.model_b, self.outcome,
            n_annotators=self.n_annotators, n_models=self.n_models,
        )  # fmt: skip

    def take(self, rows: NDArray[np.integer]) -> "Arena":
        """Return these votes; the indices of annotators and models do not change."""
        return replace(
            self,
            annotator=self.annotator[rows],
            model_a=self.model_a[rows],
            model_b=self.model_b[rows],
            outcome=self.outcome[rows],
        )

    def without_ties(self) -> "Arena":
        """Return the votes for one of the two models."""
        return self.take(np.flatnonzero(self.outcome != TIE))

    def with_outcome(self, outcome: Floats) -> "Arena":
        """Return the same battles with other outcomes."""
        return replace(self, outcome=outcome)

    def of_regulars(self, min_votes: int) -> "Arena":
        """Return the votes of annotators with more than `min_votes`, annotators and models renumbered.

        Raises
        ------
        VotesError
            No annotator has more.
        """
        votes = np.bincount(self.annotator, minlength=self.n_annotators)
        kept = self.take(np.flatnonzero(votes[self.annotator] > min_votes))
        if kept.n_votes == 0:
            raise VotesError(f"no annotator has more than {min_votes} votes; the most that one has is {votes.max():g}")
        annotators, annotator = np.unique(kept.annotator, return_inverse=True)
        models, both = np.unique(np.concatenate([kept.model_a, kept.model_b]), return_inverse=True)
        return replace(
            kept,
            annotator=annotator,
            model_a=both[: kept.n_votes],
            model_b=both[kept.n_votes :],
            n_annotators=len(annotators),
            n_models=len(models),
            truth=None if kept.truth is None else kept.truth[models],
        )


def paper_arena(seed: int) -> Arena:
    """Simulate honest votes in the am-ELO paper's size: 42 annotators, 20 models, 4,321 votes on uniform pairs.

    Scores ~ N(1000, 140²) Elo points, log-normal abilities (sd 0.3), about a quarter of ties. In the paper's own data
    annotators vote unequally often, and models have unequal numbers of votes; here they do not.
    """
    generator = np.random.default_rng(seed)
    world = make_world(generator, n_models=PAPER_MODELS, roles={"honest": PAPER_ANNOTATORS})
    annotator = np.sort(np.arange(PAPER_VOTES) % PAPER_ANNOTATORS)
    model_a, model_b = draw_pairs(generator, PAPER_MODELS, PAPER_VOTES)
    outcome = world.vote(annotator, model_a, model_b, generator)
    # mix the annotators, because Elo depends on the order
    order = generator.permutation(PAPER_VOTES)
    votes = Arena(
        f"simulated, seed {seed}", annotator, model_a, model_b, outcome, PAPER_ANNOTATORS, PAPER_MODELS, world.score
    )
    return votes.take(order)
