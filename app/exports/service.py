"""Requests for exports. A worker makes the files (`runner`)."""

from uuid import UUID

from sqlalchemy import Connection

from app.database.ids import new_id
from app.errors import BadInputError, FieldError, found
from app.exports import queries as store
from app.exports.schemas import Export, ExportFilters, Format, What
from app.leaderboard.service import LeaderboardVersion, check_leaderboard, choose_leaderboard
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
        version = choose_exported(conn, filters)
        check_leaderboard(conn, version.snapshot, version.method, tag=version.tag)
    if filters.snapshot is not None:
        find_snapshot(conn, filters.snapshot)
    if filters.model is not None:
        find_model(conn, filters.model)
    export_id = new_id()
    values = {"what": what, "format": form, "options": filters.given(), "requested_by": requested_by}
    store.add_export(conn, export_id, values)
    return export_id


def choose_exported(conn: Connection, filters: ExportFilters) -> LeaderboardVersion:
    """Return the leaderboard that the filters mean. Raises NotFoundError, NoSnapshotError or NoSuchLeaderboardError."""
    return choose_leaderboard(conn, method=filters.method or "am-elo", tag=filters.tag, snapshot=filters.snapshot)


def check_filters(what: What, filters: ExportFilters) -> None:
    """Check that every filter goes with what is exported. Raises BadInputError."""
    foreign = [name for name in filters.given() if name not in _FILTERS[what]]
    if foreign:
        errors = tuple(FieldError(f"/filters/{name}", f"does not go with {what}") for name in foreign)
        raise BadInputError(f"{', '.join(foreign)}: not a filter of {what}; use {', '.join(_FILTERS[what])}", errors)


def find_export(conn: Connection, export_id: UUID) -> Export:
    """Return an export. Raises NotFoundError."""
    return Export(**found(store.get_export(conn, export_id), f"export {export_id}"))
