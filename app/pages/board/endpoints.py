"""The leaderboard that people look at, and its bare form for other people's pages."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent

from app.http.dependencies import ProcessServices, database_turn
from app.http.listening import RECONNECT_MILLISECONDS, ListenerPlace
from app.http.sessions import PageReader
from app.leaderboard.service import LeaderboardVersion, SnapshotState
from app.pages.board.boards import Board
from app.pages.board.methods import ABOUT
from app.pages.board.rows import Row
from app.pages.board.selection import Order, Selection, Sort
from app.pages.empty import render_nothing_published
from app.pages.rendering import render
from app.pages.security import ContentPolicy
from app.services import Services
from app.snapshots.schemas import LeaderboardMethod
from app.snapshots.service import NoSnapshotError

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_MOST_EMBEDDED = 500


def _selection(
    method: LeaderboardMethod = "am-elo",
    tag: str = "",
    snapshot: str = "",
    q: Annotated[str, Query(max_length=200)] = "",
    sort: Sort = "rank",
    order: Order | None = None,
) -> Selection:
    return Selection(method, tag or None, snapshot or None, q, sort, order)


Chosen = Annotated[Selection, Depends(_selection)]


@router.get("/")
async def get_board(request: Request, _reader: PageReader, services: ProcessServices, selection: Chosen) -> Response:
    """Show the leaderboard, or what to do before there is one."""
    try:
        state, board = await _find(request, services, selection)
    except NoSnapshotError:
        return await asyncio.to_thread(_show_nothing, request, services)
    return await _show(request, "board/page.html", state, board, selection, selection.choose(board.rows))


@router.get("/embed")
async def get_embedded_board(
    request: Request,
    _reader: PageReader,
    services: ProcessServices,
    theme: Literal["light", "dark"] | None = None,
    method: LeaderboardMethod = "am-elo",
    tag: str = "",
    limit: Annotated[int, Query(ge=1, le=_MOST_EMBEDDED)] = 20,
) -> Response:
    """Show the best models alone, for a frame on another page."""
    selection = Selection(method, tag or None)
    ancestors = " ".join(services.settings.pages.embed_ancestors) or "'none'"
    policy = ContentPolicy(form_action="'none'", frame_ancestors=ancestors)
    try:
        state, board = await _find(request, services, selection)
    except NoSnapshotError:
        return await _show(request, "board/embed.html", None, None, selection, (), policy=policy, theme=theme)
    rows = board.rows[:limit]
    return await _show(request, "board/embed.html", state, board, selection, rows, policy=policy, theme=theme)


@router.get("/events", response_class=EventSourceResponse)
async def stream_events(
    _reader: PageReader, services: ProcessServices, _place: ListenerPlace
) -> AsyncIterator[ServerSentEvent]:
    """Send the number of the newest snapshot, now and whenever there is a new one."""
    yield ServerSentEvent(comment="snapshots of this arena", retry=RECONNECT_MILLISECONDS)
    async for number in services.snapshot_events.numbers():
        yield ServerSentEvent(event="snapshot", data=number)


async def _find(request: Request, services: Services, selection: Selection) -> tuple[SnapshotState, Board]:
    """Return the chosen snapshot's state and leaderboard.

    Raises
    ------
    NoSnapshotError, NotFoundError, NoSuchLeaderboardError, UnavailableError
    """
    if selection.snapshot is None:
        state = await services.leaderboards.newest()
    else:
        async with database_turn(request):
            state = await services.leaderboards.past(selection.snapshot, None)
    return state, await services.boards.find(LeaderboardVersion(state, selection.method, selection.tag))


async def _show(
    request: Request,
    template: str,
    state: SnapshotState | None,
    board: Board | None,
    selection: Selection,
    rows: Sequence[Row],
    **rest: Any,
) -> Response:
    """Render a leaderboard in a thread: a large one takes milliseconds."""
    values = {"state": state, "board": board, "selection": selection, "rows": rows, "about": ABOUT, **rest}
    return await asyncio.to_thread(partial(render, request, template, **values))


def _show_nothing(request: Request, services: Services) -> Response:
    with services.database.read() as conn:
        return render_nothing_published(request, conn, "Leaderboard")
