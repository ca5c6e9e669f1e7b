"""The versions of the policy: added, never changed."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, insert, select, text

from app.database.tables import models, policies


def list_policies(conn: Connection, *, limit: int, until: int | None = None) -> Sequence[RowMapping]:
    """Return the latest versions, of all or up to one, the newest first.

    `version, settings, reason, created_by, created_at`.
    """
    statement = select(policies).order_by(policies.c.version.desc()).limit(limit)
    if until is not None:
        statement = statement.where(policies.c.version <= until)
    return conn.execute(statement).mappings().all()


def is_unreleased(conn: Connection, model_id: int) -> bool:
    """Return whether nothing public names a model."""
    return bool(conn.execute(select(models.c.unreleased).where(models.c.id == model_id)).scalar_one())


def lock_policies(conn: Connection) -> None:
    """Wait until no other transaction adds a version; the newest one stays so until this transaction ends."""
    conn.execute(text("LOCK TABLE policies IN SHARE ROW EXCLUSIVE MODE"))


def add_policy(conn: Connection, settings: dict[str, Any], reason: str, created_by: str) -> RowMapping:
    """Add a version and return it."""
    statement = insert(policies).values(settings=settings, reason=reason, created_by=created_by)
    return conn.execute(statement.returning(policies)).mappings().one()
