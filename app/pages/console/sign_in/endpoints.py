"""Signing in to the console, with an API key or a one-time link, and out of it."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from app.api.dependencies import ReadView, Transaction
from app.api.sessions import (
    ATTEMPT,
    Visitor,
    check_origin,
    count_sign_in,
    drop_cookie,
    lifetimes_of,
    read_attempt_cookie,
    require_private_connection,
    set_attempt_cookie,
    set_session_cookie,
    signed_in,
)
from app.auth.oidc.provider import Attempt, OpenIdProvider
from app.auth.sessions.schemas import SignedIn
from app.auth.sessions.service import SIGN_IN_PATH, end_session, find_link, sign_in, sign_in_by_link, sign_in_person
from app.database.engine import Database
from app.errors import NotAuthenticatedError, NotFoundError, ScopeMissingError
from app.pages.console.rendering import first_page, redirect
from app.pages.rendering import render
from app.state import state_of

router = APIRouter(prefix="/console", include_in_schema=False, default_response_class=HTMLResponse)

_NOT_STORED = {"Cache-Control": "no-store", "Vary": "Cookie"}


@router.get("")
def get_console(visitor: Annotated[SignedIn, signed_in()], conn: ReadView) -> Response:
    """Send the visitor to the first page of the console."""
    return redirect(first_page(conn, visitor.caller))


@router.get("/sign-in")
def get_sign_in(
    request: Request,
    visitor: Visitor,
    conn: ReadView,
    after: str = "",
    ticket: str = "",
    signed_out: bool = False,
) -> Response:
    """Show the form that takes an API key, or the question whether to use a one-time link.

    The link is used by the form, not by this page: programs that preview links would use it up.
    """
    require_private_connection(request)
    if not ticket and visitor is not None:
        return redirect(_safe(after) or first_page(conn, visitor.caller))
    if not ticket:
        return _show_form(request, 200, _safe(after), signed_out=signed_out)
    try:
        return _show_form(request, 200, _safe(after), ticket=ticket, key_name=find_link(conn, ticket).name)
    except NotAuthenticatedError as error:
        return _show_form(request, 401, _safe(after), reason=error.detail)


@router.post("/sign-in", dependencies=[count_sign_in])
def post_sign_in(
    request: Request,
    conn: Transaction,
    key: Annotated[str, Form(max_length=200)] = "",
    ticket: Annotated[str, Form(max_length=200)] = "",
    after: Annotated[str, Form(max_length=2000)] = "",
) -> Response:
    """Open a session and go on to the page that was asked for."""
    check_origin(request)
    require_private_connection(request)
    browser = request.headers.get("user-agent", "")
    if not key.strip() and not ticket:
        return _show_form(request, 422, _safe(after), reason="paste an API key")
    try:
        if ticket:
            visitor = sign_in_by_link(conn, ticket, lifetimes_of(request), browser=browser)
        else:
            visitor = sign_in(conn, key.strip(), lifetimes_of(request), browser=browser)
    except (NotAuthenticatedError, ScopeMissingError) as error:
        status = 403 if isinstance(error, ScopeMissingError) else 401
        return _show_form(request, status, _safe(after), reason=error.detail)
    response = redirect(_safe(after) or first_page(conn, visitor.caller))
    set_session_cookie(request, response, visitor.secret)
    return response


@router.get("/sign-in/provider", dependencies=[count_sign_in])  # it asks the provider
def get_provider(request: Request, after: str = "") -> Response:
    """Send the browser to the OpenID Connect provider."""
    require_private_connection(request)
    attempt = Attempt.new()
    response = RedirectResponse(_provider(request).address(attempt, _redirect_uri(request)), 303)
    response.headers["Cache-Control"] = "no-store"
    set_attempt_cookie(request, response, {**asdict(attempt), "after": _safe(after)})
    return response


# A plain function without a transaction: it waits for the provider.
@router.get("/sign-in/provider/answer", dependencies=[count_sign_in])
def get_provider_answer(request: Request) -> Response:
    """Take the provider's answer and open a session."""
    provider, kept = _provider(request), read_attempt_cookie(request)
    after = _safe(kept.pop("after", ""))
    try:
        attempt = Attempt.from_dict(kept)
        person = provider.finish(attempt, _redirect_uri(request), dict(request.query_params))
    except (NotAuthenticatedError, ScopeMissingError) as error:
        status = 403 if isinstance(error, ScopeMissingError) else 401
        return _show_form(request, status, after, reason=error.detail)
    browser = request.headers.get("user-agent", "")
    with state_of(request.scope)[Database].begin() as conn:
        visitor = sign_in_person(conn, person, lifetimes_of(request), browser=browser)
        response = redirect(after or first_page(conn, visitor.caller))
    set_session_cookie(request, response, visitor.secret)
    drop_cookie(request, response, ATTEMPT)
    return response


@router.post("/sign-out")
def post_sign_out(request: Request, visitor: Annotated[SignedIn, signed_in()], conn: Transaction) -> Response:
    """End the session."""
    end_session(conn, visitor.session_id, visitor.caller)
    response = redirect(f"{SIGN_IN_PATH}?signed_out=true")
    drop_cookie(request, response)
    return response


def _show_form(request: Request, status: int, after: str, **shown: Any) -> Response:
    provider = state_of(request.scope).find(OpenIdProvider) is not None
    values = {"reason": None, "ticket": "", "key_name": None, "signed_out": False, "after": after, **shown}
    page = "console/sign_in/page.html"
    return render(request, page, headers=_NOT_STORED, status=status, provider=provider, **values)


def _provider(request: Request) -> OpenIdProvider:
    provider = state_of(request.scope).find(OpenIdProvider)
    if provider is None:
        raise NotFoundError("no sign-in provider is set up here")
    return provider


def _redirect_uri(request: Request) -> str:
    return f"{request.scope['scheme']}://{request.headers.get('host', '')}/console/sign-in/provider/answer"


def _safe(address: str) -> str:
    """Return where to go after signing in: a page of this service, or nothing for what may be another host."""
    plain = address.isascii() and address.isprintable() and "\\" not in address
    return address if plain and address.startswith("/") and not address.startswith("//") else ""
