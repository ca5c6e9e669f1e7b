"""Retractions are rows beside the votes, which stay on record; their withdrawals are rows beside the retractions."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
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

from app.database.ids import as_id, new_id
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
from app.votes.queries import LOCK, battle_of, prompt_of, ranking_of, ranks

# The number must differ from other locks' numbers.
_RETRACTIONS_LOCK = 20_261_122

Target = Literal["vote", "battle", "model", "annotator", "import"]

_SAME_KEY = (
    "(v.battle_id, v.annotator_id) = (own.battle_id, own.annotator_id)",
    "(v.criterion_battle_id, v.annotator_id, v.criterion) = (own.criterion_battle_id, own.annotator_id, own.criterion)",
)
_SAME_BATTLE = (*_SAME_KEY, "v.sealed_battle_id = own.sealed_battle_id")  # voted on anew under an earlier version
_FIRST_VOTE = """
    SELECT v.id FROM retracted_votes AS r JOIN votes AS own ON own.id = r.vote_id JOIN votes AS v ON {same_key}
    WHERE r.retraction_id = %(id)b AND v.version = 0
"""
# Adding a vote with a key that has one takes this lock too: see `lock_keys`. A sealed battle takes one vote.
_LOCK_KEYS = f"""
SELECT 1 FROM votes AS v
WHERE v.id IN ({" UNION ALL ".join(_FIRST_VOTE.format(same_key=same) for same in _SAME_KEY)}) {LOCK}
"""  # noqa: S608  only this module's own words
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
            meant = or_(c.model_a_id == key, c.model_b_id == key, ranks(key))
        case "battle":
            sealed = as_id(key)
            meant = or_(c.battle_id == key, c.criterion_battle_id == key)
            meant = meant if sealed is None else or_(meant, c.sealed_battle_id == sealed)
    return meant


def stop_import(conn: Connection, import_id: UUID, *, detail: str) -> bool:
    """End an import that still runs, so that it adds no more votes; return whether there is such an import."""
    statement = select(imports.c.state).where(imports.c.id == import_id).with_for_update()
    found = conn.execute(statement).scalar_one_or_none()
    if found in ("queued", "running"):
        ended = {"state": "failed", "detail": detail, "finished_at": func.clock_timestamp()}
        conn.execute(update(imports).where(imports.c.id == import_id).values(ended))
    return found is not None


def retract(
    conn: Connection, meant: ColumnElement[bool], *, target: Target, target_id: str, reason: str, retracted_by: str
) -> RowMapping:
    """Retract the votes that meet the condition, also those that another retraction covers already.

    Return the retraction; its `votes` are those that counted before. A vote that a retraction of the same target covers
    is left out, so that a request that is sent twice can be withdrawn once. Call `lock_retractions` before.
    """
    retraction_id = new_id()
    values = {"id": retraction_id, "target": target, "target_id": target_id, "reason": reason, "votes": 0}
    conn.execute(insert(retractions).values(retracted_by=retracted_by, reason_public=True, **values))
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
            "id", "outcome", "criterion", "voted_at", "received_at", "tags", "metadata", "features", "api_key_id",
            "import_id",
        )
    ]  # fmt: skip
    statement = (
        select(
            *columns,
            battle_of(),
            ranking_of(),
            prompt_of(),
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


def lock_battles_of(conn: Connection, retraction_id: UUID) -> None:
    """Lock the battles of a retraction's votes until the transaction ends: they get no other vote meanwhile."""
    conn.exec_driver_sql(_LOCK_KEYS, {"id": retraction_id})


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
