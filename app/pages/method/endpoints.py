"""How this arena ranks."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from app.api.dependencies import ReadView
from app.api.public_route import PublicRoute
from app.api.sessions import PageReader
from app.leaderboard.method import find_figures
from app.pages.empty import render_nothing_published
from app.pages.method.view import view_method
from app.pages.rendering import render
from app.snapshots.service import NoSnapshotError

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse, route_class=PublicRoute)


@router.get("/method")
def get_method(request: Request, _reader: PageReader, conn: ReadView) -> Response:
    """Say in plain words how scores come about, with this arena's own numbers."""
    try:
        figures = find_figures(conn)
    except NoSnapshotError:
        return render_nothing_published(request, conn, "Method")
    return render(request, "method/page.html", **view_method(figures))
