"""Short-lived tokens on record. Only the SHA-256 of a token is stored."""

from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Interval, RowMapping, delete, func, literal, select
from sqlalchemy.dialects.postgresql import insert

from app.auth.keys.queries import is_valid
from app.database.tables import api_keys, ingest_tokens

_PURGED_AT_ONCE = 1_000


def add_token(conn: Connection, values: dict[str, Any], lifetime: timedelta) -> RowMapping | None:
    """Add a token, which expires no later than its key; return `id, expires_at`, or None if the prefix is taken."""
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


def purge_expired(conn: Connection) -> int:
    """Delete some expired tokens and return their number. Those that another transaction is deleting are skipped."""
    expired = (
        select(ingest_tokens.c.id)
        .where(ingest_tokens.c.expires_at <= func.now())
        .limit(_PURGED_AT_ONCE)
        .with_for_update(skip_locked=True)
    )
    return conn.execute(delete(ingest_tokens).where(ingest_tokens.c.id.in_(expired.scalar_subquery()))).rowcount
