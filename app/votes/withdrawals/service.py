"""Retractions that are taken back. The retraction and its withdrawal both stay on record."""

from uuid import UUID

from sqlalchemy import Connection

from app.audit import service as audit
from app.errors import ConflictError, NotFoundError
from app.votes.queries import lock_retractions
from app.votes.schemas import Retraction
from app.votes.withdrawals import queries as store


class BattleTakenError(ConflictError):
    """A retracted vote cannot count again: the annotator has voted anew on its battle. The problem names that vote."""

    code = "battle-taken"
    title = "The battle has another vote"

    def __init__(self, detail: str, vote_id: UUID) -> None:
        super().__init__(detail, extensions={"id": str(vote_id)})


def find_retraction(conn: Connection, retraction_id: UUID) -> Retraction:
    """Return a retraction.

    Raises
    ------
    NotFoundError
    """
    row = store.find_retraction(conn, retraction_id)
    if row is None:
        raise NotFoundError(f"there is no retraction {retraction_id}")
    return Retraction.model_validate(dict(row))


def withdraw_retraction(conn: Connection, retraction_id: UUID, *, reason: str, withdrawn_by: str) -> Retraction:
    """Take back a retraction: its votes count again, from the next refit on, unless something else retracts them.

    A withdrawn retraction stays as it is. Needs a READ COMMITTED transaction.

    Raises
    ------
    NotFoundError
    BattleTakenError
        The annotator of a vote has voted anew on its battle.
    ConflictError
        The file of an import that was undone has been imported again, so that its votes would count twice.
    """
    lock_retractions(conn)
    found = find_retraction(conn, retraction_id)
    if found.withdrawn_at is not None:
        return found
    if found.target == "import" and (again := store.find_imported_again(conn, UUID(found.target_id))):
        raise ConflictError(f"the same file was imported again, by import {again}: undo that one first")
    store.lock_battles_of(conn, retraction_id)
    store.insert_withdrawal(conn, {"retraction_id": retraction_id, "reason": reason, "withdrawn_by": withdrawn_by})
    if rival := store.find_rival(conn, retraction_id):
        own, other = rival
        raise BattleTakenError(
            f"vote {own} cannot count again: vote {other} is on the same battle; retract that one first", other
        )
    # Without the reason: people write names into reasons, and the audit log is never changed.
    detail = {"target": found.target, "votes": store.count_restored(conn, retraction_id)}
    audit.record(
        conn, actor=withdrawn_by, action="votes.retraction.withdraw", subject=str(retraction_id), detail=detail
    )
    return find_retraction(conn, retraction_id)
