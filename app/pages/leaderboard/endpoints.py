"""The leaderboard that people look at, and its bare form for other people's pages."""

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from sqlalchemy import Connection

from app.api.dependencies import HeldSettings, ReadView, held, place_of
from app.api.fragments import Fragment
from app.leaderboard.newest import Newest, NewestState, States
from app.leaderboard.service import SnapshotState
from app.pages.leaderboard.leaderboards import ShownLeaderboard, show_leaderboard
from app.pages.leaderboard.selection import Board, Selection
from app.pages.rendering import public_router, render, render_nothing_published, templates
from app.pages.security import ALWAYS, ContentPolicy
from app.snapshots.events import RECONNECT_MILLISECONDS, SnapshotEvents
from app.snapshots.schemas import AskedMethod
from app.snapshots.service import NoSnapshotError

router = public_router()

_MOST_EMBEDDED = 500
_ON_CARD = 5

Chosen = Annotated[Selection, Query()]


@router.get("/")
def get_leaderboard(
    request: Request, conn: ReadView, newest: Newest, states: States, settings: HeldSettings, selection: Chosen
) -> Response:
    """Show the leaderboard, or what to do before there is one."""
    try:
        state, shown = _find(conn, newest, states, selection)
    except NoSnapshotError:
        return render_nothing_published(request, conn, "Leaderboard")
    freshness = _freshness(state, newest or state)
    found = selection.choose(shown.rows, shown.group)
    return render(
        request,
        "leaderboard/page.html",
        leaderboard=shown,
        selection=selection,
        rows=found[: selection.rows],
        found=len(found),
        public_url=settings.pages.public_url,
        fragments=(freshness,),
        freshness=freshness.mark,
    )


def _freshness(state: SnapshotState, newest: SnapshotState) -> Fragment:
    """Say how fresh a leaderboard is, to every reader anew."""
    between = state.freshness.votes_not_in_board - newest.freshness.votes_not_in_board
    template, is_newest = templates.get_template("leaderboard/freshness.html"), state is newest

    def fill(now: SnapshotState) -> str:
        fresh = now.freshness_of(state, between)
        return template.render(snapshot=state.snapshot, fresh=fresh, is_newest=is_newest)

    return Fragment(fill)


@router.get("/embed")
def get_embedded(
    request: Request,
    conn: ReadView,
    newest: Newest,
    states: States,
    settings: HeldSettings,
    theme: Literal["light", "dark"] | None = None,
    method: AskedMethod = "am-elo",
    tag: str = "",
    group: str = "",
    snapshot: str = "",
    limit: Annotated[int, Query(ge=1, le=_MOST_EMBEDDED)] = 20,
) -> Response:
    """Show the best models alone, for a frame on another page."""
    selection = Selection(method=method, tag=tag, group=group, snapshot=snapshot)
    ancestors = " ".join(settings.pages.embed_ancestors) or "'none'"
    policy = ContentPolicy(form_action="'none'", frame_ancestors=ancestors)
    try:
        shown = _find(conn, newest, states, selection)[1]
    except NoSnapshotError:
        shown = None
    rows = selection.choose(shown.rows, shown.group)[:limit] if shown else ()
    return render(
        request, "leaderboard/embed.html", policy=policy, leaderboard=shown, selection=selection, rows=rows, theme=theme
    )


@router.get("/card.{form}", response_class=Response)
def get_card(
    conn: ReadView, newest: Newest, states: States, board: Annotated[Board, Query()], form: Literal["png", "svg"]
) -> Response:
    """Return a picture of the headline and the first five models, as previews of links show it."""
    shown = _find(conn, newest, states, board)[1]
    rows = [row for row in shown.rows if row.group == shown.group][:_ON_CARD]
    svg: str = templates.get_template("leaderboard/card.svg").render(leaderboard=shown, rows=rows)
    headers = {"Cache-Control": "no-cache", "Content-Security-Policy": "default-src 'none'", **ALWAYS}
    if form == "svg":
        return Response(svg, headers=headers, media_type="image/svg+xml")
    import vl_convert  # noqa: PLC0415  30 MB that a service without previews does not need

    return Response(vl_convert.svg_to_png(svg), headers=headers, media_type="image/png")


@router.get("/events", response_class=EventSourceResponse)
async def stream_events(
    events: Annotated[SnapshotEvents, held(SnapshotEvents)], _place: Annotated[None, place_of(SnapshotEvents)]
) -> AsyncIterator[ServerSentEvent]:
    """Send the number of the newest snapshot, now and whenever there is a new one."""
    yield ServerSentEvent(comment="snapshots of this arena", retry=RECONNECT_MILLISECONDS)
    async for number in events.numbers():
        yield ServerSentEvent(event="snapshot", data=number)


def _find(
    conn: Connection, newest: SnapshotState | None, states: NewestState, board: Board
) -> tuple[SnapshotState, ShownLeaderboard]:
    """Return the chosen snapshot's state and leaderboard.

    Raises NoSnapshotError, NotFoundError or NoSuchLeaderboardError.
    """
    state = states.choose(conn, newest, board.snapshot or None)
    return state, show_leaderboard(conn, state.snapshot, board)
