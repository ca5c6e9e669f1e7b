"""Votes are added, never changed. One statement adds many; another finds the votes that kept some of them out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, func, select

from app.database.tables import retracted_votes, votes

Pair = tuple[str, int]
"""A battle, and the number of an annotator who voted on it."""

# %b sends the arrays in PostgreSQL's binary form, which is about half as long as text.
_INSERT = """
INSERT INTO votes (id, annotator_id, model_a_id, model_b_id, outcome, battle_id, voted_at, tags, metadata,
                   api_key_id, version, import_id)
SELECT v.id, v.annotator_id, v.model_a_id, v.model_b_id, v.outcome, v.battle_id, v.voted_at, v.tags::text[],
       v.metadata::jsonb, v.api_key_id, v.version, %(import_id)b::uuid
FROM unnest(%(id)b::uuid[], %(annotator_id)b::int[], %(model_a_id)b::int[], %(model_b_id)b::int[],
            %(outcome)b::smallint[], %(battle_id)b::text[], %(voted_at)b::timestamptz[], %(tags)b::text[],
            %(metadata)b::text[], %(api_key_id)b::uuid[], %(version)b::smallint[])
     AS v(id, annotator_id, model_a_id, model_b_id, outcome, battle_id, voted_at, tags, metadata, api_key_id, version)
ON CONFLICT (battle_id, annotator_id, version) WHERE battle_id IS NOT NULL DO NOTHING
"""
_LEFT_OUT = """
SELECT wanted.id FROM unnest(%(ids)b::uuid[]) AS wanted(id)
WHERE NOT EXISTS (SELECT FROM votes WHERE votes.id = wanted.id)
"""
_FIND = """
SELECT DISTINCT ON (v.battle_id, v.annotator_id)
       v.battle_id, v.annotator_id, v.id, v.model_a_id, v.model_b_id, v.outcome, v.version,
       r.vote_id IS NOT NULL
FROM unnest(%(battles)b::text[], %(annotators)b::int[]) AS wanted(battle_id, annotator_id)
JOIN votes AS v ON v.battle_id = wanted.battle_id AND v.annotator_id = wanted.annotator_id
LEFT JOIN retracted_votes AS r ON r.vote_id = v.id AND r.retraction_id IS NOT NULL
ORDER BY v.battle_id, v.annotator_id, v.version DESC
"""
_NO_TAGS = "{}"


class VoteRow(NamedTuple):
    """A vote as the table stores it. `metadata` is JSON text.

    `version` counts the annotator's earlier votes on the battle: 1 for a vote that replaces the first one.
    """

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
    version: int = 0


@dataclass(frozen=True)
class RecordedVote:
    """The latest vote of an annotator on a battle, even if it is retracted."""

    id: UUID
    model_a_id: int
    model_b_id: int
    outcome: int
    version: int = 0
    retracted: bool = False


def insert_votes(conn: Connection, rows: Sequence[VoteRow], *, import_id: UUID | None = None) -> set[UUID]:
    """Add the votes whose (battle, annotator, version) is free, and return the ids of the others.

    Of two rows with the same (battle, annotator, version) the first is added. A vote without a battle is always added.
    `import_id` names the file that all of them come from.
    """
    fields = zip(VoteRow._fields, zip(*rows, strict=True), strict=True)
    columns: dict[str, list[Any]] = {name: list(values) for name, values in fields}
    columns["tags"] = [_array_text(tags) if tags else _NO_TAGS for tags in columns["tags"]]
    # Nearly always every row is added, and the count shows it. Then no ids have to be sent back and compared.
    if conn.exec_driver_sql(_INSERT, {**columns, "import_id": import_id}).rowcount == len(rows):
        return set()
    return set(conn.exec_driver_sql(_LEFT_OUT, {"ids": columns["id"]}).scalars())


def find_votes(conn: Connection, pairs: Iterable[Pair]) -> dict[Pair, RecordedVote]:
    """Return the latest vote on record for each (battle, annotator) pair.

    In a READ COMMITTED transaction this includes votes of transactions that `insert_votes` has just waited for.
    """
    battles, annotators = zip(*pairs, strict=True)
    rows = conn.exec_driver_sql(_FIND, {"battles": list(battles), "annotators": list(annotators)})
    return {(battle, annotator): RecordedVote(*vote) for battle, annotator, *vote in rows}


def most_voted_tags(conn: Connection, limit: int) -> list[str]:
    """Return the tags with the most votes that are not retracted, in that order; tags with equal numbers by name."""
    if limit == 0:
        return []
    tagged = (
        select(func.unnest(votes.c.tags).label("tag"), votes.c.id).where(func.cardinality(votes.c.tags) > 0).subquery()
    )
    retracted = select(retracted_votes.c.vote_id).where(retracted_votes.c.vote_id == tagged.c.id).exists()
    statement = select(tagged.c.tag).where(~retracted).group_by(tagged.c.tag)
    statement = statement.order_by(func.count().desc(), tagged.c.tag.collate("C")).limit(limit)
    return list(conn.execute(statement).scalars())


def _array_text(items: Sequence[str]) -> str:
    """Return PostgreSQL's text form of an array. Arrays of unequal lengths cannot be sent as one of two dimensions."""
    quoted = ('"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"' for item in items)
    return "{" + ",".join(quoted) + "}"
