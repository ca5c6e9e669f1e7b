"""The record of what reviewers decided: added to, never changed."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, func, insert, select

from app.database.ids import new_id
from app.database.tables import decisions
from app.snapshots.vote_sets import seen_by


def insert_decision(conn: Connection, values: Mapping[str, Any]) -> RowMapping:
    """Add a decision and return it."""
    statement = insert(decisions).values(id=new_id(), decided_at=func.clock_timestamp(), **values)
    return conn.execute(statement.returning(decisions)).mappings().one()


def last_actions(conn: Connection, vote_set: str) -> dict[int, str]:
    """Return each annotator's last decision, its action alone, among those that the set's transactions recorded."""
    c = decisions.c
    statement = select(c.annotator_id, c.action).where(seen_by(c.recorded_in, vote_set))
    rows = conn.execute(statement.order_by(c.decided_at, c.id))
    return {row.annotator_id: row.action for row in rows}  # of several, the last stays


def list_decisions(conn: Connection, annotator_id: int) -> Sequence[RowMapping]:
    """Return the decisions on one annotator, the newest first."""
    statement = select(decisions).where(decisions.c.annotator_id == annotator_id)
    return conn.execute(statement.order_by(decisions.c.decided_at.desc(), decisions.c.id.desc())).mappings().all()
