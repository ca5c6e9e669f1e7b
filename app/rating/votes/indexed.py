from dataclasses import dataclass, replace

import numpy as np

from app.rating.arrays import Floats, Indices, Ints, Mask, sum_by
from app.rating.errors import VotesError
from app.rating.settings import Interval
from app.rating.votes.cells import Cells, aggregate
from app.rating.votes.prompts import PromptCells

MOST_REPEATED = 10_000_000  # votes that a method takes one by one


@dataclass(frozen=True)
class IndexedVotes:
    """Votes with the names of annotators and models as numbers, in the recorded order.

    Attributes
    ----------
    annotators, models : names in sorted order; the index of a name is its position
    annotator, model_a, model_b : int32 arrays, shape (n_votes,)
    outcome : W of each vote, shape (n_votes,)
    weight : how many votes a row stands for, shape (n_votes,); None: one
    propensity : probability with which the pair of each vote was drawn, shape (n_votes,), NaN where it is not known;
        None where it is not known of any
    share : one over the number of votes that were made of one ranking, 1 for other votes, shape (n_votes,); None: 1
    prompt : number of what the models were asked, below 0 where it is not known, shape (n_votes,); None: of no vote
    """

    annotators: list[str]
    models: list[str]
    annotator: Ints
    model_a: Ints
    model_b: Ints
    outcome: Floats
    weight: Floats | None = None
    propensity: Floats | None = None
    share: Floats | None = None
    prompt: Indices | None = None

    def aggregate(self) -> Cells:
        """Collapse the votes to cells.

        Raises
        ------
        VotesError
            As `app.rating.votes.cells.aggregate`.
        """
        return aggregate(
            self.annotator, self.model_a, self.model_b, self.outcome,
            n_annotators=len(self.annotators), n_models=len(self.models), weight=self.weight,
        )  # fmt: skip

    def by_prompt(self) -> PromptCells | None:
        """Collapse the votes with a prompt to cells, apart by prompt; None where none has one."""
        if self.prompt is None:
            return None
        return PromptCells.of_votes(
            self.prompt, self.annotator, self.model_a, self.model_b, self.outcome,
            n_annotators=len(self.annotators), n_models=len(self.models), weight=self.weight,
        )  # fmt: skip

    def rows(self, which: Indices | Mask) -> "IndexedVotes":
        """Return some of the votes; names keep their numbers."""
        names = ("annotator", "model_a", "model_b", "outcome", "weight", "propensity", "share", "prompt")
        given = {name: column[which] for name in names if (column := getattr(self, name)) is not None}
        return replace(self, **given)

    def repeated(self) -> "IndexedVotes":
        """Return the votes with a row for each vote that a row stands for.

        Raises
        ------
        VotesError
            A weight is not a whole number, or they are more than 10 million votes.
        """
        if self.weight is None:
            return self
        odd = self.weight != np.rint(self.weight)
        if odd.any():
            detail = f"a method that takes one vote after the other needs whole weights (row {int(np.argmax(odd))})"
            raise VotesError(detail, "value")
        total = self.weight.sum()
        if total > MOST_REPEATED:
            raise VotesError(
                f"the weights make {total:,.0f} votes; at most {MOST_REPEATED:,} are taken one by one", "too-many"
            )
        return replace(self.rows(np.repeat(np.arange(len(self.weight)), self.weight.astype(np.int64))), weight=None)

    def rankings_by_annotator(self) -> Floats | None:
        """Return the votes of each annotator, a ranking counted once, shape (n_annotators,); None without rankings."""
        return None if self.share is None else sum_by(self.annotator, self.share, len(self.annotators)).round(6)

    def choice_weights(self) -> Floats:
        """Return w_t = (1/π_t)/mean_k(1/π), the mean over the votes of the same annotator k, shape (n_votes,).

        With these weights every annotator's votes have, in expectation, the mix of pairs that uniform choice would have
        had, and each annotator counts as many votes as they cast: the mean over each annotator's votes is 1.

        Raises
        ------
        VotesError
            A propensity is missing or not in (0, 1], or the votes have weights already.

        References
        ----------
        Horvitz and Thompson, JASA 47 (1952); the scale within annotators: Rabe-Hesketh and Skrondal, Journal of the
        Royal Statistical Society A 169 (2006), §4, method 2 for pseudo-likelihoods with a parameter for each cluster.
        """
        if self.propensity is None:
            raise VotesError("inverse propensities need the column propensity", "column")
        if self.weight is not None:
            raise VotesError("the votes have weights: they cannot be weighted by their propensities too")
        wrong = ~((self.propensity > 0.0) & (self.propensity <= 1.0))
        if wrong.any():
            raise VotesError(
                f"propensity must be greater than 0 and at most 1 for every vote; {int(wrong.sum()):,} of "
                f"{len(wrong):,} have none, or another (row {int(np.argmax(wrong))})",
                "value",
            )
        inverse, annotators = 1.0 / self.propensity, len(self.annotators)
        total, votes = (sum_by(self.annotator, x, annotators) for x in (inverse, np.ones(len(inverse))))
        weights: Floats = inverse * (votes / np.maximum(total, np.finfo(float).tiny))[self.annotator]
        return weights


def refuse_rankings(interval: Interval, counted: Floats, cells: Cells) -> None:
    """Refuse votes of rankings where the interval takes votes as independent: its intervals would be too narrow.

    A ranking of n models makes n (n − 1)/2 votes that hang together.

    Parameters
    ----------
    counted : `IndexedVotes.rankings_by_annotator`

    Raises
    ------
    VotesError
    """
    if interval not in ("clustered", "none") and counted.sum() < cells.n_votes - 0.5:
        raise VotesError(
            f"the interval {interval} takes votes as independent, and those that one ranking makes are not: use the "
            "interval clustered, or none",
            "value",
        )
