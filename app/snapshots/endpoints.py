from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import TypeAdapter

from app.api.dependencies import OptionalReader, ReadView, held, place_of
from app.api.kept_answers import PublicRoute
from app.api.pagination import Cursor, Number, Page, PageSize, paginate, read_single
from app.api.problems import problem_responses
from app.snapshots import service as snapshots
from app.snapshots.events import RECONNECT_MILLISECONDS, SnapshotEvents
from app.snapshots.schemas import Snapshot, SnapshotDetail, SnapshotNews

router = APIRouter(prefix="/snapshots", tags=["leaderboard"], route_class=PublicRoute)

_Position = TypeAdapter(tuple[Number])


@router.get("")
def list_snapshots(
    _reader: OptionalReader, conn: ReadView, limit: PageSize = 50, cursor: Cursor = None
) -> Page[Snapshot]:
    """List what was published, the newest first.

    Public, unless the service is set to require scope `read`. Problems: `invalid` for an unknown cursor.
    """
    items = snapshots.list_snapshots(conn, limit=limit + 1, before=read_single(cursor, _Position))
    return paginate(items, limit, lambda last: (last.number,))


@router.get("/events", response_class=EventSourceResponse)
async def stream_snapshots(
    _reader: OptionalReader,
    events: Annotated[SnapshotEvents, held(SnapshotEvents)],
    _place: Annotated[None, place_of(SnapshotEvents)],
    last_event_id: Annotated[
        int, Header(ge=0, le=10**9, description="The newest number that the caller knows; browsers send it themselves.")
    ] = 0,
) -> AsyncIterator[ServerSentEvent]:
    """Send an event for the newest snapshot, and one whenever a snapshot is published.

    These are server-sent events, as `EventSource` of browsers reads them: `event` is `snapshot`, `id` its number, and
    `data` the number as JSON. A comment every 15 seconds keeps the connection open.

    Public, unless the service is set to require scope `read`. Problems: `too-many-listeners`.
    """
    yield ServerSentEvent(comment="snapshots of this arena", retry=RECONNECT_MILLISECONDS)
    async for number in events.numbers(last_event_id):
        yield ServerSentEvent(event="snapshot", id=str(number), data=SnapshotNews(number=number))


@router.get("/{reference}", responses=problem_responses(404))
def get_snapshot(reference: str, _reader: OptionalReader, conn: ReadView) -> SnapshotDetail:
    """Show how a snapshot was made, by its id or its number, and the leaderboards that it has.

    Their rows are at `/leaderboard?snapshot=`. Public, unless the service is set to require scope `read`. Problems:
    `not-found`.
    """
    return snapshots.find_snapshot_detail(conn, reference)
