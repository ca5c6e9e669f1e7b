from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from app.naming.names import MAX_NAME_LENGTH, Label, Name
from app.schemas import ClosedModel, FrozenModel
from app.votes.rules import MAX_TAGS

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

    annotator: Name | None = Field(
        None,
        description="Opaque key of the annotator; the same person or judge always has the same. Only who shows the "
        "token of an invitation leaves it out.",
    )
    candidates: list[Name] | None = Field(
        None,
        min_length=2,
        max_length=MAX_CANDIDATES,
        description="Names of the models that may be shown; null for every model that is not archived.",
    )
    tags: list[Label] = Field(default_factory=list, max_length=MAX_TAGS, description="Tags that the vote will have.")
    answers: bool | None = Field(
        None,
        description="Whether to draw a prompt too, to which both models' answers lie here. The response has the texts, "
        "and the vote gets the prompt's category and language as tags, also as language=en where that is a category of "
        "the policy. With a token it always does.",
    )
    category: Name | None = Field(None, description="With `answers`: only prompts of this category.")

    @field_validator("category")
    @classmethod
    def _goes_with_answers(cls, category: str | None, info: ValidationInfo) -> str | None:
        if category is not None and not info.data.get("answers"):
            raise ValueError("goes with answers")
        return category


class OfferedBattle(BaseModel):
    """A battle, for the arena's backend or for a browser with a token. A browser is never told the names."""

    battle_id: UUID
    left: str | None = Field(
        None, description="The model whose answer is shown on the left; a browser with a token is not told."
    )
    right: str | None = Field(None, description="The model whose answer is shown on the right; likewise.")
    token: str = Field(description="What the browser votes with: one annotator, one vote.")
    expires_at: datetime
    prompt: str | None = Field(None, description="With `answers`: Markdown; with a token HTML that is safe in a page.")
    left_answer: str | None = Field(None, description="What is shown on the left, in the same form.")
    right_answer: str | None = Field(None, description="What is shown on the right, in the same form.")
    votes_left: int | None = Field(None, description="Votes that the invitation leaves, this one included.")


class Skip(ClosedModel):
    """Why a battle gets no vote."""

    reason: SkipReason = Field(
        description="skip: the annotator did not want to judge. identity_leaked: an answer named its model. failed: an "
        "answer could not be made."
    )
    token: str | None = Field(None, max_length=200, description="The battle's token, from a sender without a key.")


class Undo(ClosedModel):
    """Who takes a vote back."""

    token: str | None = Field(None, max_length=200, description="The battle's token, from a sender without a key.")


class UndoneVote(FrozenModel):
    """A vote that was taken back. It stays on record, and the battle takes no other: it has revealed its models."""

    battle_id: UUID
    vote_id: UUID


class SkippedBattle(FrozenModel):
    """A battle that ended without a vote. The models stay sealed."""

    battle_id: UUID
    skip_reason: SkipReason = Field(description="The reason that was given first.")
    ended_at: datetime


class Battle(FrozenModel):
    """A battle on record, with the present names of its models and its annotator."""

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
