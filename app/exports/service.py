"""Requests for exports. A worker makes the files (`runner`)."""

from uuid import UUID

from sqlalchemy import Connection

from app.database.ids import new_id
from app.errors import BadInputError, FieldError, found
from app.exports import queries as store
from app.exports.schemas import Export, ExportFilters, Format, What
from app.leaderboard.schemas import PublishedLeaderboard
from app.leaderboard.service import check_leaderboard, read_published
from app.models.service import find_model
from app.snapshots.service import find_snapshot

_FILTERS: dict[What, tuple[str, ...]] = {
    "votes": ("since", "until", "model", "snapshot"),
    "annotators": ("standing",),
    "leaderboard": ("snapshot", "method", "tag"),
    "answers": ("model",),
}


def request_export(conn: Connection, what: What, form: Format, filters: ExportFilters, *, requested_by: str) -> UUID:
    """Record an export, which a worker then makes; return its id.

    Raises BadInputError: a filter does not go with `what`.
    Raises NotFoundError: there is no such snapshot, model, or leaderboard.
    """
    check_filters(what, filters)
    if filters.method is not None or filters.tag is not None:
        snapshot = find_snapshot(conn, filters.snapshot)
        check_leaderboard(conn, snapshot, filters.method or "am-elo", tag=filters.tag or None)
    elif filters.snapshot is not None:
        find_snapshot(conn, filters.snapshot)
    if filters.model is not None:
        find_model(conn, filters.model)
    export_id = new_id()
    values = {"what": what, "format": form, "options": filters.given(), "requested_by": requested_by}
    store.add_export(conn, export_id, values)
    return export_id


def read_exported(conn: Connection, filters: ExportFilters) -> PublishedLeaderboard:
    """Return the leaderboard that an export is of. Raises NotFoundError, NoSnapshotError or NoSuchLeaderboardError."""
    snapshot = find_snapshot(conn, filters.snapshot)
    return read_published(conn, snapshot, filters.method or "am-elo", filters.tag)


def check_filters(what: What, filters: ExportFilters) -> None:
    """Check that every filter goes with what is exported. Raises BadInputError."""
    foreign = [name for name in filters.given() if name not in _FILTERS[what]]
    if foreign:
        errors = tuple(FieldError(f"/filters/{name}", f"does not go with {what}") for name in foreign)
        raise BadInputError(f"{', '.join(foreign)}: not a filter of {what}; use {', '.join(_FILTERS[what])}", errors)


def find_export(conn: Connection, export_id: UUID) -> Export:
    """Return an export. Raises NotFoundError."""
    return Export(**found(store.get_export(conn, export_id), f"export {export_id}"))
