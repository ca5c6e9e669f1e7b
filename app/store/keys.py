"""API keys on record: never the key itself, only its SHA-256."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping, func, select, update
from sqlalchemy.dialects.postgresql import insert

from app.store.tables import api_keys

_RECORD = (
    api_keys.c.id,
    api_keys.c.name,
    api_keys.c.prefix,
    api_keys.c.scopes,
    api_keys.c.created_at,
    api_keys.c.revoked_at,
)


def add_key(conn: Connection, values: dict[str, Any]) -> RowMapping | None:
    """Add a key and return its record, or None if the prefix is taken."""
    statement = insert(api_keys).values(values).on_conflict_do_nothing(index_elements=[api_keys.c.prefix])
    return conn.execute(statement.returning(*_RECORD)).mappings().one_or_none()


def read_keys(conn: Connection) -> Sequence[RowMapping]:
    """Return every key's record, revoked ones too, oldest first."""
    return conn.execute(select(*_RECORD).order_by(api_keys.c.created_at, api_keys.c.id)).mappings().all()


def find_valid_key(conn: Connection, prefix: str) -> RowMapping | None:
    """Return the record and `secret_hash` of the key with this prefix, unless it is revoked."""
    statement = select(*_RECORD, api_keys.c.secret_hash).where(
        api_keys.c.prefix == prefix, api_keys.c.revoked_at.is_(None)
    )
    return conn.execute(statement).mappings().one_or_none()


def revoke(conn: Connection, *, key_id: UUID | None = None, prefix: str | None = None) -> RowMapping | None:
    """Revoke a key; the time of the first revocation stays. None if there is no such key."""
    match = api_keys.c.id == key_id if key_id is not None else api_keys.c.prefix == prefix
    statement = update(api_keys).where(match).values(revoked_at=func.coalesce(api_keys.c.revoked_at, func.now()))
    return conn.execute(statement.returning(*_RECORD)).mappings().one_or_none()
