"""Votes are added, never changed. One statement adds many; another finds the votes that kept some of them out.

Votes by tokens are added as their battles end. Replacements by a later vote are rows beside the votes.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Label,
    Text,
    cast,
    func,
    literal,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB

from app.database.arrays import array_text, columns_of, rows_of_arrays
from app.database.tables import battles, votes
from app.snapshots.vote_sets import is_retracted, is_retracted_sql
from app.votes.prompts import WRITTEN, key_sql
from app.votes.rules import CRITERION_TAG

VoteKey = tuple[str, int, str | None]
"""What an annotator answers once: the battle, the annotator's number, and the criterion, None for overall."""
_KEY = ("battles", "annotators", "criteria")

_INSERT = """
INSERT INTO votes (id, annotator_id, model_a_id, model_b_id, outcome, battle_id, criterion_battle_id, voted_at, tags,
                   metadata, features, api_key_id, criterion, version, ranking, prompt, import_id)
SELECT v.id, v.annotator_id, v.model_a_id, v.model_b_id, v.outcome, CASE WHEN v.criterion IS NULL THEN v.battle_id END,
       CASE WHEN v.criterion IS NOT NULL THEN v.battle_id END, v.voted_at, v.tags::text[], v.metadata::jsonb,
       v.features::jsonb, v.api_key_id, v.criterion, v.version, v.ranking::jsonb, v.prompt, %(import_id)b::uuid
FROM {rows} ON CONFLICT DO NOTHING
"""
_LEFT_OUT = """
SELECT wanted.id FROM unnest(%(ids)b::uuid[]) AS wanted(id)
WHERE NOT EXISTS (SELECT FROM votes WHERE votes.id = wanted.id)
"""
# Two lookups: PostgreSQL would take the annotator out of an OR, and read all votes on the battle.
_SAME_KEY = """
    SELECT * FROM votes
    WHERE battle_id = {key}.battle_id AND annotator_id = {key}.annotator_id AND {key}.criterion IS NULL
    UNION ALL SELECT * FROM votes
    WHERE criterion_battle_id = {key}.battle_id AND annotator_id = {key}.annotator_id AND criterion = {key}.criterion
"""
_WANTED = f"""
    unnest(%(battles)b::text[], %(annotators)b::int[], %(criteria)b::text[])
        AS wanted(battle_id, annotator_id, criterion)
    CROSS JOIN LATERAL ({_SAME_KEY.format(key="wanted")}) AS v
"""
_FIND = """
SELECT DISTINCT ON (v.battle, v.annotator_id, v.criterion)
       v.battle, v.annotator_id, v.criterion, v.id, v.model_a_id, v.model_b_id, v.outcome, v.ranking::text,
       max(v.version) OVER (PARTITION BY v.battle, v.annotator_id, v.criterion), v.retracted
FROM (SELECT v.*, wanted.battle_id AS battle, {retracted} AS retracted FROM {wanted}) AS v
ORDER BY v.battle, v.annotator_id, v.criterion, v.retracted, v.version DESC
""".replace("{retracted}", is_retracted_sql("v.id")).replace("{wanted}", _WANTED)


class VoteRow(NamedTuple):
    """A vote as the table stores it. `metadata`, `features` and `ranking` are JSON text, `prompt` is a key.

    `version` counts the annotator's earlier votes with the same `key`: 1 for a vote that follows the first one,
    which was replaced or retracted.
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
    features: str | None = None
    api_key_id: UUID | None = None
    criterion: str | None = None
    version: int = 0
    ranking: str | None = None
    prompt: int | None = None

    @property
    def key(self) -> VoteKey:
        """What the annotator answers once; for a vote on a battle."""
        assert self.battle_id is not None  # noqa: S101  a vote without a battle is always added
        return self.battle_id, self.annotator_id, self.criterion


class RecordedVote(NamedTuple):
    """The vote on record for a key or a battle: the one that counts, or the last one if all are retracted."""

    id: UUID
    model_a_id: int
    model_b_id: int
    outcome: int
    ranking: str | None = None
    last_version: int = 0
    retracted: bool = False


_INSERT_ROWS = _INSERT.replace("{rows}", rows_of_arrays(VoteRow, "v"))


def insert_votes(conn: Connection, rows: Sequence[VoteRow], *, import_id: UUID | None = None) -> set[UUID]:
    """Add the votes whose (battle, annotator, criterion, version) is free, and return the ids of the others.

    Of two rows with the same four the first is added. A vote without a battle is always added.
    `import_id` names the file that all of them come from.
    """
    columns = columns_of(VoteRow._fields, rows)
    columns["tags"] = [array_text(tags) if tags else "{}" for tags in columns["tags"]]
    # Nearly always every row is added, and the count shows it. Then no ids have to be sent back and compared.
    if conn.exec_driver_sql(_INSERT_ROWS, {**columns, "import_id": import_id}).rowcount == len(rows):
        return set()
    return set(conn.exec_driver_sql(_LEFT_OUT, {"ids": columns["id"]}).scalars())


def find_votes(conn: Connection, keys: Iterable[VoteKey]) -> dict[VoteKey, RecordedVote]:
    """Return the vote on record for each key.

    In a READ COMMITTED transaction this includes votes of transactions that `insert_votes` has just waited for.
    """
    rows = conn.exec_driver_sql(_FIND, columns_of(_KEY, keys))
    return {(battle, annotator, criterion): RecordedVote(*vote) for battle, annotator, criterion, *vote in rows}


def any_vote(conn: Connection, meant: ColumnElement[bool]) -> bool:
    """Whether any vote on record, retracted or not, meets the condition."""
    return bool(conn.execute(select(select(votes.c.id).where(meant).exists())).scalar_one())


def any_sealed_vote(conn: Connection) -> bool:
    """Whether any vote on record was cast by a battle's token."""
    return any_vote(conn, votes.c.sealed_battle_id.is_not(None))


def most_voted_tags(conn: Connection, limit: int) -> list[str]:
    """Return the tags with the most overall votes that are not retracted; tags with equal numbers by name.

    One that begins as that of a criterion's leaderboard is left out.
    """
    if limit == 0:
        return []
    tagged = (
        select(func.unnest(votes.c.tags).label("tag"), votes.c.id)
        .where(func.cardinality(votes.c.tags) > 0, votes.c.criterion.is_(None))
        .subquery()
    )
    statement = select(tagged.c.tag).where(~is_retracted(tagged.c.id), ~tagged.c.tag.startswith(CRITERION_TAG))
    statement = statement.group_by(tagged.c.tag)
    statement = statement.order_by(func.count().desc(), tagged.c.tag.collate("C")).limit(limit)
    return list(conn.execute(statement).scalars())


# Locks a key by its first vote, which is never deleted. FOR NO KEY UPDATE changes nothing.
LOCK = "ORDER BY v.battle_id, v.criterion_battle_id, v.annotator_id, v.criterion FOR NO KEY UPDATE OF v"
_LOCK = f"""
SELECT 1 FROM votes AS v WHERE v.id IN (SELECT v.id FROM {_WANTED} WHERE v.version = 0) {LOCK}
"""  # noqa: S608  only this module's own words
_RETRACT = """
INSERT INTO retracted_votes (vote_id, replaced_by) SELECT * FROM unnest(%(earlier)b::uuid[], %(later)b::uuid[])
"""


def lock_keys(conn: Connection, keys: Iterable[VoteKey]) -> None:
    """Lock keys that have a vote until the transaction ends."""
    conn.exec_driver_sql(_LOCK, columns_of(_KEY, keys))


def retract_replaced(conn: Connection, replaced: Sequence[tuple[UUID, UUID]]) -> None:
    """Retract votes, each given with the vote that replaces it."""
    conn.exec_driver_sql(_RETRACT, columns_of(("earlier", "later"), replaced))


def battle_of() -> Label[str]:
    """Return the battle that a vote answers: a sealed one, or the one that the sender named."""
    c = votes.c
    return func.coalesce(cast(c.sealed_battle_id, Text), c.battle_id, c.criterion_battle_id).label("battle_id")


def prompt_of() -> Label[str]:
    """Return the key of a vote's prompt as text; null where it is not known."""
    return (literal(WRITTEN) + cast(votes.c.prompt, Text)).label("prompt")


_RANKING = """(
    SELECT jsonb_agg(names ORDER BY place)
    FROM jsonb_array_elements(votes.ranking) WITH ORDINALITY AS g(members, place),
        LATERAL (
            SELECT jsonb_agg(models.name ORDER BY number)
            FROM jsonb_array_elements_text(members) WITH ORDINALITY AS one(id, number)
            JOIN models ON models.id = one.id::int
        ) AS named(names)
)"""


def ranking_of() -> Label[Any]:
    """Return the ranking that a vote gives, with the models' current names; null for a vote on a pair."""
    return literal_column(_RANKING, JSONB).label("ranking")


def ranks(model_id: int) -> ColumnElement[bool]:
    """Return the condition for the rankings that have a model."""
    return votes.c.ranking.contains(literal_column(f"'[[{model_id:d}]]'::jsonb"))


_LOCK_BATTLES = """
SELECT b.id, b.annotator_id, b.left_id, b.right_id, left_model.name, right_model.name, b.vote_id, b.skip_reason,
       b.expires_at <= clock_timestamp()
FROM unnest(%(ids)b::uuid[]) AS wanted(id)
JOIN battles AS b ON b.id = wanted.id
JOIN models AS left_model ON left_model.id = b.left_id
JOIN models AS right_model ON right_model.id = b.right_id
ORDER BY b.id FOR NO KEY UPDATE OF b
"""
_FIND_VERDICTS = """
SELECT DISTINCT ON (v.sealed_battle_id)
       v.sealed_battle_id, v.id, v.model_a_id, v.model_b_id, v.outcome, NULL, v.version, v.retracted
FROM (
    SELECT v.*, {retracted} AS retracted FROM votes AS v WHERE v.sealed_battle_id = ANY(%(ids)b::uuid[])
) AS v
ORDER BY v.sealed_battle_id, v.retracted, v.version DESC
""".replace("{retracted}", is_retracted_sql("v.id"))
_CAST_VERDICTS = """
WITH answered AS (
    UPDATE battles AS b SET vote_id = verdict.vote_id, ended_at = now(),
        undo_until = CASE WHEN NOT verdict.revealed THEN clock_timestamp() + make_interval(secs => %(undo)s) END
    FROM unnest(%(battles)b::uuid[], %(votes)b::uuid[], %(outcomes)b::smallint[], %(revealed)b::bool[])
         AS verdict(battle_id, vote_id, outcome, revealed)
    WHERE b.id = verdict.battle_id
    RETURNING b.id, b.vote_id, b.annotator_id, b.left_id, b.right_id, b.tags, b.api_key_id, verdict.outcome,
        b.left_answer_id, b.right_answer_id, b.prompt_id
)
INSERT INTO votes (
    id, annotator_id, model_a_id, model_b_id, outcome, tags, api_key_id, sealed_battle_id, prompt, features
)
SELECT vote_id, annotator_id, left_id, right_id, outcome, tags, api_key_id, id,
    (SELECT {key} FROM prompts WHERE prompts.id = prompt_id), (
    SELECT jsonb_object_agg(one.key, jsonb_build_array(one.value, other.measures -> one.key))
    FROM answers AS a, answers AS other, jsonb_each(a.measures) AS one
    WHERE a.id = left_answer_id AND other.id = right_answer_id AND other.measures IS NOT NULL
)
FROM answered
""".replace("{key}", key_sql("prompts.text"))


class LockedBattle(NamedTuple):
    """A battle, the names of its models, and how it ended, if it did: its vote may be retracted since."""

    id: UUID
    annotator_id: int
    left_id: int
    right_id: int
    left: str
    right: str
    vote_id: UUID | None
    skip_reason: str | None
    expired: bool


def lock_battles(conn: Connection, ids: Collection[UUID]) -> dict[UUID, LockedBattle]:
    """Return battles by id, each locked until the transaction ends: no other transaction can end it meanwhile.

    In READ COMMITTED this is what a transaction left that held the lock before.
    """
    return {row[0]: LockedBattle(*row) for row in conn.exec_driver_sql(_LOCK_BATTLES, {"ids": list(ids)})}


def find_verdicts(conn: Connection, battle_ids: Collection[UUID]) -> dict[UUID, RecordedVote]:
    """Return the votes on battles, by battle. Locked battles get no other vote meanwhile."""
    if not battle_ids:
        return {}
    rows = conn.exec_driver_sql(_FIND_VERDICTS, {"ids": list(battle_ids)})
    return {battle: RecordedVote(*vote) for battle, *vote in rows}


def insert_verdicts(conn: Connection, verdicts: Iterable[tuple[UUID, UUID, int, bool]], *, undo_seconds: int) -> None:
    """Add votes on battles that are locked and open, and end the battles.

    `verdicts`: the battle, the id of its vote, the outcome, and whether it reveals the models.
    """
    values = columns_of(("battles", "votes", "outcomes", "revealed"), verdicts)
    conn.exec_driver_sql(_CAST_VERDICTS, {**values, "undo": undo_seconds})


def end_undo(conn: Connection, battle_ids: Collection[UUID]) -> None:
    """Let the votes on battles that are locked be taken back no longer."""
    c = battles.c
    conn.execute(update(battles).where(c.id.in_(battle_ids), c.undo_until.is_not(None)).values(undo_until=None))


def read_undoable(conn: Connection, annotator_id: int) -> set[UUID]:
    """Return the votes that an annotator can still take back: until then the annotator may not learn the models."""
    c = battles.c
    mine = (c.annotator_id == annotator_id, c.undo_until > func.clock_timestamp())
    return {vote for vote in conn.execute(select(c.vote_id).where(*mine)).scalars() if vote is not None}
