from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.naming.names import MAX_NAME_LENGTH
from app.votes.rules import MAX_TAGS
from app.votes.schemas import Name

MAX_CANDIDATES = 1_000
MAX_BATTLE_BYTES = 12 * (MAX_CANDIDATES + MAX_TAGS + 2) * MAX_NAME_LENGTH  # JSON may take 12 bytes for a character

SkipReason = Literal["skip", "identity_leaked", "failed"]
BattleState = Literal["open", "voted", "skipped", "expired"]


class NewBattle(BaseModel):
    """Who is to judge, and what may be shown."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"annotator": "visitor-58", "tags": ["english"]}]},
    )

    annotator: Name = Field(description="Opaque key of the annotator; the same person or judge always has the same.")
    candidates: list[Name] | None = Field(
        None,
        min_length=2,
        max_length=MAX_CANDIDATES,
        description="Names of the models that may be shown; null for every model that is not archived.",
    )
    tags: list[Name] = Field(default_factory=list, max_length=MAX_TAGS, description="Tags that the vote will have.")


class OfferedBattle(BaseModel):
    """A battle for the arena's backend. The browser gets the two answers and the token, never the names."""

    battle_id: UUID
    left: str = Field(description="The model whose answer is shown on the left.")
    right: str = Field(description="The model whose answer is shown on the right.")
    token: str = Field(description="What the browser votes with: one annotator, one vote.")
    expires_at: datetime


class Skip(BaseModel):
    """Why a battle gets no vote."""

    model_config = ConfigDict(extra="forbid")

    reason: SkipReason = Field(
        description="skip: the annotator did not want to judge. identity_leaked: an answer named its model. failed: an "
        "answer could not be made."
    )
    token: str | None = Field(None, max_length=200, description="The battle's token, from a sender without a key.")


class SkippedBattle(BaseModel):
    """A battle that ended without a vote. The models stay sealed."""

    model_config = ConfigDict(frozen=True)

    battle_id: UUID
    skip_reason: SkipReason = Field(description="The reason that was given first.")
    ended_at: datetime


class Battle(BaseModel):
    """A battle on record, with the present names of its models and its annotator."""

    model_config = ConfigDict(frozen=True)

    battle_id: UUID
    state: BattleState
    annotator: str
    annotator_id: UUID
    left: str
    right: str
    tags: list[str]
    drawn_by: str = Field(description="The policy that drew the pair.")
    propensity: float = Field(description="Probability with which this pair was drawn, of all pairs.")
    candidate_set: int = Field(description="Number of the set of models that the pair was drawn from.")
    candidates: int = Field(description="How many models that set has.")
    snapshot_id: UUID | None = Field(description="The snapshot whose table of pairs was used; null for none.")
    policy_version: int
    created_at: datetime
    expires_at: datetime
    ended_at: datetime | None = Field(description="When the vote was cast or the battle skipped.")
    vote_id: UUID | None
    skip_reason: SkipReason | None


class BattleWithCandidates(Battle):
    """A battle on record with the names of the models that the pair was drawn from."""

    candidate_names: list[str]
