"""The leaderboard that people look at."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from app.http.sessions import PageReader
from app.pages.rendering import render

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@router.get("/")
def get_board(request: Request, _reader: PageReader) -> Response:
    """Show the leaderboard."""
    return render(request, "board/page.html")
