from dataclasses import dataclass

from app.rating.data.arrays import Floats, Ints
from app.rating.data.votes import Cells, aggregate


@dataclass(frozen=True)
class IndexedVotes:
    """Votes with the names of annotators and models as numbers, in the recorded order.

    Attributes
    ----------
    annotators, models : names in sorted order; the index of a name is its position
    annotator, model_a, model_b : int32 arrays, shape (n_votes,)
    outcome : W of each vote, shape (n_votes,)
    weight : how many votes a row stands for, shape (n_votes,); None: one
    """

    annotators: list[str]
    models: list[str]
    annotator: Ints
    model_a: Ints
    model_b: Ints
    outcome: Floats
    weight: Floats | None = None

    def aggregate(self) -> Cells:
        """Collapse the votes to cells.

        Raises
        ------
        VotesError
            As `app.rating.data.votes.aggregate`.
        """
        return aggregate(
            self.annotator, self.model_a, self.model_b, self.outcome,
            n_annotators=len(self.annotators), n_models=len(self.models), weight=self.weight,
        )  # fmt: skip
