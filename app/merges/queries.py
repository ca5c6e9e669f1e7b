"""Merges and marks on record: a row is never changed, and the last row of a model and a time is in force."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, RowMapping, func, insert, nulls_first, select

from app.database.tables import model_merges, models


def list_merges(conn: Connection) -> Sequence[RowMapping]:
    """Return the rows in force, with the names of the models, by model and time."""
    c, into = model_merges.c, models.alias("into")
    newest = select(func.max(c.id)).group_by(c.model_id, c.before)
    statement = (
        select(
            models.c.name.label("model"),
            c.before.label("changed_at"),
            into.c.name.label("into"),
            c.reason,
            c.recorded_by,
            c.recorded_at,
        )
        .join(models, models.c.id == c.model_id)
        .join(into, into.c.id == c.into_id)  # a row that ends one has none
        .where(c.id.in_(newest))
        .order_by(models.c.name.collate("C"), nulls_first(c.before))
    )
    return conn.execute(statement).mappings().all()


def insert_merge(
    conn: Connection,
    model_id: int,
    before: datetime | None,
    into_id: int | None,
    *,
    reason: str | None,
    recorded_by: str,
) -> None:
    """Record for which model the votes on a model, cast before a time, count from now on; None for all, for itself."""
    values = {"model_id": model_id, "before": before, "into_id": into_id, "reason": reason, "recorded_by": recorded_by}
    conn.execute(insert(model_merges).values(**values, recorded_at=func.clock_timestamp()))


def find_former(conn: Connection, model_id: int, before: datetime) -> int | None:
    """Return the model for which the votes on a model before a time counted last; None where they never did."""
    c = model_merges.c
    meant = select(c.into_id).where(c.model_id == model_id, c.before == before, c.into_id.is_not(None))
    return conn.execute(meant.order_by(c.id.desc()).limit(1)).scalar_one_or_none()


def database_time(conn: Connection) -> datetime:
    """Return the time on the database's clock."""
    now: datetime = conn.execute(select(func.clock_timestamp())).scalar_one()
    return now
