"""Two models side by side."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from sqlalchemy import Connection

from app.api.dependencies import ReadView
from app.api.public_route import PublicRoute
from app.api.sessions import PageReader
from app.errors import NotFoundError
from app.leaderboard.comparison import compare_models
from app.leaderboard.service import find_head
from app.models.schemas import FoundModel
from app.models.service import find_contestant
from app.pages.compare.view import view_comparison
from app.pages.empty import render_nothing_published
from app.pages.rendering import render
from app.snapshots.queries import list_placed_models
from app.snapshots.service import NoSnapshotError

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse, route_class=PublicRoute)

_UNKNOWN = 404


@router.get("/compare")
def get_comparison(
    request: Request, _reader: PageReader, conn: ReadView, a: str | None = None, b: str | None = None
) -> Response:
    """Compare two models, by default the first two of the leaderboard."""
    try:
        snapshot = find_head(conn)
    except NoSnapshotError:
        return render_nothing_published(request, conn, "Compare")
    known = [row["model"] for row in list_placed_models(conn, snapshot.id)]
    first = a or next((name for name in known if name != b), "")
    asked = first, b or next((name for name in known if name != first), "")
    found, wrong = _find(conn, asked)
    shown = view_comparison(compare_models(conn, snapshot, *found)) if not any(wrong) else None
    return render(
        request,
        "compare/page.html",
        status=_UNKNOWN if shown is None else 200,
        asked=asked,
        known=known,
        wrong=wrong,
        snapshot=snapshot,
        shown=shown,
    )


def _find(conn: Connection, names: tuple[str, str]) -> tuple[list[FoundModel], list[str]]:
    """Return the two models; where one is unknown, or both are the same, what is wrong with each name."""
    found: list[FoundModel] = []
    wrong = ["", ""]
    for place, name in enumerate(names):
        try:
            model = find_contestant(conn, name)
        except NotFoundError as error:
            wrong[place] = error.detail
            continue
        if model in found:
            wrong[place] = "choose two different models"
            continue
        found.append(model)
    return found, wrong
