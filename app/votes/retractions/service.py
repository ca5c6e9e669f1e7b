"""Votes that are retracted, and retractions that are taken back: both stay on record."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from app.annotators.service import find_annotator
from app.audit import service as audit
from app.auth.callers import Caller
from app.database.ids import as_id
from app.errors import ConflictError, NotFoundError, ScopeMissingError, found
from app.models.service import find_model
from app.naming.names import name_error
from app.votes.queries import any_vote
from app.votes.retractions import queries as store
from app.votes.retractions.queries import Target
from app.votes.retractions.schemas import Retraction, VoteOnRecord
from app.votes.rules import WINNERS


class BattleTakenError(ConflictError):
    """A retracted vote cannot count again: the annotator has voted anew on its battle. The problem names that vote."""

    code = "battle-taken"
    title = "The battle has another vote"

    def __init__(self, detail: str, vote_id: UUID) -> None:
        super().__init__(detail, extensions={"id": str(vote_id)})


def find_vote(conn: Connection, vote_id: UUID) -> VoteOnRecord:
    """Return a vote, and what retracted it. Raises NotFoundError."""
    row = found(store.get_vote(conn, vote_id), f"vote {vote_id}")
    void_by = row["retraction_id"]
    retraction = find_retraction(conn, void_by) if void_by else None
    return VoteOnRecord.model_validate({**row, "winner": WINNERS[row["outcome"]], "retraction": retraction})


def retract_vote(conn: Connection, vote_id: UUID, *, caller: Caller, reason: str) -> tuple[Retraction, bool]:
    """Retract one vote. Return the retraction, and whether it is new: a retracted vote keeps its first retraction.

    A key with the scope review may retract any vote, another key only the votes that it sent.

    Raises NotFoundError or ScopeMissingError.
    Raises ConflictError: the vote does not count already: its annotator has replaced it by another.
    """
    store.lock_retractions(conn)
    vote = find_vote(conn, vote_id)
    if not caller.may("review") and vote.api_key_id != caller.key_id:
        raise ScopeMissingError("the vote came with another key; this needs one with the scope review")
    if vote.retraction is not None:
        return vote.retraction, False
    if vote.replaced_by is not None:
        raise ConflictError(f"vote {vote_id} does not count: its annotator replaced it by vote {vote.replaced_by}")
    return _retract(conn, "vote", vote_id, str(vote_id), reason=reason, retracted_by=caller.name), True


def take_back_vote(conn: Connection, vote_id: UUID) -> None:
    """Retract a vote for its annotator. A vote that does not count already stays as it is."""
    store.lock_retractions(conn)
    vote = find_vote(conn, vote_id)
    if vote.retraction is None and vote.replaced_by is None:
        _retract(conn, "vote", vote_id, str(vote_id), reason="taken back by the annotator", retracted_by="annotator")


def retract_votes(conn: Connection, target: Target, reference: str, *, reason: str, retracted_by: str) -> Retraction:
    """Retract one vote, or the votes of a battle, a model, an annotator or an import that are on record now.

    Votes that come later count. An import that still runs is ended. `reference` is the id of a vote, a battle or an
    import, a present name of a model, or the id or the key of an annotator.

    Raises NotFoundError: there is no such vote, battle, model, annotator or import.
    """
    store.lock_retractions(conn)
    key, target_id = _FINDERS[target](conn, reference)
    return _retract(conn, target, key, target_id, reason=reason, retracted_by=retracted_by)


def list_retractions(conn: Connection, *, limit: int, before: UUID | None = None) -> list[Retraction]:
    """Return retractions, the newest first. `before` is the id of one that only older ones follow."""
    return [
        Retraction.model_validate(dict(row)) for row in store.list_with_withdrawals(conn, limit=limit, before=before)
    ]


def find_retraction(conn: Connection, retraction_id: UUID) -> Retraction:
    """Return a retraction. Raises NotFoundError."""
    row = found(store.find_retraction(conn, retraction_id), f"retraction {retraction_id}")
    return Retraction.model_validate(dict(row))


def withdraw_retraction(conn: Connection, retraction_id: UUID, *, reason: str, withdrawn_by: str) -> Retraction:
    """Take back a retraction: its votes count again, from the next refit on, unless something else retracts them.

    A withdrawn retraction stays as it is. Needs a READ COMMITTED transaction.

    Raises NotFoundError.
    Raises BattleTakenError: the annotator of a vote has voted anew on its battle.
    Raises ConflictError: the file of an import that was undone has been imported again, so that its votes would count
    twice.
    """
    store.lock_retractions(conn)
    earlier = find_retraction(conn, retraction_id)
    if earlier.withdrawn_at is not None:
        return earlier
    if earlier.target == "import" and (again := store.find_imported_again(conn, UUID(earlier.target_id))):
        raise ConflictError(f"the same file was imported again, by import {again}: undo that one first")
    store.lock_battles_of(conn, retraction_id)
    store.insert_withdrawal(conn, {"retraction_id": retraction_id, "reason": reason, "withdrawn_by": withdrawn_by})
    if rival := store.find_rival(conn, retraction_id):
        own, other = rival
        raise BattleTakenError(
            f"vote {own} cannot count again: vote {other} is on the same battle; retract that one first", other
        )
    # Without the reason: people write names into reasons, and the audit log is never changed.
    detail = {"target": earlier.target, "votes": store.count_restored(conn, retraction_id)}
    audit.record(
        conn, actor=withdrawn_by, action="votes.retraction.withdraw", subject=str(retraction_id), detail=detail
    )
    return find_retraction(conn, retraction_id)


def _retract(
    conn: Connection, target: Target, key: Any, target_id: str, *, reason: str, retracted_by: str
) -> Retraction:
    meant = store.votes_of(target, key)
    row = store.retract(conn, meant, target=target, target_id=target_id, reason=reason, retracted_by=retracted_by)
    # Without the reason: people write names into reasons, and the audit log is never changed.
    detail = {"retraction": row["id"], "votes": row["votes"]}
    subject = target_id if target != "battle" else str(row["id"])
    audit.record(conn, actor=retracted_by, action=f"votes.retract.{target}", subject=subject, detail=detail)
    return find_retraction(conn, row["id"])


def _find_vote(conn: Connection, reference: str) -> tuple[UUID, str]:
    vote_id = found(as_id(reference), "such vote: votes are named by their ids")
    if not any_vote(conn, store.votes_of("vote", vote_id)):
        raise NotFoundError(f"there is no vote {vote_id}")
    return vote_id, str(vote_id)


def _find_battle(conn: Connection, reference: str) -> tuple[str, str]:
    if name_error(reference) is not None or not any_vote(conn, store.votes_of("battle", reference)):
        raise NotFoundError("there is no vote on this battle")
    return reference, reference


def _find_model(conn: Connection, reference: str) -> tuple[int, str]:
    model = find_model(conn, reference)
    return model.model_id, model.name


def _find_annotator(conn: Connection, reference: str) -> tuple[int, str]:
    annotator = find_annotator(conn, reference)
    return annotator.annotator_id, str(annotator.id)


def _find_import(conn: Connection, reference: str) -> tuple[UUID, str]:
    import_id = found(as_id(reference), "such import: imports are named by their ids")
    if not store.stop_import(conn, import_id, detail="its votes were retracted before it ended"):
        raise NotFoundError(f"there is no import {import_id}")
    return import_id, str(import_id)


_FINDERS: dict[Target, Callable[[Connection, str], tuple[Any, str]]] = {
    "vote": _find_vote,
    "battle": _find_battle,
    "model": _find_model,
    "annotator": _find_annotator,
    "import": _find_import,
}
