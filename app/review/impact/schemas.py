from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

How = Literal["influence", "refit"]


class ModelImpact(BaseModel):
    """What would change for one model; null where it has no score before or after."""

    model_config = ConfigDict(frozen=True)

    model: str
    score_before: float | None
    score_after: float | None
    change: float | None = Field(description="Elo points.")
    rank_before: int | None = Field(description="1 is best, within the component.")
    rank_after: int | None
    place_change: float | None = Field(
        description="Change of the expected place: 1 plus, for every other model, the probability that it is above. "
        "Negative is up."
    )
    beyond_interval: bool | None = Field(description="Whether the later score lies outside the published interval.")


class Impact(BaseModel):
    """The leaderboard without an annotator who counts, or with one who does not. Nothing is published."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    annotator: str = Field(description="The key the votes carry.")
    snapshot: int = Field(description="Number of the snapshot.")
    what: Literal["left out", "let in"] = Field(description="let in: the annotator was outside the snapshot's fit.")
    how: How = Field(description="influence: one Newton step from the fit; refit: fitted again.")
    votes: int = Field(description="Votes of the annotator that the snapshot read.")
    summary: list[str] = Field(description="The same in sentences, the most important first.")
    models: list[ModelImpact] = Field(description="As ranked now.")
