"""The page where people vote on the answers that lie here: by the link of an invitation, or through the open door."""

from typing import Annotated
from uuid import uuid4

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from app.api.dependencies import ReadView, held
from app.api.sessions import check_origin, cookie_name, drop_cookie, keep_cookie
from app.errors import NotAuthenticatedError
from app.guard.admission import Admission
from app.guard.limits import RateLimits
from app.guard.strangers import count_stranger
from app.invitations.queries import find_open_door
from app.invitations.service import PAGE
from app.invitations.voters import VoterTokens, find_voter
from app.pages.rendering import render
from app.state import state_of

router = APIRouter(prefix=PAGE, include_in_schema=False, default_response_class=HTMLResponse)

_SEE_OTHER = 303
_VOTER = "-voter"  # of the cookie
_COOKIE_SECONDS = 180 * 24 * 3600
HeldTokens = Annotated[VoterTokens, held(VoterTokens)]


async def _count_visitor(request: Request) -> None:
    state_of(request.scope)[RateLimits].count_visitor(request.scope)


@router.get("", dependencies=[Depends(Admission(count_stranger))])
def get_vote(request: Request, conn: ReadView, tokens: HeldTokens) -> Response:
    """Show the next battle. A link's token is behind the # of its address, which browsers keep for themselves."""
    token = request.cookies.get(cookie_name(request, _VOTER))
    if token is not None:
        try:
            find_voter(conn, tokens.verify(token))
        except NotAuthenticatedError:
            token = None
    door = find_open_door(conn)
    headers = {"Cache-Control": "no-store", "Vary": "Cookie"}
    return render(request, "vote/page.html", headers=headers, token=token, door_is_open=door is not None)


@router.post("", dependencies=[Depends(Admission(_count_visitor))])
def post_vote(request: Request, conn: ReadView, tokens: HeldTokens) -> Response:
    """Let a visitor in who agrees to the cookie."""
    check_origin(request)
    response = RedirectResponse(PAGE, _SEE_OTHER)
    if find_open_door(conn) is not None:
        keep_cookie(request, response, _VOTER, tokens.issue(uuid4()), _COOKIE_SECONDS)
    return response


@router.post("/forget", dependencies=[Depends(Admission(_count_visitor))])
def post_forget(request: Request) -> Response:
    """Make the browser forget the visitor. The votes stay."""
    check_origin(request)
    response = RedirectResponse(PAGE, _SEE_OTHER)
    drop_cookie(request, response, _VOTER)
    return response
