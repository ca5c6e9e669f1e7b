"""Withdrawn retractions: rows beside the retractions, which stay on record."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping, Select, insert, select

from app.database.tables import retractions, withdrawn_retractions
from app.snapshots.vote_sets import is_retracted_sql

# Adding a vote on a battle that has one takes this lock too: see `lock_pairs`. A sealed battle takes one vote.
_LOCK_PAIRS = """
SELECT 1 FROM votes AS v WHERE v.version = 0 AND (v.battle_id, v.annotator_id) IN (
    SELECT own.battle_id, own.annotator_id FROM retracted_votes AS r JOIN votes AS own ON own.id = r.vote_id
    WHERE r.retraction_id = %(id)b AND own.battle_id IS NOT NULL
) ORDER BY v.battle_id, v.annotator_id FOR NO KEY UPDATE OF v
"""
_COUNT = """
SELECT count(*) FROM retracted_votes AS r JOIN votes AS v ON v.id = r.vote_id
WHERE r.retraction_id = %(id)b AND NOT {retracted}
""".replace("{retracted}", is_retracted_sql("v.id"))
_RIVAL = """
SELECT own.id, v.id FROM retracted_votes AS r
JOIN votes AS own ON own.id = r.vote_id
JOIN votes AS v ON v.id <> own.id AND {same_battle}
WHERE r.retraction_id = %(id)b AND NOT {own_retracted} AND NOT {retracted}
ORDER BY v.id DESC LIMIT 1
"""
_IMPORTED_AGAIN = """
SELECT again.id FROM imports AS own JOIN imports AS again ON again.sha256 = own.sha256 AND again.id <> own.id
WHERE own.id = %(import_id)b AND NOT coalesce((again.options ->> 'dry_run')::boolean, FALSE)
  AND (again.state <> 'failed' OR again.rows_done > 0)
  AND NOT EXISTS (
      SELECT FROM retractions AS r WHERE r.target = 'import' AND r.target_id = again.id::text
          AND NOT EXISTS (SELECT FROM withdrawn_retractions AS w WHERE w.retraction_id = r.id)
  )
ORDER BY again.id DESC LIMIT 1
"""
_SAME_BATTLE = (
    "v.battle_id = own.battle_id AND v.annotator_id = own.annotator_id",
    "v.sealed_battle_id = own.sealed_battle_id",  # voted on anew under an earlier version
)


def lock_battles_of(conn: Connection, retraction_id: UUID) -> None:
    """Lock the battles of a retraction's votes until the transaction ends: they get no other vote meanwhile."""
    conn.exec_driver_sql(_LOCK_PAIRS, {"id": retraction_id})


def find_retraction(conn: Connection, retraction_id: UUID) -> RowMapping | None:
    """Return a retraction, with its withdrawal if it has one; None if there is no such retraction."""
    return conn.execute(_with_withdrawals().where(retractions.c.id == retraction_id)).mappings().one_or_none()


def list_with_withdrawals(conn: Connection, *, limit: int, before: UUID | None) -> Sequence[RowMapping]:
    """Return retractions with their withdrawals, the newest first, those with an id below `before`."""
    statement = _with_withdrawals().order_by(retractions.c.id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(retractions.c.id < before)
    return conn.execute(statement).mappings().all()


def _with_withdrawals() -> Select[Any]:
    c = withdrawn_retractions.c
    beside = (c.withdrawn_by, c.reason.label("withdrawal_reason"), c.withdrawn_at)
    return select(retractions, *beside).outerjoin(withdrawn_retractions, c.retraction_id == retractions.c.id)


def insert_withdrawal(conn: Connection, values: Mapping[str, Any]) -> None:
    """Withdraw a retraction."""
    conn.execute(insert(withdrawn_retractions).values(**values))


def count_restored(conn: Connection, retraction_id: UUID) -> int:
    """Count the votes of a withdrawn retraction that count again: nothing else retracts them."""
    return int(conn.exec_driver_sql(_COUNT, {"id": retraction_id}).scalar_one())


def find_rival(conn: Connection, retraction_id: UUID) -> tuple[UUID, UUID] | None:
    """Return a vote of a withdrawn retraction that counts and another one on its battle that counts too, if any."""
    retracted = {"own_retracted": is_retracted_sql("own.id"), "retracted": is_retracted_sql("v.id")}
    for same_battle in _SAME_BATTLE:
        statement = _RIVAL.format(same_battle=same_battle, **retracted)
        row = conn.exec_driver_sql(statement, {"id": retraction_id}).first()
        if row is not None:
            return row[0], row[1]
    return None


def find_imported_again(conn: Connection, import_id: UUID) -> UUID | None:
    """Return another import of the same file that was not undone."""
    return conn.exec_driver_sql(_IMPORTED_AGAIN, {"import_id": import_id}).scalar_one_or_none()
