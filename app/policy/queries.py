"""The versions of the policy: added, never changed."""

from typing import Any

from sqlalchemy import Connection, RowMapping, insert, select

from app.database.tables import policies


def newest_policy(conn: Connection) -> RowMapping:
    """Return the policy in force: `version, settings, reason, created_by, created_at`."""
    statement = select(policies).order_by(policies.c.version.desc()).limit(1)
    return conn.execute(statement).mappings().one()


def get_policy(conn: Connection, version: int) -> RowMapping:
    """Return a version that is on record."""
    return conn.execute(select(policies).where(policies.c.version == version)).mappings().one()


def add_policy(conn: Connection, settings: dict[str, Any], reason: str, created_by: str) -> RowMapping:
    """Add a version and return it."""
    statement = insert(policies).values(settings=settings, reason=reason, created_by=created_by)
    return conn.execute(statement.returning(policies)).mappings().one()
