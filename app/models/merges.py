"""Merges of models, and markers of changed models: for which model the votes on a model count.

Both are rows of `model_merges`, which are never changed: a merge's time is null, a marker's is when the model changed.
"""

from datetime import datetime

from sqlalchemy import Connection

from app.audit import service as audit
from app.errors import ConflictError
from app.models import queries as store
from app.models.contestants import ALWAYS, Contestants, Rule, read_contestants
from app.models.schemas import FoundModel, Merge
from app.models.service import find_model, get_model


def find_contestant(conn: Connection, reference: str) -> FoundModel:
    """Return the model for which votes by this name count: the model with the name, or the one it was merged into.

    Raises
    ------
    NotFoundError
    """
    found = find_model(conn, reference)
    number = read_contestants(conn).of(found.model_id)
    return found if number == found.model_id else get_model(conn, number)


def list_merged(conn: Connection, model_id: int) -> list[str]:
    """Return the names of the models whose votes count for a model."""
    contestants = read_contestants(conn)
    return [get_model(conn, one).name for one in sorted(contestants.merged) if contestants.of(one) == model_id]


def merge_model(conn: Connection, reference: str, merge: Merge, *, merged_by: str) -> FoundModel:
    """Let a model's votes, present and to come, count for another model from the next refit on; return the model.

    A model that is merged into that one already stays as it is.

    Raises
    ------
    NotFoundError
    ConflictError
        The model is merged into a third one already, or the other model's votes count for this one.
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
    return get_model(conn, found.model_id)


def unmerge_model(conn: Connection, reference: str, *, reason: str | None, unmerged_by: str) -> FoundModel:
    """Let a model's votes count for itself again from the next refit on; a model that is not merged stays as it is.

    Raises
    ------
    NotFoundError
    """
    store.lock_names(conn)
    found = find_model(conn, reference)
    if _rule(read_contestants(conn), found.model_id, ALWAYS) is None:
        return found
    store.insert_merge(conn, found.model_id, None, None, reason=reason, recorded_by=unmerged_by)
    detail = {"from": found.merged_into}
    audit.record(conn, actor=unmerged_by, action="model.unmerge", subject=found.name, detail=detail)
    return get_model(conn, found.model_id)


def _rule(contestants: Contestants, model_id: int, before: datetime) -> Rule | None:
    return next((rule for rule in contestants.rules.get(model_id, ()) if rule.before == before), None)
