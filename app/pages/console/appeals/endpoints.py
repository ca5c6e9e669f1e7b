"""Appeals that wait for a decision."""

from uuid import UUID

from fastapi import Response
from pydantic import TypeAdapter

from app.api.dependencies import ReadView
from app.api.pagination import Cursor, paginate, read_cursor
from app.database.timestamps import StorableTimestamp
from app.pages.console.rendering import Reader, console_router
from app.review import service as reviews

router = console_router("appeals")

_ON_A_PAGE = 50
_Position = TypeAdapter(tuple[StorableTimestamp, UUID])


@router.get("")
def get_appeals(console: Reader, conn: ReadView, cursor: Cursor = None) -> Response:
    """List the appeals that wait, the longest waiting first."""
    found = reviews.list_appeals(conn, limit=_ON_A_PAGE + 1, after=read_cursor(cursor, _Position))
    page = paginate(found, _ON_A_PAGE, lambda last: (last.submitted_at, last.id))
    return console.page("appeals/page.html", appeals=page.items, next_cursor=page.next_cursor)
