"""The versions of the policy: added, never changed."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, insert, select, text

from app.database.tables import policies


def newest_policy(conn: Connection) -> RowMapping:
    """Return the policy in force: `version, settings, reason, created_by, created_at`."""
    statement = select(policies).order_by(policies.c.version.desc()).limit(1)
    return conn.execute(statement).mappings().one()


def list_policies(conn: Connection, *, limit: int) -> Sequence[RowMapping]:
    """Return the latest versions, the newest first."""
    statement = select(policies).order_by(policies.c.version.desc()).limit(limit)
    return conn.execute(statement).mappings().all()


def find_policy(conn: Connection, version: int) -> RowMapping | None:
    """Return a version, None where there is none."""
    return conn.execute(select(policies).where(policies.c.version == version)).mappings().one_or_none()


def policy_before(conn: Connection, version: int) -> RowMapping | None:
    """Return the version before this one, None for the first."""
    statement = select(policies).where(policies.c.version < version).order_by(policies.c.version.desc()).limit(1)
    return conn.execute(statement).mappings().one_or_none()


def lock_policies(conn: Connection) -> None:
    """Wait until no other transaction adds a version; the newest one stays so until this transaction ends."""
    conn.execute(text("LOCK TABLE policies IN SHARE ROW EXCLUSIVE MODE"))


def add_policy(conn: Connection, settings: dict[str, Any], reason: str, created_by: str) -> RowMapping:
    """Add a version and return it."""
    statement = insert(policies).values(settings=settings, reason=reason, created_by=created_by)
    return conn.execute(statement.returning(policies)).mappings().one()
