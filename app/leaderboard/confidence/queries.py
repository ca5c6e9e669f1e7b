from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, RowMapping, select

from app.database.tables import models, snapshot_models


def read_places(conn: Connection, snapshot_id: UUID, tag: str, model_ids: Sequence[int]) -> dict[int, RowMapping]:
    """Return `model, archived, rank, score` of these models on an am-elo leaderboard, by their numbers."""
    c = snapshot_models.c
    archived = models.c.archived_at.is_not(None).label("archived")
    statement = (
        select(c.model_id, models.c.name.label("model"), archived, c.rank, c.score)
        .join_from(snapshot_models, models)
        .where(c.snapshot_id == snapshot_id, c.method == "am-elo", c.tag == tag, c.model_id.in_(model_ids))
    )
    return {row["model_id"]: row for row in conn.execute(statement).mappings()}
