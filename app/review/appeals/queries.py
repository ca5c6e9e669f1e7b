"""Annotators' notes to the reviewers: rows are added, never changed."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, RowMapping, exists, func, insert, select, tuple_
from sqlalchemy.sql import Select

from app.database.ids import new_id
from app.database.tables import annotators, appeals, decisions

_later_decision = exists().where(
    decisions.c.annotator_id == appeals.c.annotator_id, decisions.c.decided_at > appeals.c.submitted_at
)


def insert_appeal(conn: Connection, annotator_id: int, note: str, submitted_by: str) -> UUID:
    """Add an appeal and return its id."""
    appeal_id = new_id()
    values = {"annotator_id": annotator_id, "note": note, "submitted_by": submitted_by}
    conn.execute(insert(appeals).values(id=appeal_id, submitted_at=func.clock_timestamp(), **values))
    return appeal_id


def count_open(conn: Connection, annotator_id: int) -> int:
    """Count the annotator's appeals that no decision has followed yet."""
    statement = select(func.count()).where(appeals.c.annotator_id == annotator_id, ~_later_decision)
    return conn.execute(statement).scalar_one()


def get_appeal(conn: Connection, appeal_id: UUID) -> RowMapping:
    """Return one appeal, as `list_appeals` does."""
    return conn.execute(_appeals().where(appeals.c.id == appeal_id)).mappings().one()


def list_appeals(
    conn: Connection, *, limit: int, only_open: bool, annotator_id: int | None, after: tuple[datetime, UUID] | None
) -> Sequence[RowMapping]:
    """Return appeals, the oldest first, those after (submitted_at, id)."""
    statement = _appeals().order_by(appeals.c.submitted_at, appeals.c.id).limit(limit)
    if only_open:
        statement = statement.where(~_later_decision)
    if annotator_id is not None:
        statement = statement.where(appeals.c.annotator_id == annotator_id)
    if after is not None:
        statement = statement.where(tuple_(appeals.c.submitted_at, appeals.c.id) > after)
    return conn.execute(statement).mappings().all()


def _appeals() -> Select[tuple[object, ...]]:
    return select(
        appeals.c.id,
        annotators.c.public_id.label("annotator_id"),
        annotators.c.key.label("annotator"),
        appeals.c.note,
        appeals.c.submitted_by,
        appeals.c.submitted_at,
        (~_later_decision).label("open"),
    ).join_from(appeals, annotators)
