"""Votes are added, never changed: one statement adds many, another finds what kept some of them out."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Connection

# %b sends the arrays in PostgreSQL's binary form, about half as long on the way as text.
_INSERT = """
INSERT INTO votes (id, annotator_id, model_a_id, model_b_id, outcome, battle_id, voted_at, tags, metadata,
                   api_key_id, import_id)
SELECT v.id, v.annotator_id, v.model_a_id, v.model_b_id, v.outcome, v.battle_id, v.voted_at, v.tags::text[],
       v.metadata::jsonb, v.api_key_id, %(import_id)b::uuid
FROM unnest(%(ids)b::uuid[], %(annotators)b::int[], %(models_a)b::int[], %(models_b)b::int[],
            %(outcomes)b::smallint[], %(battles)b::text[], %(moments)b::timestamptz[], %(tags)b::text[],
            %(metadata)b::text[], %(api_keys)b::uuid[])
     AS v(id, annotator_id, model_a_id, model_b_id, outcome, battle_id, voted_at, tags, metadata, api_key_id)
ON CONFLICT (battle_id, annotator_id, version) WHERE battle_id IS NOT NULL DO NOTHING
RETURNING id
"""
_FIND = """
SELECT DISTINCT ON (v.battle_id, v.annotator_id)
       v.battle_id, v.annotator_id, v.id, v.model_a_id, v.model_b_id, v.outcome
FROM unnest(%(battles)b::text[], %(annotators)b::int[]) AS wanted(battle_id, annotator_id)
JOIN votes AS v ON v.battle_id = wanted.battle_id AND v.annotator_id = wanted.annotator_id
ORDER BY v.battle_id, v.annotator_id, v.version DESC
"""


class VoteRow(NamedTuple):
    """A vote as the table holds it; `metadata` is JSON text, `voted_at` has a time zone."""

    id: UUID
    annotator_id: int
    model_a_id: int
    model_b_id: int
    outcome: int
    battle_id: str | None = None
    voted_at: datetime | None = None
    tags: Sequence[str] = ()
    metadata: str | None = None
    api_key_id: UUID | None = None


@dataclass(frozen=True)
class RecordedVote:
    """The vote that holds a (battle, annotator)."""

    id: UUID
    model_a_id: int
    model_b_id: int
    outcome: int


def insert_votes(conn: Connection, rows: Sequence[VoteRow], *, import_id: UUID | None = None) -> set[UUID]:
    """Add the votes whose annotator has not judged their battle yet, and return the ids of those that were added.

    Of two rows for the same battle and annotator the first counts. A vote without a battle is always added.
    """
    values = {
        "ids": [row.id for row in rows],
        "annotators": [row.annotator_id for row in rows],
        "models_a": [row.model_a_id for row in rows],
        "models_b": [row.model_b_id for row in rows],
        "outcomes": [row.outcome for row in rows],
        "battles": [row.battle_id for row in rows],
        "moments": [row.voted_at for row in rows],
        "tags": [_array_text(row.tags) for row in rows],
        "metadata": [row.metadata for row in rows],
        "api_keys": [row.api_key_id for row in rows],
        "import_id": import_id,
    }
    return set(conn.exec_driver_sql(_INSERT, values).scalars())


def find_votes(conn: Connection, pairs: Sequence[tuple[str, int]]) -> dict[tuple[str, int], RecordedVote]:
    """Return the votes on record for (battle, annotator) pairs.

    In a READ COMMITTED transaction these include the ones that `insert_votes` has just waited for.
    """
    values = {"battles": [battle for battle, _ in pairs], "annotators": [annotator for _, annotator in pairs]}
    rows = conn.exec_driver_sql(_FIND, values)
    return {(battle, annotator): RecordedVote(*vote) for battle, annotator, *vote in rows}


def _array_text(items: Sequence[str]) -> str:
    """Return PostgreSQL's text form of an array: arrays of unequal length cannot be sent as one of two dimensions."""
    quoted = ('"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"' for item in items)
    return "{" + ",".join(quoted) + "}"
