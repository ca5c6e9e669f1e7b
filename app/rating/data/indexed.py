from dataclasses import dataclass

from app.rating.data.arrays import Floats, Ints
from app.rating.data.propensity import inverse_propensity_weights
from app.rating.data.votes import Cells, aggregate
from app.rating.errors import VotesError


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
    """

    annotators: list[str]
    models: list[str]
    annotator: Ints
    model_a: Ints
    model_b: Ints
    outcome: Floats
    weight: Floats | None = None
    propensity: Floats | None = None

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

    def choice_weights(self) -> Floats:
        """Return `inverse_propensity_weights` of the votes, shape (n_votes,).

        Raises
        ------
        VotesError
            A propensity is missing or not in (0, 1], or the votes have weights already.
        """
        if self.propensity is None:
            raise VotesError("inverse propensities need the column propensity")
        if self.weight is not None:
            raise VotesError("the votes have weights: they cannot be weighted by their propensities too")
        return inverse_propensity_weights(self.propensity, self.annotator, n_annotators=len(self.annotators))
