from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection

from app.database.ids import as_id
from app.errors import NotFoundError
from app.snapshots import queries as store
from app.snapshots.first_leaderboard import describe_wait
from app.snapshots.schemas import Snapshot, SnapshotDetail

_LARGEST_NUMBER = 2**31 - 1


class NoSnapshotError(NotFoundError):
    """Nothing has been published yet, or not by the time in question."""

    code = "no-snapshot"
    title = "No leaderboard has been published yet"


class NoSuchLeaderboardError(NotFoundError):
    """The snapshot exists but has no leaderboard of this method or tag."""

    code = "no-such-board"
    title = "The snapshot has no such leaderboard"


def find_snapshot(conn: Connection, reference: str | None = None, as_of: datetime | None = None) -> Snapshot:
    """Return the snapshot with this id or number, or the newest, or the newest at a time.

    Raises NotFoundError: there is no such snapshot.
    Raises NoSnapshotError: no reference was given, and nothing had been published.
    """
    if reference is None:
        row = store.newest_snapshot(conn, as_of)
    else:
        named = parse_reference(reference)
        row = None if named is None else store.get_snapshot(conn, named)
    if row is None:
        raise missing_snapshot(conn, reference, as_of)
    return Snapshot.model_validate(dict(row))


def find_snapshot_detail(conn: Connection, reference: str) -> SnapshotDetail:
    """Return the snapshot with this id or number and the leaderboards that it has. Raises NotFoundError."""
    snapshot = find_snapshot(conn, reference)
    kept = store.list_leaderboards(conn, snapshot.id)
    methods = [method for method, tag in kept if not tag]
    tags = sorted({tag for _, tag in kept if tag})
    return SnapshotDetail.model_validate({**snapshot.model_dump(), "boards": methods, "tags": tags})


def list_snapshots(conn: Connection, *, limit: int, before: int | None = None) -> list[Snapshot]:
    """Return snapshots, the newest first, those with a number below `before`."""
    return [Snapshot.model_validate(dict(row)) for row in store.list_snapshots(conn, limit=limit, before=before)]


def parse_reference(reference: str) -> UUID | int | None:
    """Return the id or the number that a text holds, None if it is neither."""
    if reference.isascii() and reference.isdigit():
        number = int(reference[:11])
        return number if number <= _LARGEST_NUMBER else None
    return as_id(reference)


def missing_snapshot(conn: Connection, reference: str | None, as_of: datetime | None = None) -> NotFoundError:
    """Return the error for a snapshot that does not exist."""
    if reference is not None:
        return NotFoundError(f"there is no snapshot {reference}")
    if as_of is not None:
        return NoSnapshotError(f"no refit has published a leaderboard by {as_of}")
    return NoSnapshotError(f"no refit has published a leaderboard yet: {describe_wait(conn)}")
