from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from pydantic import Field

from app.auth.callers import Caller
from app.schemas import FrozenModel


@dataclass(frozen=True)
class Lifetimes:
    """How long a session lasts: `idle` without a request, and never longer than `longest`."""

    idle: timedelta
    longest: timedelta


@dataclass(frozen=True)
class SignedIn:
    """A browser that is signed in.

    Attributes
    ----------
    caller : the key's owner, or the person, that it acts for
    secret : what it sends as a cookie
    over_tls : whether this request came by HTTPS, so that its cookies may be for HTTPS alone
    """

    session_id: UUID
    caller: Caller
    secret: str
    over_tls: bool = False


class Session(FrozenModel):
    """A session on record, without its secret."""

    id: UUID
    key_id: UUID | None = Field(description="The API key that it was opened with; null for a person of a provider.")
    name: str = Field(description="Name of that key, or of the person.")
    browser: str = Field(description="What the browser called itself when it signed in.")
    created_at: datetime
    last_used_at: datetime = Field(description="To the minute.")
    ends_at: datetime = Field(description="When it ends by itself if it is not used again.")
