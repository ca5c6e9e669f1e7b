from datetime import datetime
from typing import Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.leaderboard.fragility import Gap
from app.leaderboard.matchups.schemas import Matchup
from app.models.schemas import Alias, Model, Version
from app.snapshots.schemas import LeaderboardMethod

CHART_LENGTH = 200
HISTORY_LENGTH = 100
OPPONENTS_NAMED = 5


class PastFigures(BaseModel):
    """A model's scores and ranks in one snapshot."""

    model_config = ConfigDict(frozen=True)

    snapshot_id: UUID
    number: int = Field(description="The snapshot's number.")
    published_at: datetime
    score: float | None = Field(description="Elo points; null where the votes do not determine it.")
    se: float | None
    lower: float | None
    upper: float | None
    rank: int | None = Field(description="1 is best, within the component.")
    best_rank: int | None
    worst_rank: int | None
    votes: int


class Standing(BaseModel):
    """A model's place on one leaderboard of the newest snapshot."""

    model_config = ConfigDict(frozen=True)

    method: LeaderboardMethod
    tag: str | None = Field(description="The score uses only votes with this tag; null means all votes.")
    score: float | None
    se: float | None
    lower: float | None
    upper: float | None
    rank: int | None
    best_rank: int | None
    worst_rank: int | None
    rank_set_best: int | None = Field(description="As on the leaderboard.")
    rank_set_worst: int | None
    component: int = Field(description="Models compare only within a component; component 0 has the most votes.")
    votes: int


class Point(BaseModel):
    """A model's score in one snapshot, for a chart."""

    model_config = ConfigDict(frozen=True)

    number: int = Field(description="The snapshot's number.")
    published_at: datetime
    score: float | None
    lower: float | None
    upper: float | None
    rank: int | None
    votes: int = Field(description="Votes on the model that this snapshot counted.")


class HeadToHead(BaseModel):
    """A model's results against one opponent in the newest snapshot's counted votes, and the prediction."""

    model_config = ConfigDict(frozen=True)

    opponent: str
    votes: int
    wins: int
    ties: int
    losses: int
    observed: float | None = Field(description="Share of votes that the model won; a tie is half; null without votes.")
    predicted: float | None = Field(description="Probability that it wins with a typical annotator, by the scores.")
    lower: float | None = Field(description="Lower end of the prediction's interval.")
    upper: float | None = Field(description="Upper end of the prediction's interval.")

    @classmethod
    def of(cls, matchup: Matchup) -> Self:
        """Return the pair from the side of its first model."""
        figures = matchup.model_dump(exclude={"model_a", "model_b", "wins_a", "wins_b"})
        return cls(opponent=matchup.model_b, wins=matchup.wins_a, losses=matchup.wins_b, **figures)


class Neighbour(Gap):
    """A model's neighbour on the am-elo leaderboard of all votes, and how few changes of votes would swap the two."""

    model: str


class ModelDetail(Model):
    """A model with its other names, its scores and its opponents."""

    aliases: list[Alias]
    merged: list[str] = Field(description="The models whose votes count for this one.")
    versions: list[Version] = Field(description="When it changed, and for which models the votes before that count.")
    newest: PastFigures | None = Field(description="In the newest snapshot; null where the model is not in it.")
    standings: list[Standing] = Field(description="On every leaderboard of the newest snapshot, by method and tag.")
    tie_share: float | None = Field(description="Share of ties in its votes, newest snapshot; null without votes.")
    above: Neighbour | None = Field(description="The model above it; null for the first model, and where unknown.")
    below: Neighbour | None = Field(description="The model below it; null for the last model, and where unknown.")
    neighbours_computed: bool = Field(
        description="Whether `above` and `below` are known for the newest snapshot. They are computed after its "
        "publication, and null until then."
    )
    history: list[PastFigures] = Field(
        description=f"In the snapshots that have the model, the newest first, at most {HISTORY_LENGTH}."
    )
    chart: list[Point] = Field(
        description=f"In at most {CHART_LENGTH} snapshots, spread evenly over all of them, the oldest first."
    )
    head_to_head: list[HeadToHead] = Field(
        description="Against each model that is not archived, by name; empty where the newest snapshot has no matchups."
    )
    best_opponents: list[str] = Field(
        description=f"At most {OPPONENTS_NAMED} opponents, and at most half of all: those with the highest lower end "
        "of the observed win rate's 95 % interval."
    )
    worst_opponents: list[str] = Field(
        description="Likewise, those with the lowest upper end of the observed win rate's 95 % interval."
    )
