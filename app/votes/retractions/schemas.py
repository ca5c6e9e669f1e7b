"""Retractions in requests and in answers, and the vote on record that shows its own."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from app.api.texts import Reason
from app.naming.names import MAX_NAME_LENGTH
from app.schemas import ClosedModel, FrozenModel
from app.votes.retractions.queries import Target
from app.votes.rules import Features, Winner


class VoteRetraction(ClosedModel):
    """Why a vote is retracted."""

    reason: Reason


class RetractionRequest(ClosedModel):
    """Which votes to retract, and why."""

    target: Target
    id: str = Field(
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        description="The id of a vote, a battle or an import; the name of a model; the id or the key of an annotator.",
    )
    reason: Reason


class Retraction(FrozenModel):
    """Votes that were retracted. They stay on record and do not count, from the next refit on."""

    id: UUID
    target: Target
    target_id: str = Field(
        description="The id of the vote, battle, annotator or import; the name of the model at the time."
    )
    reason: str
    retracted_by: str = Field(description="Name of the key that was used.")
    votes: int = Field(description="Number of votes that it retracted, without those that were retracted before.")
    retracted_at: datetime
    withdrawn_by: str | None = Field(None, description="Name of the key that took it back; null while it holds.")
    withdrawal_reason: str | None = None
    withdrawn_at: datetime | None = None


class RetractionWithdrawal(ClosedModel):
    """Why a retraction is taken back."""

    reason: Reason


class VoteOnRecord(FrozenModel):
    """A vote as it was recorded, with the names that its models and its annotator have today."""

    id: UUID
    model_a: str = Field(description="Of a ranking: of one of its pairs, as model_b and winner are.")
    model_b: str
    winner: Winner
    ranking: list[list[str]] | None = Field(description="As it was given; null for a vote on a pair.")
    annotator: str
    annotator_id: UUID
    battle_id: str | None
    criterion: str | None = Field(description="Null for overall.")
    voted_at: datetime | None
    received_at: datetime
    tags: list[str]
    metadata: dict[str, Any] | None
    features: Features | None
    prompt: str | None = Field(description="The key of what the models were asked, such as `prompt:-42`.")
    api_key_id: UUID | None = Field(description="The key that sent it; null for an import.")
    import_id: UUID | None
    sealed: bool = Field(description="Whether a battle's token cast it, on a pair that the service had drawn.")
    retraction: Retraction | None = Field(description="What retracted it; null for a vote that counts.")
    replaced_by: UUID | None = Field(description="The annotator's later verdict on the battle, if there is one.")
