"""Models on record: their names, what is known of them, and the merges and marks of changed models.

A row of `model_merges` is never changed: the last row of a model and a time is in force.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, func, nulls_first, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError

from app.database.tables import model_merges, models, policies

# One change of names at a time, so that a checked name is still free. The number must differ from other locks' numbers.
_NAMES_LOCK = 20_250_305


def lock_names(conn: Connection) -> None:
    """Wait until no other transaction changes names or aliases of models."""
    conn.execute(select(func.pg_advisory_xact_lock(_NAMES_LOCK)))


def list_models(
    conn: Connection, *, archived: bool, unreleased: bool, limit: int, after: str | None
) -> Sequence[RowMapping]:
    """Return models by name, those after a name, with `merged_into`.

    Archived models only with `archived`, unreleased ones only with `unreleased`.
    """
    name = models.c.name.collate("C")
    statement = _models().order_by(name).limit(limit)
    if not archived:
        statement = statement.where(models.c.archived_at.is_(None))
    if not unreleased:
        statement = statement.where(~models.c.unreleased)
    if after is not None:
        statement = statement.where(name > after)
    return conn.execute(statement).mappings().all()


def read_model_ids(conn: Connection) -> Sequence[int]:
    """Return the id of every model, in order."""
    return conn.execute(select(models.c.id).order_by(models.c.id)).scalars().all()


def read_model_names(conn: Connection, numbers: Collection[int] | None = None) -> dict[int, str]:
    """Return the names of the models with these numbers, None for every model, by number."""
    statement = select(models.c.id, models.c.name)
    if numbers is not None:
        statement = statement.where(models.c.id.in_(numbers))
    return {row.id: row.name for row in conn.execute(statement)}


def read_archived(conn: Connection) -> set[int]:
    """Return the numbers of the archived models."""
    return set(conn.execute(select(models.c.id).where(models.c.archived_at.is_not(None))).scalars())


def list_facts(conn: Connection) -> dict[str, tuple[date | None, float | None]]:
    """Return the day of release and the price of each model for which one of them is known, by name."""
    c = models.c
    statement = select(c.name, c.released, c.price).where(or_(c.released.is_not(None), c.price.is_not(None)))
    return {row.name: (row.released, row.price) for row in conn.execute(statement)}


def list_unreleased(conn: Connection) -> Sequence[tuple[int, str | None]]:
    """Return the number and the organization of every unreleased model, in order."""
    statement = select(models.c.id, models.c.organization).where(models.c.unreleased).order_by(models.c.id)
    return [(row.id, row.organization) for row in conn.execute(statement)]


def read_most_unreleased(conn: Connection) -> int | None:
    """Return how many unreleased models the policy in force allows an organization; None for no limit."""
    c = policies.c
    newest = select(c.settings["max_unreleased"].as_integer()).order_by(c.version.desc()).limit(1)
    found: int | None = conn.execute(newest).scalar_one_or_none()
    return found


def get_model(conn: Connection, model_id: int) -> RowMapping:
    """Return the model with this number, which must exist, with `merged_into`."""
    return conn.execute(_models().where(models.c.id == model_id)).mappings().one()


def insert_model(conn: Connection, values: Mapping[str, Any]) -> int | None:
    """Add a model and return its number; None where the name is taken."""
    statement = insert(models).values(**values).on_conflict_do_nothing(index_elements=[models.c.name])
    return conn.execute(statement.returning(models.c.id)).scalar_one_or_none()


def update_model(conn: Connection, model_id: int, values: Mapping[str, Any]) -> bool:
    """Change a model; False where the new name is taken."""
    try:
        with conn.begin_nested():
            conn.execute(update(models).where(models.c.id == model_id).values(**values))
    except IntegrityError:
        return False
    return True


def set_archived(conn: Connection, model_id: int, *, archived: bool, reason: str | None) -> None:
    """Archive a model or show it again. One archived already keeps its time, and its reason unless given."""
    values: dict[str, Any] = {"archived_at": None, "archive_reason": None}
    if archived:
        values["archived_at"] = func.coalesce(models.c.archived_at, func.clock_timestamp())
        values["archive_reason"] = models.c.archive_reason if reason is None else reason
    conn.execute(update(models).where(models.c.id == model_id).values(values))


def _models() -> Select[Any]:
    """Select models, with the name of the model that each was merged into."""
    c, other = model_merges.c, models.alias("other")
    last = select(c.into_id).where(c.model_id == models.c.id, c.before.is_(None)).order_by(c.id.desc()).limit(1)
    named = select(other.c.name).where(other.c.id == last.correlate(models).scalar_subquery())
    merged_into = named.correlate(models).scalar_subquery().label("merged_into")
    return select(models, models.c.id.label("model_id"), merged_into)


def list_merges(conn: Connection) -> Sequence[RowMapping]:
    """Return the rows in force, with the names of the models, by model and time."""
    c, into = model_merges.c, models.alias("into")
    newest = select(func.max(c.id)).group_by(c.model_id, c.before)
    statement = (
        select(
            models.c.name.label("model"),
            c.before.label("changed_at"),
            into.c.name.label("into"),
            c.reason,
            c.recorded_by,
            c.recorded_at,
        )
        .join(models, models.c.id == c.model_id)
        .join(into, into.c.id == c.into_id)  # a row that ends one has none
        .where(c.id.in_(newest))
        .order_by(models.c.name.collate("C"), nulls_first(c.before))
    )
    return conn.execute(statement).mappings().all()


def insert_merge(
    conn: Connection,
    model_id: int,
    before: datetime | None,
    into_id: int | None,
    *,
    reason: str | None,
    recorded_by: str,
) -> None:
    """Record for which model the votes on a model, cast before a time, count from now on; None for all, for itself."""
    values = {"model_id": model_id, "before": before, "into_id": into_id, "reason": reason, "recorded_by": recorded_by}
    conn.execute(insert(model_merges).values(**values, recorded_at=func.clock_timestamp()))


def find_former(conn: Connection, model_id: int, before: datetime) -> int | None:
    """Return the model for which the votes on a model before a time counted last; None where they never did."""
    c = model_merges.c
    meant = select(c.into_id).where(c.model_id == model_id, c.before == before, c.into_id.is_not(None))
    return conn.execute(meant.order_by(c.id.desc()).limit(1)).scalar_one_or_none()
