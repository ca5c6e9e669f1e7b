"""What was removed, as everyone may read it: nothing names an annotator or an unreleased model."""

from collections.abc import Sequence

from sqlalchemy import BigInteger, Connection, RowMapping, Text, and_, case, cast, func, nulls_first, or_, select

from app.database.tables import model_aliases, model_merges, models, retractions, withdrawn_retractions


def list_archived(conn: Connection) -> Sequence[RowMapping]:
    """Return `model, organization, archived_at, reason` of the archived models, the last first."""
    c = models.c
    columns = c.name.label("model"), c.organization, c.archived_at, c.archive_reason.label("reason")
    shown = select(*columns).where(c.archived_at.is_not(None), ~c.unreleased)
    return conn.execute(shown.order_by(c.archived_at.desc(), c.name.collate("C"))).mappings().all()


def list_merged(conn: Connection) -> Sequence[RowMapping]:
    """Return `model, changed_at, into, reason, recorded_at` of the merges and marks in force, by model and time."""
    c, into = model_merges.c, models.alias("into")
    newest = select(func.max(c.id)).group_by(c.model_id, c.before)
    columns = models.c.name.label("model"), c.before.label("changed_at"), into.c.name.label("into")
    statement = (
        select(*columns, c.reason, c.recorded_at)
        .join_from(model_merges, models, models.c.id == c.model_id)
        .join(into, into.c.id == c.into_id)
        .where(c.id.in_(newest), ~models.c.unreleased, ~into.c.unreleased)
    )
    return conn.execute(statement.order_by(models.c.name.collate("C"), nulls_first(c.before))).mappings().all()


def list_retracted(conn: Connection, *, most: int) -> Sequence[RowMapping]:
    """Return `target, reason, retractions, votes, last_at` of what was retracted and not withdrawn, the last first."""
    c, named = retractions.c, models.c.unreleased
    former = select(model_aliases.c.name).join(models, models.c.id == model_aliases.c.model_id).where(named)
    unreleased = select(models.c.name).where(named).union(former)  # a retraction keeps the name of its time
    hidden = or_(~c.reason_public, c.target == "annotator", and_(c.target == "model", c.target_id.in_(unreleased)))
    reason = case((hidden, None), else_=cast(c.reason, Text))
    each = (
        select(c.target, reason.label("reason"), c.votes, c.retracted_at)
        .where(c.id.not_in(select(withdrawn_retractions.c.retraction_id)))
        .subquery()
    )
    last_at = func.max(each.c.retracted_at)
    statement = select(
        each.c.target,
        each.c.reason,
        func.count().label("retractions"),
        cast(func.sum(each.c.votes), BigInteger).label("votes"),
        last_at.label("last_at"),
    )
    statement = statement.group_by(each.c.target, each.c.reason).order_by(last_at.desc()).limit(most)
    return conn.execute(statement).mappings().all()
