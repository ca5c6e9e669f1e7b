"""The audit log: who did what, and when. The hash of each entry covers the entry before."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, RowMapping, func, insert, select

from app.database.engine import database_time
from app.database.tables import audit_log

# One entry at a time, because each needs the hash of the one before. The number must differ from those of other locks.
_APPEND_LOCK = 20_250_304


class Head(NamedTuple):
    """An entry's number and its hash, which covers the whole log up to it."""

    number: int
    hash: bytes


def lock_log(conn: Connection) -> datetime:
    """Lock the log against other writers until this transaction ends; return the database's time."""
    conn.execute(select(func.pg_advisory_xact_lock(_APPEND_LOCK)))
    return database_time(conn)


def read_head(conn: Connection) -> Head | None:
    """Return the newest entry's number and hash, None for an empty log."""
    statement = select(audit_log.c.number, audit_log.c.hash).order_by(audit_log.c.number.desc()).limit(1)
    row = conn.execute(statement).one_or_none()
    return None if row is None else Head(row.number, bytes(row.hash))


def append_entry(conn: Connection, values: dict[str, Any]) -> None:
    """Add an entry. The caller holds the log's lock."""
    conn.execute(insert(audit_log).values(values))


def list_entries(
    conn: Connection, *, limit: int, before: int | None, action: str | None, actor: str | None, subject: str | None
) -> Sequence[RowMapping]:
    """Return entries, the newest first, only those with a number below `before`, and of these, if they are given.

    `action` is a whole action or its first part: `decision` finds `decision.exclude`.
    """
    c = audit_log.c
    statement = select(audit_log).order_by(c.number.desc()).limit(limit)
    if before is not None:
        statement = statement.where(c.number < before)
    if action is not None:
        statement = statement.where((c.action == action) | c.action.startswith(f"{action}.", autoescape=True))
    if actor is not None:
        statement = statement.where(c.actor == actor)
    if subject is not None:
        statement = statement.where(c.subject == subject)
    return conn.execute(statement).mappings().all()


def walk_entries(conn: Connection) -> Iterator[RowMapping]:
    """Yield every entry, the oldest first, without loading all of them."""
    statement = select(audit_log).order_by(audit_log.c.number)
    with conn.execute(statement, execution_options={"yield_per": 1_000}) as result:
        yield from result.mappings()
