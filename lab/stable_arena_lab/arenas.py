from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import Floats, Indices
from app.rating.errors import VotesError
from app.rating.simulation.worlds import draw_pairs, make_world
from app.rating.votes.cells import Cells, aggregate
from stable_arena_lab.agreement import TIE

PAPER_ANNOTATORS, PAPER_MODELS, PAPER_VOTES = 42, 20, 4_321
CHATBOT_ANNOTATORS, CHATBOT_VOTES, CHATBOT_TIE_SHARE = 13_383, 33_000, 0.45


@dataclass(frozen=True)
class Arena:
    """The votes of an experiment, of a file or simulated, in the recorded order.

    Attributes
    ----------
    name : for tables
    annotator, model_a, model_b : integer arrays, shape (n_votes,), indices without gaps
    outcome : W, shape (n_votes,): 1 where model_a won, 0.5 for a tie, 0 where model_b won
    truth : true scores, Elo points, shape (n_models,); None where they are unknown
    models : names of the models, by index; empty where they have none
    """

    name: str
    annotator: NDArray[np.integer]
    model_a: NDArray[np.integer]
    model_b: NDArray[np.integer]
    outcome: Floats
    n_annotators: int
    n_models: int
    truth: Floats | None = None
    models: tuple[str, ...] = ()

    @property
    def n_votes(self) -> int:
        """Number of votes."""
        return len(self.outcome)

    def name_of(self, model: int) -> str:
        """Return a model's name, or "model 7" for the one with index 7."""
        return self.models[model] if self.models else f"model {model}"

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
            models=tuple(kept.models[model] for model in models) if kept.models else (),
        )


def chatbot_arena(seed: int) -> Arena:
    """Simulate honest votes in the shape of the Chatbot Arena conversations, from which the am-ELO paper's data come.

    33,000 votes of 13,383 annotators on 20 models. Votes per annotator have a heavy tail: 42 annotators have more than
    50 votes each, 4,321 together, as the paper states, and the numbers of the others follow a power law. A third of the
    votes are ties, which is this project's choice. The votes are in random order.
    """
    generator = np.random.default_rng(seed)
    votes_of = np.concatenate([_regulars(), _occasional(generator)])
    world = make_world(
        generator, n_models=PAPER_MODELS, roles={"honest": CHATBOT_ANNOTATORS}, tie_share=CHATBOT_TIE_SHARE
    )
    annotator = generator.permutation(np.repeat(np.arange(CHATBOT_ANNOTATORS), votes_of))
    model_a, model_b = draw_pairs(generator, PAPER_MODELS, CHATBOT_VOTES)
    outcome = world.vote(annotator, model_a, model_b, generator)
    name = f"simulated in Chatbot Arena's shape, seed {seed}"
    return Arena(name, annotator, model_a, model_b, outcome, CHATBOT_ANNOTATORS, PAPER_MODELS, world.score)


def _regulars() -> Indices:
    """Return the votes of the 42 annotators with more than 50: ∝ rank^−s, with the smallest 51 and the sum 4,321."""
    rank = np.arange(1, PAPER_ANNOTATORS + 1)
    steepness = np.linspace(0.0, 2.0, 2_001)
    sums = [51.0 * (PAPER_ANNOTATORS / rank) ** s for s in steepness]
    votes: Indices = np.rint(min(sums, key=lambda each: abs(each.sum() - PAPER_VOTES))).astype(np.int64)
    votes[0] += PAPER_VOTES - votes.sum()
    return votes


def _occasional(generator: np.random.Generator) -> Indices:
    """Return the votes of the others, 1 to 50, that make up the rest of the 33,000."""
    number, most = CHATBOT_ANNOTATORS - PAPER_ANNOTATORS, 50
    wanted, sizes = CHATBOT_VOTES - PAPER_VOTES, np.arange(1.0, most + 1)
    powers = np.linspace(1.5, 4.0, 2_501)
    means = [float(sizes @ sizes**-power / (sizes**-power).sum()) for power in powers]
    power = powers[int(np.argmin(np.abs(np.array(means) - wanted / number)))]
    votes = generator.choice(sizes.astype(np.int64), number, p=sizes**-power / (sizes**-power).sum())
    while (missing := wanted - int(votes.sum())) != 0:  # a few annotators vote once more or less
        step = int(np.sign(missing))
        free = np.flatnonzero((votes + step >= 1) & (votes + step <= most))
        votes[generator.choice(free, min(abs(missing), len(free)), replace=False)] += step
    return votes


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
