"""The record of refits: requests, runs, and how each ended."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, RowMapping, case, func, insert, literal_column, not_, select, tuple_, update
from sqlalchemy.sql import Select

from app.database.ids import new_id
from app.database.leases import MOMENT_SECONDS, end_when_silent
from app.database.notices import notify
from app.database.tables import battles, imports, invitations, refits, snapshots, votes
from app.snapshots.units import VOTES_READ
from app.snapshots.vote_sets import is_retracted, seen_by

RUNNING = ("reading", "fitting", "publishing")

# One writer at a time decides whether a queued refit is reused; the number only has to differ from other locks'.
_REQUEST_LOCK = 20_250_303


def queue_refit(conn: Connection, *, trigger: str, requested_by: str, accept_exclusions: bool) -> UUID:
    """Return the refit that waits to run, after adding one if there is none.

    A request that accepts exclusions makes the waiting refit accept them too.
    """
    conn.execute(select(func.pg_advisory_xact_lock(_REQUEST_LOCK)))
    # The row lock keeps a runner from claiming the refit before the caller's transaction has committed.
    waiting = select(refits.c.id).where(refits.c.state == "queued").order_by(refits.c.requested_at).limit(1)
    found: UUID | None = conn.execute(waiting.with_for_update()).scalar_one_or_none()
    if found is not None:
        if accept_exclusions:
            conn.execute(update(refits).where(refits.c.id == found).values(accept_exclusions=True))
        return found
    refit_id = new_id()
    values = {"id": refit_id, "state": "queued", "trigger": trigger, "requested_by": requested_by}
    conn.execute(insert(refits).values(accept_exclusions=accept_exclusions, **values))
    notify(conn, "refits")
    return refit_id


def refit_is_queued(conn: Connection) -> bool:
    """Whether a refit waits to run."""
    return _any(conn, select(refits.c.id).where(refits.c.state == "queued"))


def refit_is_running(conn: Connection) -> bool:
    """Whether a refit is on record as running. Its worker may have died."""
    return _any(conn, select(refits.c.id).where(refits.c.state.in_(RUNNING)))


def claim_refit(conn: Connection, epoch: int) -> RowMapping | None:
    """Take the oldest waiting refit for the lease holder of this epoch; None if none waits."""
    oldest = select(refits.c.id).where(refits.c.state == "queued").order_by(refits.c.requested_at).limit(1)
    statement = (
        update(refits)
        .where(refits.c.id == oldest.with_for_update().scalar_subquery())
        .values(state="reading", epoch=epoch, started_at=func.clock_timestamp())
    )
    return conn.execute(statement.returning(refits)).mappings().one_or_none()


def advance_refit(conn: Connection, refit_id: UUID, epoch: int, state: str, seconds: dict[str, float]) -> None:
    """Move a running refit to its next state; `seconds` are the times of the stages so far."""
    end_when_silent(conn, MOMENT_SECONDS)  # the next holder of the lease may have to update this row
    conn.execute(
        update(refits)
        .where(refits.c.id == refit_id, refits.c.epoch == epoch, refits.c.state.in_(RUNNING))
        .values(state=state, seconds=seconds)
    )


def request_cancel(conn: Connection, refit_id: UUID) -> bool:
    """End a waiting refit, or mark a running one to be ended; False if it has ended or does not exist."""
    open_refit = refits.c.finished_at.is_(None) & (refits.c.id == refit_id)
    request = update(refits).where(open_refit).values(cancel_requested_at=func.clock_timestamp())
    if not conn.execute(request).rowcount:
        return False
    ended = {"state": "cancelled", "detail": "cancelled before it began", "finished_at": func.clock_timestamp()}
    conn.execute(update(refits).where(refits.c.id == refit_id, refits.c.state == "queued").values(ended))
    return True


def cancel_is_requested(conn: Connection, refit_id: UUID) -> bool:
    """Whether the refit is to be ended."""
    return _any(conn, select(refits.c.id).where(refits.c.id == refit_id, refits.c.cancel_requested_at.is_not(None)))


def typical_seconds(conn: Connection) -> float | None:
    """Return how long the last refit that published took, None if none has."""
    took = func.greatest(func.extract("epoch", refits.c.finished_at - refits.c.started_at), 0)
    statement = select(took).where(refits.c.state == "done").order_by(refits.c.finished_at.desc()).limit(1)
    seconds = conn.execute(statement).scalar_one_or_none()
    return None if seconds is None else float(seconds)


def end_refit(
    conn: Connection, refit_id: UUID, epoch: int, state: str, *, seconds: dict[str, float], detail: str | None = None
) -> bool:
    """Record how a running refit of this epoch ended. One that has ended stays as it is; then this returns False.

    Only a worker that finds itself superseded may say so of a refit that the next worker has given up for lost.
    """
    end_when_silent(conn, MOMENT_SECONDS)
    open_states = (*RUNNING, "failed") if state == "superseded" else RUNNING
    statement = (
        update(refits)
        .where(refits.c.id == refit_id, refits.c.epoch == epoch, refits.c.state.in_(open_states))
        .values(state=state, seconds=seconds, detail=detail, finished_at=func.clock_timestamp())
    )
    return conn.execute(statement).rowcount == 1


def fail_lost_refits(conn: Connection, epoch: int) -> int:
    """Mark refits that earlier holders of the lease left running as failed; return how many."""
    statement = (
        update(refits)
        .where(refits.c.state.in_(RUNNING), refits.c.epoch < epoch)
        .values(state="failed", detail="worker lost", finished_at=func.clock_timestamp())
    )
    return conn.execute(statement).rowcount


def list_rules(conn: Connection, *, limit: int) -> Sequence[tuple[Mapping[str, Any], int]]:
    """Return `diagnostics.rules` and the number of votes read, a ranking as one, of the newest snapshots with them."""
    rules = snapshots.c.diagnostics["rules"]
    statement = select(rules, VOTES_READ).where(snapshots.c.diagnostics.has_key("rules"))
    return [(row[0], row[1]) for row in conn.execute(statement.order_by(snapshots.c.number.desc()).limit(limit))]


class Ended(NamedTuple):
    """How and when a refit ended."""

    state: str
    at: datetime


def last_ended(conn: Connection) -> Ended | None:
    """Return how the last refit ended; None if none has ended.

    Refits that ended in the future are left out: the clock was ahead, and what is due does not wait for it.
    """
    statement = (
        select(refits.c.state, refits.c.finished_at)
        .where(refits.c.finished_at <= func.clock_timestamp())
        .order_by(refits.c.finished_at.desc())
        .limit(1)
    )
    row = conn.execute(statement).one_or_none()
    return None if row is None else Ended(row[0], row[1])


class ImportsSince(NamedTuple):
    """The imports of votes that ran since a refit began last.

    Attributes
    ----------
    began : when the first of them began; None if there are none
    running, ended : whether any is on record as running, and whether any has ended
    """

    began: datetime | None
    running: bool
    ended: bool


def imports_since_refit(conn: Connection) -> ImportsSince:
    """Return what ran since a refit began last. Times in the future, when the clock was ahead, are left out."""
    now, c = func.clock_timestamp(), imports.c
    last = select(func.max(refits.c.started_at)).where(refits.c.started_at <= now).scalar_subquery()
    began, running = func.coalesce(c.started_at, c.created_at), c.state == "running"
    ended = c.finished_at.between(func.coalesce(last, literal_column("'-infinity'::timestamptz")), now) & (
        c.rows_done > 0
    )
    tried = func.coalesce(c.options["dry_run"].as_boolean(), False)
    statement = select(
        func.min(began), func.coalesce(func.bool_or(running), False), func.coalesce(func.bool_or(ended), False)
    )
    return ImportsSince(*conn.execute(statement.where(running | ended, ~tried, began <= now)).one())


def get_refit(conn: Connection, refit_id: UUID) -> RowMapping | None:
    """Return one refit with the id and number of the snapshot it published, or None."""
    return conn.execute(_refits().where(refits.c.id == refit_id)).mappings().one_or_none()


def list_refits(conn: Connection, *, limit: int, before: tuple[datetime, UUID] | None) -> Sequence[RowMapping]:
    """Return refits as `get_refit` does, newest request first, those before (requested_at, id)."""
    statement = _refits().order_by(refits.c.requested_at.desc(), refits.c.id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(tuple_(refits.c.requested_at, refits.c.id) < before)
    return conn.execute(statement).mappings().all()


def _refits() -> Select[Any]:
    columns = (snapshots.c.id.label("snapshot_id"), snapshots.c.number.label("snapshot_number"))
    running = func.greatest(func.extract("epoch", func.clock_timestamp() - refits.c.started_at), 0)
    return select(refits, running.label("running_seconds"), *columns).outerjoin(
        snapshots, snapshots.c.refit_id == refits.c.id
    )


def _any(conn: Connection, rows: Select[Any]) -> bool:
    return bool(conn.execute(select(rows.exists())).scalar_one())


def count_by_door(conn: Connection, vote_set: str) -> dict[str, int]:
    """Return how many votes of a vote set, retracted ones left out, came here by links and through the open door."""
    b, v, i = battles.c, votes.c, invitations.c
    door = case((i.annotator_id.is_(None), "everyone"), else_="links").label("door")
    statement = (
        select(door, func.count().label("n"))
        .join_from(battles, invitations, i.id == b.invitation_id)
        .join(votes, v.id == b.vote_id)
        .where(b.invitation_id.is_not(None), seen_by(v.recorded_in, vote_set), not_(is_retracted(v.id, vote_set)))
        .group_by(door)
    )
    return {"links": 0, "everyone": 0} | {row.door: row.n for row in conn.execute(statement)}
