"""One model's rows in published snapshots."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, RowMapping, select, text

from app.database.tables import snapshot_models, snapshots

# Snapshot numbers have few gaps. So this looks at only as many index entries as it returns points.
_POINTS = text(
    """
    WITH ends AS (SELECT min(number) AS first, max(number) AS last FROM snapshots),
    wanted AS (
        SELECT last - place * (last - first)::bigint / greatest(:last, 1) AS number
        FROM ends, generate_series(0, :last) AS place
    )
    SELECT DISTINCT ON (s.number) s.number, s.published_at, m.score, m.lower, m.upper, m.rank, m.votes
    FROM wanted
    JOIN LATERAL (
        SELECT id, number, published_at FROM snapshots WHERE snapshots.number <= wanted.number
        ORDER BY snapshots.number DESC LIMIT 1
    ) s ON TRUE
    JOIN snapshot_models m
        ON m.snapshot_id = s.id AND m.method = :method AND m.tag = '' AND m.model_id = :model_id
    ORDER BY s.number
    """
)
_FIGURES = ("score", "se", "lower", "upper", "rank", "best_rank", "worst_rank", "votes")


def list_figures(conn: Connection, model_id: int, method: str, *, limit: int) -> Sequence[RowMapping]:
    """Return a model's rows on one method's leaderboards of all votes, the newest first."""
    c = snapshot_models.c
    statement = (
        select(
            snapshots.c.id.label("snapshot_id"),
            snapshots.c.number,
            snapshots.c.published_at,
            *(c[name] for name in _FIGURES),
        )
        .join_from(snapshot_models, snapshots)
        .where(c.model_id == model_id, c.method == method, c.tag == "")
        .order_by(snapshots.c.number.desc())
        .limit(limit)
    )
    return conn.execute(statement).mappings().all()


def list_places(conn: Connection, model_id: int, snapshot_id: UUID) -> Sequence[RowMapping]:
    """Return a model's rows on every leaderboard of one snapshot, by method and tag."""
    c = snapshot_models.c
    statement = select(snapshot_models).where(c.snapshot_id == snapshot_id, c.model_id == model_id)
    return conn.execute(statement.order_by(c.method, c.tag)).mappings().all()


def list_points(conn: Connection, model_id: int, method: str, *, most: int) -> Sequence[RowMapping]:
    """Return a model's scores in snapshots spread evenly over all of them, the oldest first."""
    return conn.execute(_POINTS, {"model_id": model_id, "method": method, "last": most - 1}).mappings().all()
