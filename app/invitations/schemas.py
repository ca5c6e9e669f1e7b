from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.database.timestamps import StorableTimestamp
from app.naming.names import Name
from app.schemas import FrozenModel

MAX_LINK_VOTES = 100_000


class NewInvitation(BaseModel):
    """Who may vote on the answers that lie here, and how much."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"annotator": "ada", "max_votes": 50, "category": "science"}]}
    )

    everyone: bool = Field(False, description="Whether the door is open to everyone; otherwise a link is made.")
    annotator: Name | None = Field(
        None, description="Of a link: the key of its annotator; null for one without a name, under a random key."
    )
    category: Name | None = Field(None, description="Only prompts of this category are shown.")
    max_votes: int | None = Field(
        None,
        ge=1,
        le=MAX_LINK_VOTES,
        description="Most votes of an annotator, those that were taken back too; null for no limit.",
    )
    expires_at: StorableTimestamp | None = Field(None, description="When no more battles are drawn; null for no end.")


class Invitation(FrozenModel):
    """A link, which is one annotator's, or the door that is open to everyone."""

    id: UUID
    state: Literal["open", "expired", "revoked"]
    everyone: bool
    annotator: str | None = Field(description="Key of the link's annotator, as it is stored.")
    annotator_id: UUID | None
    category: str | None
    max_votes: int | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    votes: int = Field(description="Votes that came by it and were not retracted.")
    link: str = Field(
        description="Path and fragment of the page where it is used. Who has a link votes as its annotator."
    )
