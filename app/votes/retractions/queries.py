"""Retractions are rows beside the votes, which stay on record."""

from collections.abc import Sequence
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, RowMapping, Uuid, func, insert, literal, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from app.database.ids import new_id
from app.database.tables import annotators, models, retracted_votes, retractions, votes

Target = Literal["vote", "battle", "model", "annotator"]


def votes_of(target: Target, key: Any) -> ColumnElement[bool]:
    """Return the condition for the votes to retract.

    `key` is the id of a vote or a battle, or the number of a model or an annotator.
    """
    c = votes.c
    meant: dict[Target, ColumnElement[bool]] = {
        "vote": c.id == key,
        "battle": c.battle_id == key,
        "annotator": c.annotator_id == key,
        "model": or_(c.model_a_id == key, c.model_b_id == key),
    }
    return meant[target]


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
            "id", "outcome", "battle_id", "voted_at", "received_at", "tags", "metadata", "api_key_id", "import_id",
        )
    ]  # fmt: skip
    statement = (
        select(
            *columns,
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
