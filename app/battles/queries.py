"""Battles and the sets of models they are drawn from: added in groups, ended once, listed."""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Row, RowMapping, Select, and_, case, func, select, update

from app.database.arrays import columns_of, rows_of_arrays
from app.database.tables import annotators, battles, candidate_sets, models

ModelIds = tuple[int, ...]

_ADD_SETS = """
INSERT INTO candidate_sets (digest, model_ids)
SELECT s.digest, s.model_ids::int[] FROM unnest(%(digests)b::bytea[], %(model_ids)b::text[]) AS s(digest, model_ids)
ON CONFLICT (digest) DO NOTHING
"""
_FIND_SETS = "SELECT digest, id FROM candidate_sets WHERE digest = ANY(%(digests)b::bytea[])"
_HISTORY = """
SELECT wanted.annotator_id, recent.left_ids, recent.right_ids, counted.votes
FROM unnest(%(annotators)b::int[], %(counted)b::bool[]) AS wanted(annotator_id, counted)
CROSS JOIN LATERAL (
    SELECT array_agg(b.left_id) AS left_ids, array_agg(b.right_id) AS right_ids
    FROM (SELECT left_id, right_id FROM battles WHERE battles.annotator_id = wanted.annotator_id
          ORDER BY id DESC LIMIT %(gap)s) AS b
) AS recent
CROSS JOIN LATERAL (
    SELECT count(*) AS votes
    FROM (SELECT FROM votes WHERE wanted.counted AND votes.annotator_id = wanted.annotator_id LIMIT %(most)s) AS v
) AS counted
"""

_SHOWN = (
    *("tags", "drawn_by", "propensity", "snapshot_id", "policy_version"),
    *("created_at", "expires_at", "ended_at", "vote_id", "skip_reason"),
)


class BattleRow(NamedTuple):
    """A battle as the table stores it. `tags` is PostgreSQL's text form of an array."""

    id: UUID
    annotator_id: int
    left_id: int
    right_id: int
    candidate_set_id: int
    tags: str
    drawn_by: str
    propensity: float
    snapshot_id: UUID | None
    policy_version: int
    api_key_id: UUID | None
    prompt_id: int | None = None
    left_answer_id: int | None = None
    right_answer_id: int | None = None
    invitation_id: UUID | None = None


_NAMES = ", ".join(BattleRow._fields)
_ADD, _ADD_UNSEEN = (
    f"""
WITH added AS (
    INSERT INTO battles ({_NAMES}, expires_at)
    SELECT {_NAMES.replace("tags", "tags::text[]")}, now() + make_interval(secs => %(seconds)s)
    FROM {rows_of_arrays(BattleRow, "b")} {unless_seen} RETURNING id, expires_at
)
SELECT max(expires_at), CASE WHEN count(*) < %(n)s THEN coalesce(array_agg(id), '{{}}') END FROM added
"""  # noqa: S608  only this module's own words
    for unless_seen in (
        "",
        """
    ON CONFLICT (prompt_id, annotator_id, least(left_id, right_id), greatest(left_id, right_id))
    WHERE prompt_id IS NOT NULL DO NOTHING""",
    )
)


def add_candidate_sets(conn: Connection, sets: Collection[ModelIds]) -> dict[ModelIds, int]:
    """Return the number of each set of models, after adding those that are new. The models are in order."""
    of_digest = {hashlib.sha256(repr(ids).encode()).digest(): ids for ids in sorted(sets)}
    values = {"digests": list(of_digest), "model_ids": [f"{{{','.join(map(str, x))}}}" for x in of_digest.values()]}
    conn.exec_driver_sql(_ADD_SETS, values)
    found = conn.exec_driver_sql(_FIND_SETS, {"digests": list(of_digest)})
    return {of_digest[bytes(digest)]: number for digest, number in found}


def read_histories(
    conn: Connection, annotator_ids: list[int], counted: list[bool], *, gap: int, most_votes: int
) -> Iterable[Row[Any]]:
    """Return `annotator_id, left_ids, right_ids, votes` of annotators: their last `gap` pairs, and their votes.

    Votes are counted up to `most_votes`, and only of annotators that are `counted`; of the others there are 0.
    """
    if not annotator_ids:
        return ()
    values = {"annotators": annotator_ids, "counted": counted, "gap": gap, "most": most_votes}
    return conn.exec_driver_sql(_HISTORY, values)


def insert_battles(conn: Connection, rows: Sequence[BattleRow], *, seconds: int) -> tuple[datetime | None, set[UUID]]:
    """Add battles that wait so many seconds for their votes; return when they expire, and those left out.

    A battle is left out if another one shows its annotator the same prompt and pair.
    """
    columns = columns_of(BattleRow._fields, rows)
    statement = _ADD_UNSEEN if columns["prompt_id"] is not None else _ADD
    values = {**columns, "seconds": seconds, "n": len(rows)}
    expires_at, added = conn.exec_driver_sql(statement, values).one()
    return expires_at, set() if added is None else set(columns["id"]).difference(added)


def state_of() -> ColumnElement[str]:
    """Return a battle's state: open, voted, skipped or expired."""
    c = battles.c
    return case(
        (c.vote_id.is_not(None), "voted"),
        (c.skip_reason.is_not(None), "skipped"),
        (c.expires_at <= func.now(), "expired"),
        else_="open",
    )


def lock_battle(conn: Connection, battle_id: UUID) -> RowMapping | None:
    """Return a battle's `state, skip_reason, vote_id, can_undo`, and lock it until the transaction ends.

    `can_undo`: whether the vote can be taken back; None for one that has revealed the models. None if there is none.
    """
    c = battles.c
    can_undo = (c.undo_until > func.clock_timestamp()).label("can_undo")
    statement = select(state_of().label("state"), c.skip_reason, c.vote_id, can_undo).where(c.id == battle_id)
    return conn.execute(statement.with_for_update(key_share=True)).mappings().one_or_none()


def skip_battle(conn: Connection, battle_id: UUID, reason: str) -> None:
    """End a battle that is open."""
    statement = update(battles).where(battles.c.id == battle_id)
    conn.execute(statement.values(skip_reason=reason, ended_at=func.now()))


def get_battle(conn: Connection, battle_id: UUID) -> RowMapping | None:
    """Return a battle with the present names, as `schemas.Battle` has it, and the ids of its candidates."""
    statement = _listed().add_columns(candidate_sets.c.model_ids).where(battles.c.id == battle_id)
    return conn.execute(statement).mappings().one_or_none()


def list_battles(
    conn: Connection, *, limit: int, before: UUID | None, annotator_id: int | None, state: str | None
) -> Sequence[RowMapping]:
    """Return battles, the newest first, those with an id below `before`. Ids grow with time."""
    conditions = [
        *([battles.c.id < before] if before is not None else []),
        *([battles.c.annotator_id == annotator_id] if annotator_id is not None else []),
        *([state_of() == state] if state is not None else []),
    ]
    statement = _listed().where(and_(True, *conditions)).order_by(battles.c.id.desc()).limit(limit)
    return conn.execute(statement).mappings().all()


def _listed() -> Select[Any]:
    left, right = models.alias("left_model"), models.alias("right_model")
    c = battles.c
    return (
        select(
            *(c[name] for name in _SHOWN),
            c.id.label("battle_id"),
            state_of().label("state"),
            annotators.c.key.label("annotator"),
            annotators.c.public_id.label("annotator_id"),
            left.c.name.label("left"),
            right.c.name.label("right"),
            c.candidate_set_id.label("candidate_set"),
            func.cardinality(candidate_sets.c.model_ids).label("candidates"),
        )
        .join_from(battles, annotators, annotators.c.id == c.annotator_id)
        .join(left, left.c.id == c.left_id)
        .join(right, right.c.id == c.right_id)
        .join(candidate_sets, candidate_sets.c.id == c.candidate_set_id)
    )
