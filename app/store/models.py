"""Models on record: what they are called, what is known of them, how they fared."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping, Select, and_, case, func, insert, or_, select, text, update
from sqlalchemy.exc import IntegrityError

from app.store.tables import models, retracted_votes, snapshot_models, snapshots, votes

_HASH = text(
    """
    SELECT md5(coalesce(string_agg(ROW(id, name, organization, license, link, archived_at)::text, ',' ORDER BY id), ''))
    FROM models
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


def list_figures(
    conn: Connection, model_id: int, method: str, *, limit: int, before: int | None = None
) -> Sequence[RowMapping]:
    """Return a model's figures in published boards, the newest first, those with a snapshot number below `before`."""
    c = snapshot_models.c
    statement = (
        select(
            snapshots.c.id.label("snapshot_id"),
            snapshots.c.number,
            snapshots.c.published_at,
            *(c[name] for name in _FIGURES),
        )
        .join_from(snapshot_models, snapshots)
        .where(c.model_id == model_id, c.method == method)
        .order_by(snapshots.c.number.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.where(snapshots.c.number < before)
    return conn.execute(statement).mappings().all()


def count_head_to_head(conn: Connection, model_id: int) -> Sequence[RowMapping]:
    """Count the votes on a model against each other one, retracted ones left out. Reads every vote."""
    c = votes.c
    first = c.model_a_id == model_id
    opponent = case((first, c.model_b_id), else_=c.model_a_id).label("opponent_id")
    won = or_(and_(first, c.outcome == 0), and_(~first, c.outcome == 1))
    lost = or_(and_(first, c.outcome == 1), and_(~first, c.outcome == 0))
    void = select(retracted_votes.c.vote_id).where(retracted_votes.c.vote_id == c.id).exists()
    counts: Select[Any] = (
        select(
            opponent,
            func.count().label("votes"),
            func.count().filter(won).label("wins"),
            func.count().filter(c.outcome > 1).label("ties"),
            func.count().filter(lost).label("losses"),
        )
        .where(or_(first, c.model_b_id == model_id), ~void)
        .group_by(opponent)
    )
    met = counts.subquery()
    statement = (
        select(models.c.name.label("opponent"), met.c.votes, met.c.wins, met.c.ties, met.c.losses)
        .join_from(met, models, models.c.id == met.c.opponent_id)
        .order_by(models.c.name.collate("C"))
    )
    return conn.execute(statement).mappings().all()


def count_archived(conn: Connection, snapshot_id: UUID, method: str) -> int:
    """Count the archived models of one board."""
    c = snapshot_models.c
    statement = (
        select(func.count())
        .select_from(snapshot_models.join(models))
        .where(c.snapshot_id == snapshot_id, c.method == method, models.c.archived_at.is_not(None))
    )
    return conn.execute(statement).scalar_one()


def hash_models(conn: Connection) -> str:
    """Return what changes whenever anything that boards show of a model itself changes."""
    digest: str = conn.execute(_HASH).scalar_one()
    return digest
