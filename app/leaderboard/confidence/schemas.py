from pydantic import BaseModel, ConfigDict, Field

from app.rating.verdict.order import Verdict
from app.snapshots.schemas import SnapshotHead


class MoreVotes(BaseModel):
    """A forecast of how many more votes are needed; null means more than 50 times the votes so far."""

    model_config = ConfigDict(frozen=True)

    low: int | None = Field(description="With a probability of 10 % fewer are enough.")
    median: int | None
    high: int | None = Field(description="With a probability of 10 % more are needed.")


class ModelConfidence(BaseModel):
    """How sure a model's place is."""

    model_config = ConfigDict(frozen=True)

    model: str
    rank: int
    score: float
    p_best: float = Field(description="Probability that it is the best model.")
    p_top_k: float = Field(description="Probability that it is among the best k.")


class UndecidedPair(BaseModel):
    """A model among the best k and one that is not, whose order is not certain."""

    model_config = ConfigDict(frozen=True)

    above: str
    below: str
    gap: float = Field(description="Elo points between the two.")
    half_width: float = Field(description="The order is certain once the gap exceeds this.")
    equal: bool = Field(description="Whether the two are certainly within the margin.")
    more_votes: MoreVotes = Field(
        description="Until the order of the two is certain, or that they are within the margin."
    )


class LeaderboardConfidence(BaseModel):
    """Whether the votes are enough to say which models are the best k."""

    model_config = ConfigDict(frozen=True)

    snapshot: SnapshotHead
    tag: str | None = Field(description="The scores use only votes with this tag; null means all votes.")
    k: int
    confidence: float = Field(description="Of the verdict, over all refits together: the policy's decision_confidence.")
    margin: float = Field(
        description="Elo points within which models are practically equal: the policy's equal_margin."
    )
    verdict: Verdict = Field(
        description="decided: these are the best k. equal: where that is not certain, the models are practically "
        "equal, and more votes are not worth their cost. not-yet: neither."
    )
    sentence: str = Field(description="The verdict in words, for a page.")
    leaders: list[str] = Field(description="The k models with the highest scores, best first; archived ones count.")
    votes: int = Field(description="Counted votes between the models.")
    more_votes: MoreVotes | None = Field(
        description="Until the verdict is `decided` or `equal`, if battles are chosen as they are now; null when it is."
    )
    unscored: int = Field(
        description="Models that only won or only lost, so that they have no score. While one of them may belong among "
        "the best k, the verdict is `not-yet`."
    )
    provisional: int = Field(
        description="Models that have too few votes for a rank. The verdict is on the ranked models only."
    )
    models: list[ModelConfidence] = Field(
        description="The largest component's ranked models, best first, without archived ones."
    )
    undecided_pairs: int = Field(description="How many pairs are not certain.")
    undecided: list[UndecidedPair] = Field(description="At most 100 of them, the closest first.")
