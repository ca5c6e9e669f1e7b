from datetime import date, datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from app.schemas import FrozenModel

AlarmCode = Literal["dropped", "unfinished", "off-policy"]


class Counts(FrozenModel):
    """How many battles there were, and how they ended. The rest of those offered are open."""

    offered: int
    voted: int
    skipped: int
    expired: int


class ModelExposure(Counts):
    """The battles of one model."""

    model: str
    organization: str | None
    archived: bool
    unreleased: bool
    intended: float | None = Field(
        description="How many of the `compared` battles the policy would show the model in, on average: the sum of the "
        "model's probabilities over all battles. Null where no table of pairs is left."
    )
    compared: int = Field(description="The model's battles that were drawn from a table of pairs that is still there.")
    candidate_share: float = Field(description="Share of all battles in which the model was a candidate.")
    earlier_candidate_share: float | None = Field(description="The same in the period before, of the same length.")


class BestOfMany(FrozenModel):
    """The best of an organization's models, with what is left of its score once the choice is allowed for."""

    model: str
    score: float = Field(description="As published.")
    adjusted_score: float = Field(description="The middle of the interval.")
    adjusted_lower: float = Field(description="Lower end of the 95 % interval, which allows for the choice.")
    adjusted_upper: float


class OrganizationExposure(Counts):
    """The battles of an organization's models. A battle between two of its models counts twice."""

    organization: str
    models: int = Field(description="Models that are not archived.")
    best: BestOfMany | None = Field(
        description="Null for an organization with one model with a score, or where the joint errors are not stored."
    )


class TagExposure(Counts):
    """The battles with one tag."""

    tag: str


class DayExposure(Counts):
    """The battles of one day (UTC)."""

    day: date


class PromptExposure(Counts):
    """The battles that showed one prompt."""

    prompt_id: UUID
    prompt: str = Field(description="How it begins.")
    category: str | None


class ExposureAlarm(FrozenModel):
    """Something that a reviewer should look at."""

    code: AlarmCode = Field(
        description="dropped: a model that is not archived is a candidate in less than half of the share of "
        "battles that it was in before. unfinished: fewer of its battles end in votes than of others, by far more than "
        "chance. "
        "off-policy: it was drawn otherwise than the policy says, by far more than chance."
    )
    model: str
    detail: str


class Exposure(FrozenModel):
    """Which battles were offered, what became of them, and what the policy intended."""

    since: datetime
    until: datetime
    snapshot: int | None = Field(description="Only battles drawn from this snapshot's tables; null for all.")
    tag: str | None = Field(description="Only battles with this tag; null for all.")
    total: Counts
    models: list[ModelExposure] = Field(description="By number of battles offered, the most first.")
    organizations: list[OrganizationExposure] = Field(description="The same; models without an organization left out.")
    tags: list[TagExposure] = Field(description="The same, at most 100.")
    prompts: list[PromptExposure] = Field(description="The same, of battles whose answers lie here; at most 100.")
    days: list[DayExposure] = Field(description="In order.")
    alarms: list[ExposureAlarm]
