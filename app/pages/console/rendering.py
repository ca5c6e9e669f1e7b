"""Pages of the console: who may open one, its links, and the notice after a form. CONTRIBUTING.md makes a new one."""

import base64
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup

from app.api.sessions import CSRF_FIELD, signed_in
from app.auth.callers import Caller, Scope
from app.auth.sessions.csrf import is_token_of, make_token
from app.auth.sessions.schemas import SignedIn
from app.pages.rendering import render

SECTIONS: tuple[tuple[str, str, Scope], ...] = (
    ("/console/reviews", "Review", "review:read"),
    ("/console/appeals", "Appeals", "review:read"),
    ("/console/annotators", "Annotators", "review:read"),
    ("/console/abilities", "Abilities", "review:read"),
    ("/console/judges", "Judges", "review:read"),
    ("/console/retractions", "Retractions", "review:read"),
    ("/console/merges", "Merges", "admin"),
    ("/console/policy", "Policy", "admin"),
    ("/console/refits", "Refits", "review:read"),
    ("/console/imports", "Imports", "ingest"),
    ("/console/answers", "Answers", "admin"),
    ("/console/invitations", "Invitations", "admin"),
    ("/console/keys", "Keys", "admin"),
    ("/console/webhooks", "Webhooks", "admin"),
    ("/console/audit", "Audit", "review:read"),
    ("/console/health", "Health", "review:read"),
)
"""The links of the console, each with the scope that its page needs. A visitor sees those that the key allows."""

Tone = Literal["", "accent", "good", "warn", "bad"]
"""How a state or a notice looks."""

_COOKIE = "stable-arena-notice"
_COOKIE_SECONDS = 60
_MOST_CHARACTERS = 400  # a cookie holds 4 kB
_FIELD = Markup('<input type="hidden" name="{}" value="{}">')
_SEE_OTHER = 303


Flash = dict[str, str | None]
"""A notice on the page after a form, shown once: its `text`, its `kind`, and where a form goes that takes it back, or
None, as `undo`."""


@dataclass(frozen=True)
class Console:
    """A request to the console by a visitor who is signed in and has the scope: what its endpoints answer with."""

    request: Request
    visitor: SignedIn

    @property
    def actor(self) -> str:
        """The visitor's name, as the audit log has it."""
        return self.visitor.caller.name

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """Return a page of the console, or a part of one.

        Beside `values` the template has `visitor`; `csrf_field`, which every form of method post must hold;
        `csrf_token` for the header that htmx sends; `sections`, the links at the top; and `flash`, the notice of the
        form before.
        """
        partial = "hx-request" in self.request.headers
        flash = None if partial else _read_flash(self.request.cookies.get(_COOKIE), self.visitor.secret)
        token = make_token(self.visitor.secret)
        response = render(
            self.request,
            f"console/{template}",
            status=status,
            headers={"Cache-Control": "no-store", "Vary": "Cookie, HX-Request"},
            visitor=self.visitor,
            sections=_sections_of(self.visitor.caller),
            csrf_token=token,
            csrf_field=_FIELD.format(CSRF_FIELD, token),
            flash=flash,
            **values,
        )
        if flash is not None:
            response.delete_cookie(_COOKIE, path="/console")
        return response

    def go(self, address: str, text: str, kind: Tone = "good", undo: str | None = None) -> Response:
        """Send the browser on to another page after a form, which shows a notice once."""
        response, secure = redirect(address), self.visitor.over_tls
        notice = _write_flash({"text": text[:_MOST_CHARACTERS], "kind": kind, "undo": undo}, self.visitor.secret)
        response.set_cookie(
            _COOKIE, notice, _COOKIE_SECONDS, path="/console", secure=secure, httponly=True, samesite="lax"
        )
        return response


def opened(scope: Scope | None = None) -> Any:
    """Return a dependency that opens the console for a visitor who has the scope, if one is named; see `signed_in`."""

    async def make_console(request: Request, visitor: Annotated[SignedIn, signed_in(scope)]) -> Console:
        return Console(request, visitor)

    return Depends(make_console)


Anyone = Annotated[Console, opened()]
Reader = Annotated[Console, opened("review:read")]
Reviewer = Annotated[Console, opened("review")]
Sender = Annotated[Console, opened("ingest")]
Admin = Annotated[Console, opened("admin")]


def console_router(name: str) -> APIRouter:
    """Return a router of the pages below `/console/{name}`. The API's description does not have them."""
    return APIRouter(prefix=f"/console/{name}", include_in_schema=False, default_response_class=HTMLResponse)


def redirect(address: str) -> Response:
    """Send the browser on to another page after a form."""
    return RedirectResponse(address, _SEE_OTHER)


def first_page(caller: Caller) -> str:
    """Return the address at which the caller begins."""
    return next((address for address, _ in _sections_of(caller)), "/")


def _sections_of(caller: Caller) -> list[tuple[str, str]]:
    """Return the address and the name of each page that the caller may see."""
    return [(address, name) for address, name, scope in SECTIONS if caller.may(scope)]


def _write_flash(flash: Flash, session_secret: str) -> str:
    """Return the notice as the value of a cookie, which only this session can read."""
    text = base64.urlsafe_b64encode(json.dumps(flash).encode()).decode().rstrip("=")
    return f"{text}.{make_token(session_secret, about=text)}"


def _read_flash(value: str | None, session_secret: str) -> Flash | None:
    """Return the notice in a cookie's value, None where there is none or another session wrote it."""
    text, _, token = (value or "").partition(".")
    if not text or not is_token_of(session_secret, token, about=text):
        return None
    flash: Flash = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return flash
