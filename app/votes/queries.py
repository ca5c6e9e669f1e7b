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

from app.database.arrays import array_text
from app.database.ids import new_id
from app.database.tables import (
    annotators,
    imports,
    models,
    retracted_votes,
    retractions,
    votes,
    withdrawn_retractions,
)
from app.snapshots.vote_sets import is_retracted, is_retracted_sql

# The number must differ from other locks' numbers.
_RETRACTIONS_LOCK = 20_261_122

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
       v.battle_id, v.annotator_id, v.id, v.model_a_id, v.model_b_id, v.outcome,
       max(v.version) OVER (PARTITION BY v.battle_id, v.annotator_id), v.retracted
FROM (
    SELECT v.*, {retracted} AS retracted
    FROM unnest(%(battles)b::text[], %(annotators)b::int[]) AS wanted(battle_id, annotator_id)
    JOIN votes AS v ON v.battle_id = wanted.battle_id AND v.annotator_id = wanted.annotator_id
) AS v
ORDER BY v.battle_id, v.annotator_id, v.retracted, v.version DESC
""".replace("{retracted}", is_retracted_sql("v.id"))


class VoteRow(NamedTuple):
    """A vote as the table stores it. `metadata` is JSON text.

    `version` counts the annotator's earlier votes on the battle: 1 for a vote that follows the first one, which was
    replaced or retracted.
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
    """The vote of an annotator on a battle: the one that counts, or the last one if all are retracted."""

    id: UUID
    model_a_id: int
    model_b_id: int
    outcome: int
    last_version: int = 0
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
    """Return the vote on record for each (battle, annotator) pair.

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
    statement = select(tagged.c.tag).where(~is_retracted(tagged.c.id)).group_by(tagged.c.tag)
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
"""


def lock_pairs(conn: Connection, pairs: Iterable[Pair]) -> None:
    """Lock (battle, annotator) pairs that have a vote until the transaction ends."""
    battles, annotators = zip(*pairs, strict=True)
    conn.exec_driver_sql(_LOCK, {"battles": list(battles), "annotators": list(annotators)})


def retract_replaced(conn: Connection, replaced: Sequence[tuple[UUID, UUID]]) -> None:
    """Retract votes, each given with the vote that replaces it."""
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
    """Retract the votes that meet the condition, also those that another retraction covers already.

    Return the retraction; its `votes` are those that counted before. A vote that a retraction of the same target covers
    is left out, so that a request that is sent twice can be withdrawn once. Call `lock_retractions` before.
    """
    retraction_id = new_id()
    values = {"id": retraction_id, "target": target, "target_id": target_id, "reason": reason, "votes": 0}
    conn.execute(insert(retractions).values(retracted_by=retracted_by, **values))
    withdrawn = select(withdrawn_retractions).where(withdrawn_retractions.c.retraction_id == retractions.c.id)
    same_target = (
        select(retracted_votes.c.vote_id)
        .join(retractions, retractions.c.id == retracted_votes.c.retraction_id)
        .where(
            retracted_votes.c.vote_id == votes.c.id,
            retractions.c.target == target,
            retractions.c.target_id == target_id,
            ~withdrawn.exists(),
        )
    )
    chosen = (
        select(votes.c.id, is_retracted(votes.c.id).label("void")).where(meant, ~same_target.exists()).cte("chosen")
    )
    added = insert(retracted_votes).from_select(
        ["vote_id", "retraction_id"], select(chosen.c.id, literal(retraction_id, Uuid))
    )
    counted = select(func.count().filter(~chosen.c.void)).select_from(chosen).add_cte(added.cte("added"))
    n_votes = conn.execute(counted).scalar_one()
    statement = update(retractions).where(retractions.c.id == retraction_id).values(votes=n_votes)
    return conn.execute(statement.returning(retractions)).mappings().one()


def get_vote(conn: Connection, vote_id: UUID) -> RowMapping | None:
    """Return a vote with the present names, and what retracted it: `retraction_id` or `replaced_by`."""
    model_a, model_b = models.alias("model_a"), models.alias("model_b")
    c, cause = votes.c, retracted_votes.c
    mine = select(func.min(cause.retraction_id.cast(Text))).where(cause.vote_id == c.id)
    withdrawn = select(withdrawn_retractions.c.retraction_id)
    first = cast(mine.where(cause.retraction_id.not_in(withdrawn)).scalar_subquery(), Uuid)  # ids grow with time
    replaced_by = select(cause.replaced_by).where(cause.vote_id == c.id, cause.replaced_by.is_not(None))
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
            first.label("retraction_id"),
            replaced_by.scalar_subquery().label("replaced_by"),
        )
        .join_from(votes, annotators, annotators.c.id == c.annotator_id)
        .join(model_a, model_a.c.id == c.model_a_id)
        .join(model_b, model_b.c.id == c.model_b_id)
        .where(c.id == vote_id)
    )
    return conn.execute(statement).mappings().one_or_none()


def lock_retractions(conn: Connection) -> None:
    """Wait until no other transaction retracts votes or withdraws a retraction."""
    conn.execute(select(func.pg_advisory_xact_lock(_RETRACTIONS_LOCK)))
