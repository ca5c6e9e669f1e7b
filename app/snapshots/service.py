from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.errors import NotFoundError
from app.snapshots import queries as store
from app.snapshots.methods import LeaderboardMethod

_LARGEST_NUMBER = 2**31 - 1


class NoSnapshotError(NotFoundError):
    """Nothing has been published yet, or not by the moment asked about."""

    code = "no-snapshot"
    title = "No leaderboard has been published yet"


class NoSuchLeaderboardError(NotFoundError):
    """The snapshot exists but has no leaderboard of this method or tag."""

    code = "no-such-board"
    title = "The snapshot has no such leaderboard"


class SnapshotHead(BaseModel):
    """What names a published leaderboard and the votes behind it."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    number: int = Field(description="Grows with every publication; gaps are possible.")
    published_at: datetime
    policy_version: int
    votes_read: int = Field(description="Votes on record when it was made.")
    votes_used: int = Field(description="Votes that count in it.")
    votes_hash: str = Field(description="SHA-256 of the votes read, the same for the same votes in any order.")


class Snapshot(SnapshotHead):
    """A published leaderboard without its rows: everything needed to make it again."""

    refit_id: UUID
    settings: dict[str, Any] = Field(description="The settings the fit ran with.")
    diagnostics: dict[str, Any] = Field(description="How the fit went.")
    vote_set: str = Field(description="The database transactions whose votes were read, as a pg_snapshot.")
    code_version: str
    crowd_pruned_at: datetime | None = Field(
        description="Since when its matchups and most of its annotators' rows are gone, to save space: kept are those "
        "whose standing differs from the snapshot before or after, or on whom a decision was taken. Null: it is whole."
    )


class SnapshotDetail(Snapshot):
    """A published leaderboard without its rows, and which rows there are."""

    boards: list[LeaderboardMethod] = Field(description="The methods that there is a board of all votes of.")
    tags: list[str] = Field(description="The tags that there is an am-elo board of, by name.")


def find_snapshot(conn: Connection, reference: str | None = None, as_of: datetime | None = None) -> Snapshot:
    """Return the snapshot with this id or number, or the newest, or the newest at a moment.

    Raises
    ------
    NotFoundError
        There is no such snapshot.
    NoSnapshotError
        None was asked for by name and none had been published.
    """
    row = store.newest_snapshot(conn, as_of) if reference is None else _get(conn, reference)
    if row is None:
        raise missing_snapshot(reference, as_of)
    return Snapshot.model_validate(dict(row))


def find_snapshot_detail(conn: Connection, reference: str) -> SnapshotDetail:
    """Return the snapshot with this id or number and which boards it has.

    Raises
    ------
    NotFoundError
    """
    snapshot = find_snapshot(conn, reference)
    kept = store.list_leaderboards(conn, snapshot.id)
    methods = [method for method, tag in kept if not tag]
    tags = sorted({tag for _, tag in kept if tag})
    return SnapshotDetail.model_validate({**snapshot.model_dump(), "boards": methods, "tags": tags})


def list_snapshots(conn: Connection, *, limit: int, before: int | None = None) -> list[Snapshot]:
    """Return snapshots, the newest first, those with a number below `before`."""
    return [Snapshot.model_validate(dict(row)) for row in store.list_snapshots(conn, limit=limit, before=before)]


def _get(conn: Connection, reference: str) -> Any:
    match parse_reference(reference):
        case int() as number:
            return store.get_snapshot(conn, number=number)
        case UUID() as snapshot_id:
            return store.get_snapshot(conn, snapshot_id=snapshot_id)
        case _:
            return None


def parse_reference(reference: str) -> UUID | int | None:
    """Return the id or the number by which a snapshot is named; None for what is neither."""
    if reference.isascii() and reference.isdigit():
        number = int(reference[:11])
        return number if number <= _LARGEST_NUMBER else None
    try:
        return UUID(reference)
    except ValueError:
        return None


def missing_snapshot(reference: str | None, as_of: datetime | None = None) -> NotFoundError:
    """Return the error of a snapshot that is not there."""
    if reference is not None:
        return NotFoundError(f"there is no snapshot {reference}")
    return NoSnapshotError("no refit has published a leaderboard" + (f" by {as_of}" if as_of else " yet"))
