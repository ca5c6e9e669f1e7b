from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, RowMapping

from app.errors import NotFoundError
from app.leaderboard import queries as store
from app.leaderboard.matchups.schemas import Matchup
from app.leaderboard.row_files import rows_csv, rows_parquet
from app.snapshots.schemas import SnapshotHead

Position = tuple[int, int]
"""A pair's place in the order of pairs: the numbers of its models."""


class NoMatchupsError(NotFoundError):
    """The snapshot exists but its matchups do not."""

    code = "no-matchups"
    title = "The snapshot's matchups are not kept"


@dataclass(frozen=True)
class PlacedMatchup:
    """A pair and its position in the order of pairs."""

    matchup: Matchup
    position: Position


def list_matchups(
    conn: Connection,
    snapshot: SnapshotHead,
    *,
    model_id: int | None = None,
    among: Collection[int] | None = None,
    after: Position | None = None,
    limit: int | None = None,
) -> list[PlacedMatchup]:
    """Return a snapshot's pairs in a fixed order, those after a position. With `model_id`, that model is `model_a`.

    With `among`, both models of a pair are among these numbers.

    Raises
    ------
    NoMatchupsError
    """
    rows = store.list_matchups(conn, snapshot.id, model_id=model_id, among=among, after=after, limit=limit)
    found = [PlacedMatchup(_seen_by(model_id, row), (row["model_a_id"], row["model_b_id"])) for row in rows]
    if not found:
        _require_matchups(conn, snapshot)
    return found


def _require_matchups(conn: Connection, snapshot: SnapshotHead) -> None:
    if not store.has_matchups(conn, snapshot.id):
        raise NoMatchupsError(
            f"snapshot {snapshot.number} has no matchups: old snapshots drop them, and early versions of the service "
            "kept none"
        )


def write_matchups(
    conn: Connection, snapshot: SnapshotHead, form: Literal["csv", "parquet"], *, model_id: int | None = None
) -> bytes:
    """Return all pairs of a snapshot, or of one of its models, as a file.

    Raises
    ------
    NoMatchupsError
    """
    _require_matchups(conn, snapshot)
    rows = (
        {**_seen_by(model_id, row).model_dump(), "snapshot": snapshot.number}
        for row in store.list_matchups(conn, snapshot.id, model_id=model_id)
    )
    columns = [*Matchup.model_fields, "snapshot"]
    return rows_csv(rows, columns) if form == "csv" else rows_parquet(rows, columns)


def _seen_by(model_id: int | None, row: RowMapping) -> Matchup:
    matchup = Matchup.of(row)
    return matchup.swapped() if row["model_b_id"] == model_id else matchup
