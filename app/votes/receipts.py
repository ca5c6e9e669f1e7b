"""What became of a vote."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from app.errors import ConflictError, FieldError

MAX_REPLACEMENTS = 1_000
"""How often an annotator may change the verdict on a battle."""
TOO_MANY_VERSIONS = "the vote on record is retracted, and the annotator has changed the verdict too often"

Status = Literal["created", "duplicate", "conflict", "invalid"]


class VoteConflictError(ConflictError):
    """The annotator has voted on this battle before, with another verdict. The problem names the vote on record."""

    code = "vote-conflict"
    title = "The annotator has judged this battle otherwise"

    def __init__(self, detail: str, vote_id: UUID) -> None:
        super().__init__(detail, extensions={"id": str(vote_id)})


@dataclass(frozen=True)
class VoteReceipt:
    """What became of one vote.

    Attributes
    ----------
    id : the vote on record: this one if it was created, the earlier one for a duplicate or a conflict; None if invalid
    detail : why it was not created, where there is more to say
    errors : the places that make it invalid
    replaces : the annotator's earlier vote whose place a created one has taken
    left, right : names of the two models, which a vote on a sealed battle reveals
    """

    status: Status
    id: UUID | None = None
    detail: str | None = None
    errors: tuple[FieldError, ...] = ()
    replaces: UUID | None = None
    left: str | None = None
    right: str | None = None


def invalid_receipt(errors: tuple[FieldError, ...]) -> VoteReceipt:
    """Return the receipt of a vote with these errors."""
    return VoteReceipt("invalid", detail="the vote is not valid", errors=errors)
