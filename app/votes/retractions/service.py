from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.annotators.service import find_annotator
from app.audit import service as audit
from app.auth.callers import Caller
from app.errors import ConflictError, NotFoundError, ScopeMissingError
from app.models.service import find_model
from app.naming.names import name_error
from app.votes.retractions import queries as store
from app.votes.retractions.queries import Target
from app.votes.rules import WINNERS, Winner


class Retraction(BaseModel):
    """Votes taken back: they stay on record and count no more, from the next refit on."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    target: Target
    target_id: str = Field(
        description="Of a vote or an annotator the id, of a battle its id, of a model its name then."
    )
    reason: str
    retracted_by: str = Field(description="Name of the key it was done with.")
    votes: int = Field(description="Votes that it voided; those that were void before are not counted again.")
    retracted_at: datetime


class VoteOnRecord(BaseModel):
    """A vote as it was recorded, under the names that its models and its annotator have today."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    model_a: str
    model_b: str
    winner: Winner
    annotator: str
    annotator_id: UUID
    battle_id: str | None
    voted_at: datetime | None
    received_at: datetime
    tags: list[str]
    metadata: dict[str, Any] | None
    api_key_id: UUID | None = Field(description="The key it came with; null for an import.")
    import_id: UUID | None
    retraction: Retraction | None = Field(description="What voided it; null for a vote that counts.")
    replaced_by: UUID | None = Field(description="The annotator's later verdict on the battle, where there is one.")


def find_vote(conn: Connection, vote_id: UUID) -> VoteOnRecord:
    """Return a vote with what voided it.

    Raises
    ------
    NotFoundError
    """
    row = store.get_vote(conn, vote_id)
    if row is None:
        raise NotFoundError(f"there is no vote {vote_id}")
    void_by = row["retraction_id"]
    retraction = Retraction.model_validate(dict(store.get_retraction(conn, void_by))) if void_by else None
    return VoteOnRecord.model_validate({**row, "winner": WINNERS[row["outcome"]], "retraction": retraction})


def retract_vote(conn: Connection, vote_id: UUID, *, caller: Caller, reason: str) -> tuple[Retraction, bool]:
    """Void one vote; return the retraction and whether it is new: a void vote keeps the retraction it has.

    Whoever reviews may void any vote; a key without that scope those that came with it.

    Raises
    ------
    NotFoundError, ScopeMissingError
    ConflictError
        The vote does not count anyway: its annotator has replaced it by another.
    """
    store.lock_vote(conn, vote_id)
    vote = find_vote(conn, vote_id)
    if not caller.may("review") and vote.api_key_id != caller.key_id:
        raise ScopeMissingError("the vote came with another key; this needs one with the scope review")
    if vote.retraction is not None:
        return vote.retraction, False
    if vote.replaced_by is not None:
        raise ConflictError(f"vote {vote_id} does not count: its annotator replaced it by vote {vote.replaced_by}")
    return _retract(conn, "vote", vote_id, str(vote_id), reason=reason, retracted_by=caller.name), True


def retract_votes(conn: Connection, target: Target, reference: str, *, reason: str, retracted_by: str) -> Retraction:
    """Void the votes that are on record now of a battle, a model or an annotator, or one vote.

    Votes that come later count. A model is meant by its name or an alias of now, an annotator by id or key.

    Raises
    ------
    NotFoundError
        There is no such vote, battle, model or annotator.
    """
    key, target_id = _FINDERS[target](conn, reference)
    return _retract(conn, target, key, target_id, reason=reason, retracted_by=retracted_by)


def list_retractions(conn: Connection, *, limit: int, before: UUID | None = None) -> list[Retraction]:
    """Return retractions, the newest first, those older than the one with the id `before`."""
    rows = store.list_retractions(conn, limit=limit, before=before)
    return [Retraction.model_validate(dict(row)) for row in rows]


def _retract(
    conn: Connection, target: Target, key: Any, target_id: str, *, reason: str, retracted_by: str
) -> Retraction:
    meant = store.votes_of(target, key)
    row = store.retract(conn, meant, target=target, target_id=target_id, reason=reason, retracted_by=retracted_by)
    # The reason stays out of it: people write names into reasons, and the log never forgets.
    detail = {"retraction": row["id"], "votes": row["votes"]}
    subject = target_id if target != "battle" else str(row["id"])
    audit.record(conn, actor=retracted_by, action=f"votes.retract.{target}", subject=subject, detail=detail)
    return Retraction.model_validate(dict(row))


def _find_vote(conn: Connection, reference: str) -> tuple[UUID, str]:
    try:
        vote_id = UUID(reference)
    except ValueError:
        raise NotFoundError("there is no such vote: votes are named by their ids") from None
    if not store.any_vote(conn, store.votes_of("vote", vote_id)):
        raise NotFoundError(f"there is no vote {vote_id}")
    return vote_id, str(vote_id)


def _find_battle(conn: Connection, reference: str) -> tuple[str, str]:
    if name_error(reference) is not None or not store.any_vote(conn, store.votes_of("battle", reference)):
        raise NotFoundError("there is no vote on this battle")
    return reference, reference


def _find_model(conn: Connection, reference: str) -> tuple[int, str]:
    found = find_model(conn, reference)
    return found.model_id, found.name


def _find_annotator(conn: Connection, reference: str) -> tuple[int, str]:
    found = find_annotator(conn, reference)
    return found.annotator_id, str(found.id)


_FINDERS: dict[Target, Callable[[Connection, str], tuple[Any, str]]] = {
    "vote": _find_vote,
    "battle": _find_battle,
    "model": _find_model,
    "annotator": _find_annotator,
}
