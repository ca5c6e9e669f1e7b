from typing import Annotated, cast

from fastapi import APIRouter, Depends, Query, Request, Security
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field, TypeAdapter

from app.auth.service import Caller
from app.database.engine import Database
from app.http.dependencies import (
    Credentials,
    OptionalReader,
    ReadView,
    authorise,
    database_turn,
    get_database,
    optional_read,
)
from app.http.pagination import Number, PageSize, read_cursor, write_cursor
from app.http.problems import problem_responses
from app.leaderboard.diff.move_causes import DiffCauses
from app.leaderboard.diff.service import SnapshotDiff, compare_snapshots
from app.snapshots import service as snapshots
from app.snapshots.methods import BoardMethod
from app.snapshots.service import Snapshot, SnapshotDetail

router = APIRouter(prefix="/snapshots", tags=["leaderboard"])

_Position = TypeAdapter(tuple[Number])
_Causes = Annotated[bool, Query(description="Say of every move how much is due to what; needs scope `review`.")]


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
def get_snapshot(reference: str, _reader: OptionalReader, conn: ReadView) -> SnapshotDetail:
    """Show how one snapshot was made, by its id or its number, and which boards it has.

    Their rows are at `/leaderboard?snapshot=`. Public, unless the service is set to require scope `read`. Problems:
    `not-found`.
    """
    return snapshots.find_snapshot_detail(conn, reference)


async def _reader_of_diff(
    request: Request,
    credentials: Credentials,
    causes: Annotated[
        bool, Query(description="Say of every move how much is due to what; needs scope `review`.")
    ] = False,
) -> Caller | None:
    """Causes cost a refit or two, which not everybody may ask for."""
    if causes:
        return await authorise(request, "review", credentials.credentials if credentials else None)
    return await optional_read(request, credentials)


async def _causes(request: Request) -> DiffCauses:
    return cast("DiffCauses", request.app.state.diff_causes)


@router.get("/{before}/diff/{after}", responses=problem_responses(401, 403, 404, 409, 422, 500, 503))
async def get_diff(
    before: str,
    after: str,
    request: Request,
    _reader: Annotated[Caller | None, Security(_reader_of_diff)],
    database: Annotated[Database, Depends(get_database)],
    explainer: Annotated[DiffCauses, Depends(_causes)],
    method: Annotated[BoardMethod, Query(description="Which of the snapshots' boards.")] = "am-elo",
    causes: _Causes = False,
) -> SnapshotDiff:
    """Say what moved between two snapshots, by id or number, how far, and what had changed.

    In words and in numbers. Public, unless the service is set to require scope `read`. With `causes` every model's move
    is divided among the policy, who counts and the votes, by refitting what lies between: it needs scope `review`,
    takes as long as two refits, one at a time, and is there at once when asked for again. Problems: `not-found`,
    `no-such-board` where one of them lacks the method's, `invalid` for an unknown method or one without causes; with
    `causes` also `not-authenticated`, `scope-missing`, `not-reproducible`, `cannot-fit`, `impact-busy`,
    `fit-too-large`, `fit-lost`.
    """

    def compare() -> SnapshotDiff:
        with database.read() as conn:
            return compare_snapshots(conn, before, after, method=method)

    async with database_turn(request):
        diff = await run_in_threadpool(compare)
    # Outside the turn at the database: no transaction is open while it fits.
    return await run_in_threadpool(explainer.explain, diff) if causes else diff
