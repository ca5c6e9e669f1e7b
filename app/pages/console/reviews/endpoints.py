"""The review queue: annotators with an open flag, the strongest reason first."""

from typing import Annotated

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import TypeAdapter

from app.api.dependencies import ReadView
from app.api.pagination import Cursor, Number, paginate, read_cursor
from app.api.sessions import signed_in
from app.auth.sessions.schemas import SignedIn
from app.pages.console.rendering import render_console
from app.pages.console.reviews.view import view_review
from app.review import service as reviews

router = APIRouter(prefix="/console/reviews", include_in_schema=False, default_response_class=HTMLResponse)

_ON_A_PAGE = 25
_Position = TypeAdapter(tuple[float, Number])


@router.get("")
def get_reviews(
    request: Request, visitor: Annotated[SignedIn, signed_in("review:read")], conn: ReadView, cursor: Cursor = None
) -> Response:
    """List the annotators that wait for a decision."""
    found = reviews.list_reviews(conn, limit=_ON_A_PAGE + 1, after=read_cursor(cursor, _Position))
    page = paginate(found, _ON_A_PAGE, lambda last: last[0].position)
    state = reviews.queue_state(conn)
    return render_console(
        request,
        visitor,
        "console/reviews/page.html",
        rows=[view_review(one, state.threshold) for _, one in page.items],
        state=state,
        next_cursor=page.next_cursor,
        first=cursor is None,
    )
