"""API keys on record. Only the SHA-256 of a key is stored."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from app.database.tables import api_keys

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


def revoke(conn: Connection, key_id: UUID) -> RowMapping:
    """Revoke a key that is locked."""
    statement = update(api_keys).where(api_keys.c.id == key_id).values(revoked_at=func.now())
    return conn.execute(statement.returning(*_RECORD)).mappings().one()


def replace(conn: Connection, key_id: UUID, replaced_by: UUID, expires_at: datetime) -> None:
    """Say that another key replaces a locked one, which works until `expires_at`."""
    statement = update(api_keys).where(api_keys.c.id == key_id)
    conn.execute(statement.values(replaced_by=replaced_by, expires_at=expires_at))


def database_time(conn: Connection) -> datetime:
    """Return the time of the transaction on the database's clock."""
    now: datetime = conn.execute(select(func.now())).scalar_one()
    return now
