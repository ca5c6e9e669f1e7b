"""Votes that replace earlier ones. The earlier votes stay on record, as retracted."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from sqlalchemy import Connection

from app.votes.queries import Pair

# Locks a pair by the annotator's first vote on the battle, which is never deleted. FOR NO KEY UPDATE changes nothing.
_LOCK = """
SELECT 1 FROM votes AS v
JOIN unnest(%(battles)b::text[], %(annotators)b::int[]) AS wanted(battle_id, annotator_id)
  ON v.battle_id = wanted.battle_id AND v.annotator_id = wanted.annotator_id AND v.version = 0
ORDER BY v.battle_id, v.annotator_id FOR NO KEY UPDATE OF v
"""
_RETRACT = """
INSERT INTO retracted_votes (vote_id, replaced_by) SELECT * FROM unnest(%(earlier)b::uuid[], %(later)b::uuid[])
ON CONFLICT (vote_id) DO NOTHING
"""


def lock_pairs(conn: Connection, pairs: Iterable[Pair]) -> None:
    """Lock (battle, annotator) pairs that have a vote until the transaction ends."""
    battles, annotators = zip(*pairs, strict=True)
    conn.exec_driver_sql(_LOCK, {"battles": list(battles), "annotators": list(annotators)})


def retract_replaced(conn: Connection, replaced: Sequence[tuple[UUID, UUID]]) -> None:
    """Retract votes, each given with the vote that replaces it. A vote that is retracted already stays as it is."""
    earlier, later = zip(*replaced, strict=True)
    conn.exec_driver_sql(_RETRACT, {"earlier": list(earlier), "later": list(later)})
