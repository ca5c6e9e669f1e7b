"""What the rules said of the crowd in past snapshots."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select

from app.database.tables import snapshots


def list_rules(conn: Connection, *, limit: int) -> Sequence[tuple[Mapping[str, Any], int]]:
    """Return what each rule flags or excludes and how many votes were read, of the newest snapshots that tell."""
    rules = snapshots.c.diagnostics["rules"]
    statement = select(rules, snapshots.c.votes_read).where(snapshots.c.diagnostics.has_key("rules"))
    return [(row[0], row[1]) for row in conn.execute(statement.order_by(snapshots.c.number.desc()).limit(limit))]
