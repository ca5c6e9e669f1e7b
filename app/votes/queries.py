"""Votes are added, never changed. One statement adds many; another finds the votes that kept some of them out.

Retractions are rows beside the votes, which stay on record; so are replacements by a later vote.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Label,
    RowMapping,
    Text,
    Uuid,
    cast,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upsert

from app.database.arrays import array_text
from app.database.ids import new_id
from app.database.tables import annotators, imports, models, retracted_votes, retractions, votes

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
    columns["tags"] = [array_text(tags) for tags in columns["tags"]]
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


def any_sealed_vote(conn: Connection) -> bool:
    """Whether any vote on record was cast by a battle's token."""
    return any_vote(conn, votes.c.sealed_battle_id.is_not(None))


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


def battle_of() -> Label[str]:
    """Return the battle that a vote answers: a sealed one, or the one that the sender named."""
    return func.coalesce(cast(votes.c.sealed_battle_id, Text), votes.c.battle_id).label("battle_id")


Target = Literal["vote", "battle", "model", "annotator", "import"]


def votes_of(target: Target, key: Any) -> ColumnElement[bool]:
    """Return the condition for the votes to retract.

    `key` is the id of a vote, a battle or an import, or the number of a model or an annotator.
    """
    c = votes.c
    meant: ColumnElement[bool]
    match target:
        case "vote":
            meant = c.id == key
        case "annotator":
            meant = c.annotator_id == key
        case "import":
            meant = c.import_id == key
        case "model":
            meant = or_(c.model_a_id == key, c.model_b_id == key)
        case "battle":
            try:
                meant = or_(c.battle_id == key, c.sealed_battle_id == UUID(key))
            except ValueError:  # no sealed battle: those have UUIDs
                meant = c.battle_id == key
    return meant


def stop_import(conn: Connection, import_id: UUID, *, detail: str) -> bool:
    """End an import that still runs, so that it adds no more votes; return whether there is such an import."""
    statement = select(imports.c.state).where(imports.c.id == import_id).with_for_update()
    found = conn.execute(statement).scalar_one_or_none()
    if found in ("queued", "running"):
        ended = {"state": "failed", "detail": detail, "finished_at": func.clock_timestamp()}
        conn.execute(update(imports).where(imports.c.id == import_id).values(ended))
    return found is not None


def any_vote(conn: Connection, meant: ColumnElement[bool]) -> bool:
    """Whether any vote on record, retracted or not, meets the condition."""
    return bool(conn.execute(select(select(votes.c.id).where(meant).exists())).scalar_one())


def retract(
    conn: Connection, meant: ColumnElement[bool], *, target: Target, target_id: str, reason: str, retracted_by: str
) -> RowMapping:
    """Retract the votes that meet the condition and are not retracted, in one statement. Return the retraction."""
    retraction_id = new_id()
    values = {"id": retraction_id, "target": target, "target_id": target_id, "reason": reason, "votes": 0}
    conn.execute(insert(retractions).values(retracted_by=retracted_by, **values))
    chosen = select(votes.c.id, literal(retraction_id, Uuid)).where(meant)
    statement = upsert(retracted_votes).from_select(["vote_id", "retraction_id"], chosen)
    statement = statement.on_conflict_do_nothing(index_elements=[retracted_votes.c.vote_id])
    voided = conn.execute(statement, execution_options={"preserve_rowcount": True}).rowcount
    counted = update(retractions).where(retractions.c.id == retraction_id).values(votes=voided)
    return conn.execute(counted.returning(retractions)).mappings().one()


def list_retractions(conn: Connection, *, limit: int, before: UUID | None) -> Sequence[RowMapping]:
    """Return retractions, the newest first, those with an id below `before`. Ids grow with time."""
    statement = select(retractions).order_by(retractions.c.id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(retractions.c.id < before)
    return conn.execute(statement).mappings().all()


def get_retraction(conn: Connection, retraction_id: UUID) -> RowMapping:
    """Return a retraction that is on record."""
    return conn.execute(select(retractions).where(retractions.c.id == retraction_id)).mappings().one()


def get_vote(conn: Connection, vote_id: UUID) -> RowMapping | None:
    """Return a vote with the present names, and what retracted it: `retraction_id` or `replaced_by`."""
    model_a, model_b = models.alias("model_a"), models.alias("model_b")
    c, void = votes.c, retracted_votes.c
    columns = [
        c[name]
        for name in (
            "id", "outcome", "voted_at", "received_at", "tags", "metadata", "api_key_id", "import_id",
        )
    ]  # fmt: skip
    statement = (
        select(
            *columns,
            battle_of(),
            c.sealed_battle_id.is_not(None).label("sealed"),
            model_a.c.name.label("model_a"),
            model_b.c.name.label("model_b"),
            annotators.c.key.label("annotator"),
            annotators.c.public_id.label("annotator_id"),
            void.retraction_id,
            void.replaced_by,
        )
        .join_from(votes, annotators, annotators.c.id == c.annotator_id)
        .join(model_a, model_a.c.id == c.model_a_id)
        .join(model_b, model_b.c.id == c.model_b_id)
        .outerjoin(retracted_votes, void.vote_id == c.id)
        .where(c.id == vote_id)
    )
    return conn.execute(statement).mappings().one_or_none()


def lock_vote(conn: Connection, vote_id: UUID) -> None:
    """Make other retractions of this vote wait until the transaction ends."""
    conn.execute(select(func.pg_advisory_xact_lock(vote_id.int & 0x7FFF_FFFF_FFFF_FFFF)))
