"""Models on record: what they are called, what is known of them, how they fared."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping, func, insert, select, text, update
from sqlalchemy.exc import IntegrityError

from app.database.tables import models, snapshot_models, snapshots

# Numbers of snapshots have few gaps, and only so many index entries are looked at, however many snapshots there are.
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

# One change of names at a time, so that what was checked still holds; the number only has to differ from other locks'.
_NAMES_LOCK = 20_250_305


def lock_names(conn: Connection) -> None:
    """Let changes of models' names and aliases follow one another."""
    conn.execute(select(func.pg_advisory_xact_lock(_NAMES_LOCK)))


def list_models(conn: Connection, *, archived: bool, limit: int, after: str | None) -> Sequence[RowMapping]:
    """Return models by name, those after a name, the archived ones only where asked for."""
    name = models.c.name.collate("C")
    statement = select(models).order_by(name).limit(limit)
    if not archived:
        statement = statement.where(models.c.archived_at.is_(None))
    if after is not None:
        statement = statement.where(name > after)
    return conn.execute(statement).mappings().all()


def read_archived(conn: Connection) -> set[int]:
    """Return the numbers of the models that boards do not show."""
    return set(conn.execute(select(models.c.id).where(models.c.archived_at.is_not(None))).scalars())


def get_model(conn: Connection, model_id: int) -> RowMapping:
    """Return a model that is on record."""
    return conn.execute(select(models).where(models.c.id == model_id)).mappings().one()


def insert_model(conn: Connection, values: Mapping[str, Any]) -> int | None:
    """Add a model and return its number; None where the name is taken."""
    try:
        with conn.begin_nested():
            number: int = conn.execute(insert(models).values(**values).returning(models.c.id)).scalar_one()
    except IntegrityError:
        return None
    return number


def update_model(conn: Connection, model_id: int, values: Mapping[str, Any]) -> bool:
    """Change a model; False where the name it should have is taken."""
    try:
        with conn.begin_nested():
            conn.execute(update(models).where(models.c.id == model_id).values(**values))
    except IntegrityError:
        return False
    return True


def set_archived(conn: Connection, model_id: int, *, archived: bool) -> None:
    """Hide a model from boards or show it again; the time of the first of several hidings stays."""
    moment = func.coalesce(models.c.archived_at, func.clock_timestamp()) if archived else None
    conn.execute(update(models).where(models.c.id == model_id).values(archived_at=moment))


def list_figures(conn: Connection, model_id: int, method: str, *, limit: int) -> Sequence[RowMapping]:
    """Return a model's figures in boards of all votes, the newest first."""
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
    """Return a model's rows on every board of one snapshot, by method and tag."""
    c = snapshot_models.c
    statement = select(snapshot_models).where(c.snapshot_id == snapshot_id, c.model_id == model_id)
    return conn.execute(statement.order_by(c.method, c.tag)).mappings().all()


def list_points(conn: Connection, model_id: int, method: str, *, most: int) -> Sequence[RowMapping]:
    """Return a model's figures in snapshots spread evenly over all there are, the oldest first."""
    return conn.execute(_POINTS, {"model_id": model_id, "method": method, "last": most - 1}).mappings().all()
