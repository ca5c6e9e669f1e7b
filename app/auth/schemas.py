from datetime import datetime, timedelta
from uuid import UUID

from pydantic import BaseModel, Field

from app.auth.callers import Scope
from app.database.timestamps import Timestamp
from app.naming.names import MAX_NAME_LENGTH
from app.schemas import ClosedModel, FrozenModel

MAX_OVERLAP = timedelta(days=30)
MAX_PER_MINUTE = 10**9


class Key(FrozenModel):
    """An API key without its secret."""

    id: UUID
    name: str = Field(description="Name of its owner.")
    prefix: str = Field(description="Its first part, which identifies it in lists and logs.")
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = Field(description="When it stops working; null for never.")
    revoked_at: datetime | None
    replaced_by: UUID | None = Field(description="The key that replaced it.")
    requests_per_minute: int | None = Field(description="Its own limit; null for the service's.")

    def works_at(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


class NewKey(ClosedModel):
    """A key to make."""

    name: str = Field(
        min_length=1, max_length=MAX_NAME_LENGTH, description="Name of its owner; the audit log shows it."
    )
    scopes: list[Scope] = Field(
        min_length=1,
        max_length=10,
        description="What it may do; admin includes the others, and review includes review:read.",
    )
    expires_at: Timestamp | None = Field(None, description="When it stops working, with a time zone.")
    requests_per_minute: int | None = Field(
        None, ge=1, le=MAX_PER_MINUTE, description="A limit of its own in place of the service's."
    )


class MadeKey(Key):
    """A key that was just made. It is shown this once."""

    key: str = Field(description="What the caller sends: Authorization: Bearer …")


class Rotation(ClosedModel):
    """How a key is replaced."""

    overlap_seconds: int = Field(
        3600, ge=0, le=int(MAX_OVERLAP.total_seconds()), description="How long the old key works beside the new one."
    )


LONGEST = timedelta(hours=1)
"""How long a token may work."""


class NewToken(ClosedModel):
    """A token to make."""

    seconds: int = Field(900, ge=1, le=int(LONGEST.total_seconds()), description="How long it works.")
    annotator: str | None = Field(
        None, min_length=1, max_length=MAX_NAME_LENGTH, description="The only annotator that it may vote for."
    )


class MadeToken(BaseModel):
    """A token that was just made. It is shown this once."""

    id: UUID
    token: str = Field(description="What the page sends: Authorization: Bearer …")
    expires_at: datetime
