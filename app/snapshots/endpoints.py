from fastapi import APIRouter
from pydantic import TypeAdapter

from app.http.dependencies import OptionalReader, ReadView
from app.http.pagination import Cursor, Number, Page, PageSize, paginate, read_cursor
from app.http.problems import problem_responses
from app.snapshots import service as snapshots
from app.snapshots.schemas import Snapshot, SnapshotDetail

router = APIRouter(prefix="/snapshots", tags=["leaderboard"])

_Position = TypeAdapter(tuple[Number])


@router.get("", responses=problem_responses(401, 403, 422, 503))
def list_snapshots(
    _reader: OptionalReader, conn: ReadView, limit: PageSize = 50, cursor: Cursor = None
) -> Page[Snapshot]:
    """List what was published, the newest first.

    Public, unless the service is set to require scope `read`. Problems: `invalid` for an unknown cursor.
    """
    position = read_cursor(cursor, _Position)
    items = snapshots.list_snapshots(conn, limit=limit + 1, before=position and position[0])
    return paginate(items, limit, lambda last: (last.number,))


@router.get("/{reference}", responses=problem_responses(401, 403, 404, 503))
def get_snapshot(reference: str, _reader: OptionalReader, conn: ReadView) -> SnapshotDetail:
    """Show how a snapshot was made, by its id or its number, and the leaderboards that it has.

    Their rows are at `/leaderboard?snapshot=`. Public, unless the service is set to require scope `read`. Problems:
    `not-found`.
    """
    return snapshots.find_snapshot_detail(conn, reference)
