"""Which models win against which."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from app.api.dependencies import ReadView
from app.api.public_route import PublicRoute
from app.api.sessions import PageReader
from app.leaderboard.charts import read_charts
from app.leaderboard.matchups import read_grid
from app.leaderboard.service import find_head
from app.pages.empty import render_nothing_published
from app.pages.matchups.view import SIZE, view_grid
from app.pages.rendering import render
from app.snapshots.service import NoSnapshotError

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse, route_class=PublicRoute)


@router.get("/matchups")
def get_matchups(
    request: Request,
    _reader: PageReader,
    conn: ReadView,
    show: Literal["observed", "predicted"] = "observed",
    start: Annotated[int, Query(ge=1, le=10_000)] = 1,
    model: Annotated[tuple[str, ...], Query()] = (),
    snapshot: str | None = None,
) -> Response:
    """Show the observed or the predicted win rate of each of some models against each other, with counts."""
    try:
        chosen = find_head(conn, snapshot or None)
    except NoSnapshotError:
        return render_nothing_published(request, conn, "Matchups")
    grid = read_grid(conn, chosen, names=model, start=start, size=SIZE)
    return render(
        request,
        "matchups/page.html",
        **view_grid(grid, show, None if snapshot is None else chosen.number),
        snapshot=chosen,
        calibration=read_charts(conn, chosen.id).get("calibration"),
    )
