from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args
from uuid import UUID

from app.database.timestamps import EARLIEST, LATEST
from app.errors import ConflictError, FieldError
from app.naming.aliases import ModelNames
from app.naming.names import name_error
from app.votes.extras import metadata_error, tag_errors

Winner = Literal["model_a", "model_b", "tie", "tie (bothbad)"]
WINNERS: tuple[Winner, ...] = get_args(Winner)
"""The outcome words; a word's place is the number that stands for it in the votes table."""

Status = Literal["created", "duplicate", "conflict", "invalid"]


class VoteConflictError(ConflictError):
    """The annotator has judged this battle already, otherwise; the problem names the vote on record."""

    code = "vote-conflict"
    title = "The annotator has judged this battle otherwise"

    def __init__(self, detail: str, vote_id: UUID) -> None:
        super().__init__(detail, extensions={"id": str(vote_id)})


@dataclass(slots=True)  # not frozen: that takes four times as long to make, and ten thousand come at once
class NewVote:
    """One annotator's verdict on one pair of models, as it was sent."""

    model_a: str
    model_b: str
    winner: str
    annotator: str
    battle_id: str | None = None
    voted_at: datetime | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class VoteReceipt:
    """What became of a vote.

    `id` is that of the vote on record: this one's when it was created, the earlier one's when it is a duplicate
    of it or contradicts it, None when it is invalid. `replaces` is the vote whose place a created one has taken.
    """

    status: Status
    id: UUID | None = None
    detail: str | None = None
    errors: tuple[FieldError, ...] = ()
    replaces: UUID | None = None


def check_vote(vote: NewVote) -> tuple[FieldError, ...]:
    """Return everything that keeps a vote from being recorded."""
    names = (("/model_a", vote.model_a), ("/model_b", vote.model_b), ("/annotator", vote.annotator))
    errors = [FieldError(pointer, error) for pointer, value in names if (error := name_error(value))]
    if vote.battle_id is not None and (error := name_error(vote.battle_id)):
        errors.append(FieldError("/battle_id", error))
    if vote.model_a == vote.model_b:
        errors.append(FieldError("/model_b", "must differ from model_a"))
    if vote.winner not in WINNERS:
        errors.append(FieldError("/winner", f"must be one of {', '.join(WINNERS)}"))
    if vote.voted_at is not None and not (vote.voted_at.tzinfo and EARLIEST <= vote.voted_at <= LATEST):
        errors.append(FieldError("/voted_at", "must have a time zone and lie between the years 1970 and 9999"))
    if vote.tags:
        errors += tag_errors(vote.tags)
    if vote.metadata and (error := metadata_error(vote.metadata)):
        errors.append(FieldError("/metadata", error))
    return tuple(errors)


def model_errors(models: ModelNames, model_a: str, model_b: str, voted_at: datetime | None) -> tuple[FieldError, ...]:
    """Return what is wrong with two models' names that are valid as names."""
    a, b = models.number(model_a, voted_at), models.number(model_b, voted_at)
    if a is not None and a == b:
        return (FieldError("/model_b", "must differ from model_a: both are names of one model"),)
    unknown = "is not the name of a model; unknown models are refused"
    return tuple(
        FieldError(pointer, unknown) for pointer, number in (("/model_a", a), ("/model_b", b)) if number is None
    )


def invalid_receipt(errors: tuple[FieldError, ...]) -> VoteReceipt:
    """Return the receipt of a vote with these errors."""
    return VoteReceipt("invalid", detail="the vote is not valid", errors=errors)
