"""Pairs of models in the counted votes of a snapshot."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, RowMapping, and_, or_, select, tuple_

from app.database.tables import models, snapshot_matchups


def list_matchups(
    conn: Connection,
    snapshot_id: UUID,
    *,
    model_id: int | None = None,
    after: tuple[int, int] | None = None,
    limit: int | None = None,
) -> Sequence[RowMapping]:
    """Return a snapshot's pairs, or those of one model, ordered by the models' numbers, those after a pair.

    Each row has the columns of `snapshot_matchups` and the names `model_a` and `model_b`. Pairs with an archived model
    are left out, except where that model is `model_id`.
    """
    c, side_a, side_b = snapshot_matchups.c, models.alias(), models.alias()
    shown = [or_(side.c.archived_at.is_(None), side.c.id == model_id) for side in (side_a, side_b)]
    pair = (c.model_a_id, c.model_b_id)
    statement = (
        select(snapshot_matchups, side_a.c.name.label("model_a"), side_b.c.name.label("model_b"))
        .join_from(snapshot_matchups, side_a, side_a.c.id == c.model_a_id)
        .join(side_b, side_b.c.id == c.model_b_id)
        .where(c.snapshot_id == snapshot_id, and_(*shown))
        .order_by(*pair)
        .limit(limit)
    )
    if model_id is not None:
        statement = statement.where(or_(c.model_a_id == model_id, c.model_b_id == model_id))
    if after is not None:
        statement = statement.where(tuple_(*pair) > after)
    return conn.execute(statement).mappings().all()


def has_matchups(conn: Connection, snapshot_id: UUID) -> bool:
    """Return whether a snapshot has any pair."""
    rows = select(snapshot_matchups.c.snapshot_id).where(snapshot_matchups.c.snapshot_id == snapshot_id)
    return bool(conn.execute(select(rows.exists())).scalar_one())
