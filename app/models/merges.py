"""Merges of models, and marks of changed models: for which model the votes on a model count from the next refit on.

Both are rows of `model_merges`, which are never changed: a merge's time is null, a mark's is when the model changed.
"""

from datetime import datetime

from sqlalchemy import Connection

from app.audit import service as audit
from app.database.engine import database_time
from app.errors import BadInputError, ConflictError, FieldError
from app.models import queries as store
from app.models.contestants import ALWAYS, Contestants, Rule, read_contestants
from app.models.schemas import FoundModel, Merge, MergeOnRecord, NewModel, NewVersion, Version
from app.models.service import add_model, find_model, former_name, get_model
from app.naming.names import name_error
from app.webhooks.events import announce


def list_merges(conn: Connection) -> list[MergeOnRecord]:
    """Return the merges and marks in force, by model and time."""
    return [MergeOnRecord.model_validate(dict(row)) for row in store.list_merges(conn)]


def merge_model(conn: Connection, reference: str, merge: Merge, *, merged_by: str) -> FoundModel:
    """Let a model's votes, present and to come, count for another model from the next refit on; return the model.

    A model that is merged into that one already stays as it is.

    Raises NotFoundError.
    Raises ConflictError: the model is merged into a third one already, or the other model's votes count for this one.
    """
    store.lock_names(conn)
    found, into = find_model(conn, reference), find_model(conn, merge.into)
    contestants = read_contestants(conn)
    before = _rule(contestants, found.model_id, ALWAYS)
    if before is not None and before.into_id == into.model_id:
        return found
    if before is not None:
        raise ConflictError(f"{found.name!r} is merged into {found.merged_into!r}: take that back first")
    if contestants.leads_to(into.model_id, found.model_id):
        same = into.model_id == found.model_id
        raise ConflictError(
            f"{found.name!r} cannot be merged into itself"
            if same
            else f"votes on {into.name!r} count for {found.name!r}"
        )
    store.insert_merge(conn, found.model_id, None, into.model_id, reason=merge.reason, recorded_by=merged_by)
    audit.record(conn, actor=merged_by, action="model.merge", subject=found.name, detail={"into": into.name})
    announce(conn, "model.merged", {"model": found.name, "into": into.name})
    return get_model(conn, found.model_id)


def unmerge_model(conn: Connection, reference: str, *, reason: str | None, unmerged_by: str) -> FoundModel:
    """Let a model's votes count for itself again from the next refit on; a model that is not merged stays as it is.

    Raises NotFoundError.
    """
    store.lock_names(conn)
    found = find_model(conn, reference)
    if _rule(read_contestants(conn), found.model_id, ALWAYS) is None:
        return found
    store.insert_merge(conn, found.model_id, None, None, reason=reason, recorded_by=unmerged_by)
    detail = {"from": found.merged_into}
    audit.record(conn, actor=unmerged_by, action="model.unmerge", subject=found.name, detail=detail)
    announce(conn, "model.merged", {"model": found.name, "into": None})
    return get_model(conn, found.model_id)


def mark_changed(conn: Connection, reference: str, change: NewVersion, *, marked_by: str) -> Version:
    """Split a model's votes at a time, by when they were cast, from the next refit on.

    Those before it count for a model named `NAME (before 2026-11-01)`, which battles do not show, and those from it on
    for the model itself. With several times the votes between two of them count for the model of the later one. A time
    that was marked already stays as it is.

    Raises NotFoundError.
    Raises BadInputError: the time lies in the future, or the new name would be too long.
    Raises ConflictError: the name that the earlier model gets is taken.
    """
    store.lock_names(conn)
    if change.at > database_time(conn):
        raise BadInputError("the time lies in the future", (FieldError("/at", "must not lie in the future"),))
    found = find_model(conn, reference)
    if (rule := _rule(read_contestants(conn), found.model_id, change.at)) is not None:
        return Version(model=found.name, changed_at=change.at, before=get_model(conn, rule.into_id).name)
    number = store.find_former(conn, found.model_id, change.at) or _add_former(conn, found, change.at, marked_by)
    if read_contestants(conn).leads_to(number, found.model_id):
        raise ConflictError(f"votes on {get_model(conn, number).name!r} count for {found.name!r}: take that back first")
    store.insert_merge(conn, found.model_id, change.at, number, reason=change.reason, recorded_by=marked_by)
    former = get_model(conn, number)
    detail = {"at": change.at, "before": former.name}
    audit.record(conn, actor=marked_by, action="model.changed", subject=found.name, detail=detail)
    announce(conn, "model.changed", {"model": found.name, "at": change.at.isoformat(), "before": former.name})
    return Version(model=found.name, changed_at=change.at, before=former.name)


def unmark_changed(conn: Connection, reference: str, change: NewVersion, *, unmarked_by: str) -> FoundModel:
    """Let the votes before a time count for the model again; a time that is not marked changes nothing.

    Raises NotFoundError.
    """
    store.lock_names(conn)
    found = find_model(conn, reference)
    if _rule(read_contestants(conn), found.model_id, change.at) is not None:
        store.insert_merge(conn, found.model_id, change.at, None, reason=change.reason, recorded_by=unmarked_by)
        detail = {"at": change.at}
        audit.record(conn, actor=unmarked_by, action="model.unchanged", subject=found.name, detail=detail)
        announce(conn, "model.changed", {"model": found.name, "at": change.at.isoformat(), "before": None})
    return found


def _add_former(conn: Connection, found: FoundModel, at: datetime, added_by: str) -> int:
    """Add the model that another was before a time, with what is known of it."""
    name = former_name(found.name, at)
    if (wrong := name_error(name)) is not None:
        raise BadInputError(f"the name {name!r} {wrong}")
    facts = found.model_dump(include={"organization", "license", "link", "released", "price"})
    number = add_model(conn, NewModel(name=name, **facts), added_by=added_by).model_id
    store.update_model(conn, number, {"unreleased": found.unreleased})
    return number


def _rule(contestants: Contestants, model_id: int, before: datetime) -> Rule | None:
    return next((rule for rule in contestants.rules.get(model_id, ()) if rule.before == before), None)
