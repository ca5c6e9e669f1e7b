"""The leaderboard that people look at, and its bare form for other people's pages."""

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from markupsafe import Markup
from sqlalchemy import Connection

from app.api.blanks import Blank, leave_blank
from app.api.dependencies import HeldSettings, ReadView, held, place_of
from app.api.public_route import PublicRoute
from app.api.sessions import PageReader
from app.leaderboard.newest import NewestState
from app.leaderboard.service import LeaderboardVersion, SnapshotState
from app.pages.board.boards import ABOUT, Board, Boards
from app.pages.board.selection import Order, Selection, Sort
from app.pages.rendering import render, render_nothing_published, templates
from app.pages.security import ContentPolicy
from app.snapshots.events import RECONNECT_MILLISECONDS, SnapshotEvents
from app.snapshots.schemas import LeaderboardMethod
from app.snapshots.service import NoSnapshotError

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse, route_class=PublicRoute)

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
Newest = Annotated[NewestState, held(NewestState)]
Shown = Annotated[Boards, held(Boards)]


@router.get("/")
def get_board(
    request: Request, _reader: PageReader, conn: ReadView, newest_state: Newest, boards: Shown, selection: Chosen
) -> Response:
    """Show the leaderboard, or what to do before there is one."""
    try:
        state, board = _find(conn, newest_state, boards, selection)
    except NoSnapshotError:
        return render_nothing_published(request, conn, "Leaderboard")
    newest = state if selection.snapshot is None else newest_state.find(conn)
    return render(
        request,
        "board/page.html",
        board=board,
        selection=selection,
        rows=selection.choose(board.rows),
        about=ABOUT,
        freshness=Markup(leave_blank(request.scope, _freshness(state, newest))),  # noqa: S704  our own text
    )


def _freshness(state: SnapshotState, newest: SnapshotState) -> Blank:
    """Say how fresh a leaderboard is, to every reader anew."""
    between = state.freshness.votes_not_in_board - newest.freshness.votes_not_in_board
    template, is_newest = templates.get_template("board/freshness.html"), state is newest

    def fill(now: SnapshotState) -> bytes:
        fresh = now.freshness_of(state, between)
        return template.render(snapshot=state.snapshot, fresh=fresh, is_newest=is_newest).encode()

    return Blank(fill)


@router.get("/embed")
def get_embedded_board(
    request: Request,
    _reader: PageReader,
    conn: ReadView,
    newest_state: Newest,
    boards: Shown,
    settings: HeldSettings,
    theme: Literal["light", "dark"] | None = None,
    method: LeaderboardMethod = "am-elo",
    tag: str = "",
    limit: Annotated[int, Query(ge=1, le=_MOST_EMBEDDED)] = 20,
) -> Response:
    """Show the best models alone, for a frame on another page."""
    selection = Selection(method, tag or None)
    ancestors = " ".join(settings.pages.embed_ancestors) or "'none'"
    policy = ContentPolicy(form_action="'none'", frame_ancestors=ancestors)
    try:
        board = _find(conn, newest_state, boards, selection)[1]
    except NoSnapshotError:
        board = None
    rows = board.rows[:limit] if board else ()
    return render(request, "board/embed.html", policy=policy, board=board, selection=selection, rows=rows, theme=theme)


@router.get("/events", response_class=EventSourceResponse)
async def stream_events(
    _reader: PageReader,
    events: Annotated[SnapshotEvents, held(SnapshotEvents)],
    _place: Annotated[None, place_of(SnapshotEvents)],
) -> AsyncIterator[ServerSentEvent]:
    """Send the number of the newest snapshot, now and whenever there is a new one."""
    yield ServerSentEvent(comment="snapshots of this arena", retry=RECONNECT_MILLISECONDS)
    async for number in events.numbers():
        yield ServerSentEvent(event="snapshot", data=number)


def _find(
    conn: Connection, newest_state: NewestState, boards: Boards, selection: Selection
) -> tuple[SnapshotState, Board]:
    """Return the chosen snapshot's state and leaderboard.

    Raises
    ------
    NoSnapshotError, NotFoundError, NoSuchLeaderboardError
    """
    state = newest_state.find(conn, selection.snapshot)
    return state, boards.find(conn, LeaderboardVersion(state, selection.method, selection.tag))
