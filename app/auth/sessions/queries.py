"""Sessions and one-time sign-in links on record. Only the SHA-256 of their secrets is stored."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Interval,
    RowMapping,
    and_,
    delete,
    func,
    insert,
    literal,
    not_,
    or_,
    select,
    update,
)

from app.auth.callers import Caller
from app.auth.queries import is_valid, purge
from app.database.tables import api_keys, sessions, sign_in_links

_NOTED_AFTER = timedelta(minutes=1)


def add_session(conn: Connection, values: dict[str, Any], *, idle: timedelta, longest: timedelta) -> None:
    """Add a session of these lifetimes."""
    ends = {"idle_until": _from_now(idle), "expires_at": _from_now(longest)}
    conn.execute(insert(sessions).values(**values, **ends))


def find_session(conn: Connection, secret_hash: bytes, *, idle: timedelta) -> RowMapping | None:
    """Return the session with this secret if it and its key are valid: its id, its key, and whether to note the use."""
    c = sessions.c
    statement = (
        select(
            c.id.label("session_id"),
            c.api_key_id,
            api_keys.c.requests_per_minute,
            func.coalesce(c.name, api_keys.c.name).label("name"),
            func.coalesce(c.scopes, api_keys.c.scopes).label("scopes"),
            (c.last_used_at < _from_now(-min(_NOTED_AFTER, idle / 4))).label("noted_long_ago"),
        )
        .outerjoin_from(sessions, api_keys, api_keys.c.id == c.api_key_id)
        .where(c.secret_hash == secret_hash, _lasts())
    )
    return conn.execute(statement).mappings().one_or_none()


def note_use(conn: Connection, session_id: UUID, *, idle: timedelta) -> None:
    """Note that a session is used now."""
    statement = update(sessions).where(sessions.c.id == session_id)
    conn.execute(statement.values(last_used_at=func.now(), idle_until=_from_now(idle)))


def list_sessions(conn: Connection, caller: Caller | None) -> Sequence[RowMapping]:
    """Return the sessions that last, of one caller or of all, the one used last first."""
    c = sessions.c
    statement = (
        select(
            c.id,
            c.api_key_id.label("key_id"),
            c.browser,
            c.created_at,
            c.last_used_at,
            func.coalesce(c.name, api_keys.c.name).label("name"),
            func.least(c.idle_until, c.expires_at, api_keys.c.expires_at).label("ends_at"),
        )
        .outerjoin_from(sessions, api_keys, api_keys.c.id == c.api_key_id)
        .where(_lasts())
        .order_by(c.last_used_at.desc(), c.id)
    )
    if caller is not None:
        statement = statement.where(c.name == caller.name if caller.key_id is None else c.api_key_id == caller.key_id)
    return conn.execute(statement).mappings().all()


def delete_session(conn: Connection, session_id: UUID) -> bool:
    """Delete a session; return whether it was there."""
    return conn.execute(delete(sessions).where(sessions.c.id == session_id)).rowcount > 0


def purge_ended(conn: Connection) -> None:
    """Delete some sessions and links that have ended."""
    c, dead_keys = sessions.c, select(api_keys.c.id).where(not_(is_valid()))
    purge(conn, sessions, or_(c.idle_until <= func.now(), c.expires_at <= func.now(), c.api_key_id.in_(dead_keys)))
    purge(conn, sign_in_links, sign_in_links.c.expires_at <= func.now())


def add_link(conn: Connection, values: dict[str, Any], lifetime: timedelta) -> None:
    """Add a one-time sign-in link."""
    conn.execute(insert(sign_in_links).values(**values, expires_at=_from_now(lifetime)))


def find_link(conn: Connection, secret_hash: bytes) -> RowMapping | None:
    """Return the key of a link that still works."""
    c = sign_in_links.c
    statement = select(api_keys).join_from(sign_in_links, api_keys, api_keys.c.id == c.api_key_id)
    statement = statement.where(c.secret_hash == secret_hash, c.expires_at > func.now(), is_valid())
    return conn.execute(statement).mappings().one_or_none()


def use_link(conn: Connection, secret_hash: bytes) -> bool:
    """Delete a link; return whether this transaction is the one that did."""
    return conn.execute(delete(sign_in_links).where(sign_in_links.c.secret_hash == secret_hash)).rowcount > 0


def _lasts() -> ColumnElement[bool]:
    """Whether neither the session nor its key, if it has one, has ended."""
    c = sessions.c
    return and_(c.idle_until > func.now(), c.expires_at > func.now(), or_(c.api_key_id.is_(None), is_valid()))


def _from_now(time: timedelta) -> ColumnElement[Any]:
    return func.now() + literal(time, Interval)
