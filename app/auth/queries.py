"""API keys and short-lived tokens on record. Only their SHA-256 is stored."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Interval,
    RowMapping,
    Table,
    and_,
    delete,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from app.database.tables import api_keys, ingest_tokens

_RECORD = tuple(column for column in api_keys.c if column.name != "secret_hash")


def add_key(conn: Connection, values: dict[str, Any]) -> RowMapping | None:
    """Add a key and return its record, or None if the prefix is taken."""
    statement = insert(api_keys).values(values).on_conflict_do_nothing(index_elements=[api_keys.c.prefix])
    return conn.execute(statement.returning(*_RECORD)).mappings().one_or_none()


def read_keys(conn: Connection) -> Sequence[RowMapping]:
    """Return every key's record, revoked ones too, oldest first."""
    return conn.execute(select(*_RECORD).order_by(api_keys.c.created_at, api_keys.c.id)).mappings().all()


def is_valid() -> ColumnElement[bool]:
    """Return the condition that a key works: it is neither revoked nor expired."""
    c = api_keys.c
    return and_(c.revoked_at.is_(None), or_(c.expires_at.is_(None), c.expires_at > func.now()))


def find_valid_key(conn: Connection, prefix: str) -> RowMapping | None:
    """Return the record and `secret_hash` of the valid key with this prefix."""
    statement = select(api_keys).where(api_keys.c.prefix == prefix, is_valid())
    return conn.execute(statement).mappings().one_or_none()


def lock_key(conn: Connection, *, key_id: UUID | None = None, prefix: str | None = None) -> RowMapping | None:
    """Return a key's record and lock it until the transaction ends; None if there is no such key."""
    match = api_keys.c.id == key_id if key_id is not None else api_keys.c.prefix == prefix
    return conn.execute(select(*_RECORD).where(match).with_for_update(key_share=True)).mappings().one_or_none()


def change_key(conn: Connection, key_id: UUID, **values: Any) -> RowMapping:
    """Change a key that is locked, and return its record."""
    statement = update(api_keys).where(api_keys.c.id == key_id).values(**values)
    return conn.execute(statement.returning(*_RECORD)).mappings().one()


def transaction_time(conn: Connection) -> datetime:
    """Return when the transaction began, by the database's clock."""
    now: datetime = conn.execute(select(func.now())).scalar_one()
    return now


_PURGED_AT_ONCE = 1_000


def add_token(conn: Connection, values: dict[str, Any], lifetime: timedelta) -> RowMapping | None:
    """Add a token, which expires no later than its key; return `id, expires_at`, or None if the prefix is taken.

    Some expired tokens are deleted at the same time.
    """
    purge(conn, ingest_tokens, ingest_tokens.c.expires_at <= func.now())
    key_ends = select(api_keys.c.expires_at).where(api_keys.c.id == values["api_key_id"]).scalar_subquery()
    ends = func.least(func.now() + literal(lifetime, Interval), key_ends)  # it ignores the null of a key without end
    statement = insert(ingest_tokens).values(expires_at=ends, **values)
    statement = statement.on_conflict_do_nothing(index_elements=[ingest_tokens.c.prefix])
    return conn.execute(statement.returning(ingest_tokens.c.id, ingest_tokens.c.expires_at)).mappings().one_or_none()


def find_valid_token(conn: Connection, prefix: str) -> RowMapping | None:
    """Return a token with its key's `name` and `requests_per_minute`, if both the token and the key are valid."""
    statement = (
        select(ingest_tokens, api_keys.c.name, api_keys.c.requests_per_minute)
        .join_from(ingest_tokens, api_keys, api_keys.c.id == ingest_tokens.c.api_key_id)
        .where(ingest_tokens.c.prefix == prefix, ingest_tokens.c.expires_at > func.now(), is_valid())
    )
    return conn.execute(statement).mappings().one_or_none()


def purge(conn: Connection, table: Table, ended: ColumnElement[bool]) -> None:
    """Delete some rows that have ended. Those that another transaction is deleting are skipped."""
    some = select(table.c.id).where(ended).limit(_PURGED_AT_ONCE).with_for_update(skip_locked=True)
    conn.execute(delete(table).where(table.c.id.in_(some.scalar_subquery())))
