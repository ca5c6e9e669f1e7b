from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field, TypeAdapter

from app.api.cursors import PageSize, read_cursor, write_cursor
from app.api.dependencies import OptionalReader, ReadView
from app.api.problems import problem_responses
from app.arena import snapshots
from app.arena.snapshot_diff import SnapshotDiff, compare_snapshots
from app.arena.snapshots import Snapshot
from app.rating.results import Method

router = APIRouter(prefix="/snapshots", tags=["leaderboard"])

_Position = TypeAdapter(tuple[int])


class SnapshotPage(BaseModel):
    """Snapshots, the newest first."""

    items: list[Snapshot]
    next_cursor: str | None = Field(description="Passed as `cursor`, gives the next page; null on the last.")


@router.get("", responses=problem_responses(401, 403, 422, 503))
def list_snapshots(
    _reader: OptionalReader, conn: ReadView, limit: PageSize = 50, cursor: Annotated[str | None, Query()] = None
) -> SnapshotPage:
    """List what was published, the newest first.

    Public, unless the service is set to require scope `read`. Problems: `invalid` for an unknown cursor.
    """
    position = read_cursor(cursor, _Position)
    items = snapshots.list_snapshots(conn, limit=limit + 1, before=position and position[0])
    last = items[limit - 1] if len(items) > limit else None
    return SnapshotPage(items=items[:limit], next_cursor=last and write_cursor(last.number))


@router.get("/{reference}", responses=problem_responses(401, 403, 404, 503))
def get_snapshot(reference: str, _reader: OptionalReader, conn: ReadView) -> Snapshot:
    """Show how one snapshot was made, by its id or its number.

    Its rows are at `/leaderboard?snapshot=`. Public, unless the service is set to require scope `read`. Problems:
    `not-found`.
    """
    return snapshots.find_snapshot(conn, reference)


@router.get("/{before}/diff/{after}", responses=problem_responses(401, 403, 404, 422, 503))
def get_diff(
    before: str,
    after: str,
    _reader: OptionalReader,
    conn: ReadView,
    method: Annotated[Method, Query(description="Which of the snapshots' boards.")] = "am-elo",
) -> SnapshotDiff:
    """Say what moved between two snapshots, by id or number, how far, and what had changed.

    In words and in numbers. Public, unless the service is set to require scope `read`. Problems: `not-found`,
    `invalid` for an unknown method.
    """
    return compare_snapshots(conn, before, after, method=method)
