from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.http.texts import Reason


class AppealRequest(BaseModel):
    """An annotator's note to the reviewers."""

    model_config = ConfigDict(extra="forbid")

    note: Reason = Field(description="The annotator's words. Do not name a person or a key here.")


class Appeal(BaseModel):
    """An annotator's note to the reviewers, sent by the arena's backend."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    annotator_id: UUID
    annotator: str = Field(description="The key the votes carry.")
    note: str
    submitted_by: str = Field(description="Name of the API key that submitted it.")
    submitted_at: datetime
    open: bool = Field(description="Whether no decision on the annotator has followed yet.")
