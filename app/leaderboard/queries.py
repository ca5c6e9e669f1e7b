"""Published leaderboards: their snapshot's current state, and their rows."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, RowMapping, func, select, text

from app.database.tables import models, snapshot_models

# Every request for a leaderboard runs this statement. Plain text is the cheapest, and no column in it is large.
# Refits end in about the order of their requests, so the last 20 hold the one that ended last.
_STATE = """
    SELECT s.id, s.number, s.published_at, s.policy_version, s.votes_read, s.votes_used, s.votes_hash, s.vote_set,
        extract(epoch FROM clock_timestamp() - s.published_at)::float8 AS age_seconds,
        (SELECT settings FROM policies ORDER BY version DESC LIMIT 1) AS policy,
        (SELECT max(finished_at) FROM (SELECT finished_at FROM refits ORDER BY requested_at DESC LIMIT 20) r)
            AS last_refit_at,
        (SELECT md5(coalesce(string_agg(
            ROW(id, name, organization, license, link, archived_at)::text, ',' ORDER BY id), '')) FROM models)
            AS models_hash
    FROM snapshots s
"""
_NEWEST = text(f"{_STATE} ORDER BY s.number DESC LIMIT 1")
_NEWEST_AS_OF = text(f"{_STATE} WHERE s.published_at <= :as_of ORDER BY s.number DESC LIMIT 1")
_ONE = text(f"{_STATE} WHERE s.id = CAST(:id AS uuid) OR s.number = CAST(:number AS integer)")


def find_state(
    conn: Connection, *, snapshot: UUID | int | None = None, as_of: datetime | None = None
) -> RowMapping | None:
    """Return a snapshot and its current state: by default of the newest snapshot, or of the newest at a time.

    `id, number, published_at, policy_version, votes_read, votes_used, votes_hash, vote_set`; `age_seconds`, by the
    database's clock; `policy`, the settings in force; `last_refit_at`, when the last refit ended; `models_hash`, which
    changes when anything that leaderboards show of a model itself changes. None where there is no such snapshot.
    """
    if snapshot is not None:
        by_id = isinstance(snapshot, UUID)
        found = conn.execute(_ONE, {"id": snapshot if by_id else None, "number": None if by_id else snapshot})
    elif as_of is not None:
        found = conn.execute(_NEWEST_AS_OF, {"as_of": as_of})
    else:
        found = conn.execute(_NEWEST)
    return found.mappings().one_or_none()


def read_rows(conn: Connection, snapshot_id: UUID, method: str, tag: str = "") -> Sequence[RowMapping]:
    """Return the models of one leaderboard that are not archived, by component, rank and name.

    Each row has `model`, the columns of `snapshot_models`, and what is known of the model.
    """
    c = snapshot_models.c
    known = models.c.organization, models.c.license, models.c.link
    statement = (
        select(models.c.name.label("model"), snapshot_models, *known)
        .join_from(snapshot_models, models)
        .where(c.snapshot_id == snapshot_id, c.method == method, c.tag == tag, models.c.archived_at.is_(None))
        .order_by(c.component, c.rank, models.c.name.collate("C"))
    )
    return conn.execute(statement).mappings().all()


def read_places(conn: Connection, snapshot_id: UUID, method: str, tag: str = "") -> dict[int, RowMapping]:
    """Return `rank, score` of every model of one leaderboard by the model's number."""
    c = snapshot_models.c
    statement = select(c.model_id, c.rank, c.score).where(
        c.snapshot_id == snapshot_id, c.method == method, c.tag == tag
    )
    return {row["model_id"]: row for row in conn.execute(statement).mappings()}


def count_archived(conn: Connection, snapshot_id: UUID, method: str, tag: str = "") -> int:
    """Count the archived models of one leaderboard."""
    c = snapshot_models.c
    statement = (
        select(func.count())
        .select_from(snapshot_models.join(models))
        .where(c.snapshot_id == snapshot_id, c.method == method, c.tag == tag, models.c.archived_at.is_not(None))
    )
    return conn.execute(statement).scalar_one()
