from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.auth.tokens.service import LONGEST
from app.naming.names import MAX_NAME_LENGTH


class NewToken(BaseModel):
    """A token to make."""

    model_config = ConfigDict(extra="forbid")

    seconds: int = Field(900, ge=1, le=int(LONGEST.total_seconds()), description="How long it works.")
    annotator: str | None = Field(
        None, min_length=1, max_length=MAX_NAME_LENGTH, description="The only annotator that it may vote for."
    )


class MadeToken(BaseModel):
    """A token that was just made. It is shown this once."""

    id: UUID
    token: str = Field(description="What the page sends: Authorization: Bearer …")
    expires_at: datetime
