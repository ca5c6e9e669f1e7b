"""Votes by tokens: the battles they answer, which they end, and the votes on record."""

from collections.abc import Collection, Sequence
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.snapshots.vote_sets import is_retracted_sql

_LOCK = """
SELECT b.id, b.annotator_id, left_model.name, right_model.name, b.vote_id, b.skip_reason,
       b.expires_at <= clock_timestamp()
FROM unnest(%(ids)b::uuid[]) AS wanted(id)
JOIN battles AS b ON b.id = wanted.id
JOIN models AS left_model ON left_model.id = b.left_id
JOIN models AS right_model ON right_model.id = b.right_id
ORDER BY b.id FOR NO KEY UPDATE OF b
"""
_FIND = """
SELECT DISTINCT ON (v.sealed_battle_id)
       v.sealed_battle_id, v.id, v.outcome, v.retracted
FROM (
    SELECT v.*, {retracted} AS retracted FROM votes AS v WHERE v.sealed_battle_id = ANY(%(ids)b::uuid[])
) AS v
ORDER BY v.sealed_battle_id, v.retracted, v.version DESC
""".replace("{retracted}", is_retracted_sql("v.id"))
_CAST = """
WITH answered AS (
    UPDATE battles AS b SET vote_id = verdict.vote_id, ended_at = now()
    FROM unnest(%(battles)b::uuid[], %(votes)b::uuid[], %(outcomes)b::smallint[])
         AS verdict(battle_id, vote_id, outcome)
    WHERE b.id = verdict.battle_id
    RETURNING b.id, b.vote_id, b.annotator_id, b.left_id, b.right_id, b.tags, b.api_key_id, verdict.outcome
)
INSERT INTO votes (id, annotator_id, model_a_id, model_b_id, outcome, tags, api_key_id, sealed_battle_id)
SELECT vote_id, annotator_id, left_id, right_id, outcome, tags, api_key_id, id FROM answered
"""


class LockedBattle(NamedTuple):
    """A battle, the names of its models, and how it ended, if it did: its vote may be retracted since."""

    id: UUID
    annotator_id: int
    left: str
    right: str
    vote_id: UUID | None
    skip_reason: str | None
    expired: bool


class Verdict(NamedTuple):
    """A vote to add on a battle that is open."""

    battle_id: UUID
    vote_id: UUID
    outcome: int


class VerdictOnRecord(NamedTuple):
    """The vote on a battle. Battles of earlier versions may have several: the one that counts, or else the last."""

    id: UUID
    outcome: int
    retracted: bool


def lock_battles(conn: Connection, ids: Collection[UUID]) -> dict[UUID, LockedBattle]:
    """Return battles by id, each locked until the transaction ends: no other transaction can end it meanwhile.

    In READ COMMITTED this is what a transaction left that held the lock before.
    """
    return {row[0]: LockedBattle(*row) for row in conn.exec_driver_sql(_LOCK, {"ids": list(ids)})}


def find_verdicts(conn: Connection, battle_ids: Collection[UUID]) -> dict[UUID, VerdictOnRecord]:
    """Return the votes on battles, by battle. Locked battles get no other vote meanwhile."""
    if not battle_ids:
        return {}
    return {row[0]: VerdictOnRecord(*row[1:]) for row in conn.exec_driver_sql(_FIND, {"ids": list(battle_ids)})}


def insert_verdicts(conn: Connection, verdicts: Sequence[Verdict]) -> None:
    """Add votes on battles that are locked and open, and end the battles."""
    battles, votes, outcomes = (list(column) for column in zip(*verdicts, strict=True))
    values = {"battles": battles, "votes": votes, "outcomes": outcomes}
    conn.exec_driver_sql(_CAST, values)
