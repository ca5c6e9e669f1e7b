"""What was published, and what moved."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from app.api.dependencies import ReadView
from app.api.public_route import PublicRoute
from app.api.sessions import PageReader
from app.leaderboard.diff.service import compare_snapshots, list_moves
from app.pages.empty import render_nothing_published
from app.pages.history.view import view_changes, view_difference
from app.pages.rendering import render
from app.snapshots.schemas import LeaderboardMethod
from app.snapshots.service import find_snapshot, list_snapshots

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse, route_class=PublicRoute)

_SIZE = 10
_LARGEST = 2**31 - 1


@router.get("/history")
def get_history(
    request: Request,
    _reader: PageReader,
    conn: ReadView,
    before: Annotated[int | None, Query(ge=1, le=_LARGEST)] = None,
) -> Response:
    """List the snapshots, the newest first, and what each changed, in words."""
    found = list_snapshots(conn, limit=_SIZE + 1, before=before)
    if not found and before is None:
        return render_nothing_published(request, conn, "History")
    changes = view_changes(found, list_moves(conn, found))
    return render(
        request,
        "history/page.html",
        changes=changes[:_SIZE],
        older=found[_SIZE - 1].number if len(found) > _SIZE else None,
        first_page=before is None,
    )


@router.get("/history/difference")
def get_difference(
    request: Request,
    _reader: PageReader,
    conn: ReadView,
    before: str,
    after: str,
    method: LeaderboardMethod = "am-elo",
) -> Response:
    """Show what moved between two snapshots, and what had changed between their refits."""
    old, new = sorted((find_snapshot(conn, before), find_snapshot(conn, after)), key=lambda one: one.number)
    difference = compare_snapshots(conn, str(old.id), str(new.id), method=method)
    return render(request, "history/difference.html", method=method, **view_difference(difference))
