from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.errors import NotFoundError
from app.store import snapshots as store

_LARGEST_NUMBER = 2**31 - 1


class NoSnapshotError(NotFoundError):
    """Nothing has been published yet, or not by the moment asked about."""

    code = "no-snapshot"
    title = "No leaderboard has been published yet"


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


def find_snapshot(conn: Connection, reference: str | None = None, as_of: datetime | None = None) -> Snapshot:
    """Return the snapshot with this id or number, or the newest, or the newest at a moment.

    Raises
    ------
    NotFoundError
        There is no such snapshot.
    NoSnapshotError
        None was asked for by name and none had been published.
    """
    if reference is None:
        row = store.newest_snapshot(conn, as_of)
        if row is None:
            raise NoSnapshotError("no refit has published a leaderboard" + (f" by {as_of}" if as_of else " yet"))
    else:
        row = _get(conn, reference)
        if row is None:
            raise NotFoundError(f"there is no snapshot {reference}")
    return Snapshot.model_validate(dict(row))


def list_snapshots(conn: Connection, *, limit: int, before: int | None = None) -> list[Snapshot]:
    """Return snapshots, the newest first, those with a number below `before`."""
    return [Snapshot.model_validate(dict(row)) for row in store.list_snapshots(conn, limit=limit, before=before)]


def _get(conn: Connection, reference: str) -> Any:
    if reference.isascii() and reference.isdigit():
        number = int(reference[:11])
        return store.get_snapshot(conn, number=number) if number <= _LARGEST_NUMBER else None
    try:
        return store.get_snapshot(conn, snapshot_id=UUID(reference))
    except ValueError:
        return None
