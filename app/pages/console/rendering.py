"""Pages of the console: who may open one, its links, and the notice after a form. CONTRIBUTING.md makes a new one."""

import base64
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup
from sqlalchemy import Connection, true

from app.api.sessions import CSRF_FIELD, signed_in
from app.auth.callers import Caller, Scope
from app.auth.sessions.csrf import is_token_of, make_token
from app.auth.sessions.schemas import SignedIn
from app.pages.rendering import render
from app.votes.queries import any_vote

START_PATH = "/console/start"


class Section(NamedTuple):
    """A page of the console: its address and name, the scope that it needs, and its guide in the documentation."""

    address: str
    name: str
    scope: Scope
    guide: str


_VOTING, _REVIEWING = "tutorials/vote-on-your-answers.html", "tutorials/review-annotators.html"
GROUPS: dict[str, tuple[Section, ...]] = {
    "Annotators": (
        Section("/console/reviews", "Review", "review:read", _REVIEWING),
        Section("/console/appeals", "Appeals", "review:read", _REVIEWING),
        Section("/console/annotators", "Annotators", "review:read", "evidence.html"),
        Section("/console/abilities", "Abilities", "review:read", "evidence.html"),
        Section("/console/judges", "Judges", "review:read", "tutorials/trust-a-judge.html"),
    ),
    "Votes": (
        Section("/console/imports", "Imports", "ingest", "vote-files.html"),
        Section("/console/answers", "Answers", "admin", _VOTING),
        Section("/console/invitations", "Invitations", "admin", _VOTING),
        Section("/console/retractions", "Retractions", "review:read", "how-to.html"),
    ),
    "Leaderboard": (
        Section("/console/refits", "Refits", "review:read", "loop.html"),
        Section("/console/models", "Models", "review:read", "how-to.html"),
        Section("/console/merges", "Merges", "admin", "how-to.html"),
        Section("/console/policy", "Policy", "admin", "reference.html"),
    ),
    "Service": (
        Section("/console/health", "Health", "review:read", "operations.html"),
        Section("/console/audit", "Audit", "review:read", "operations.html"),
        Section("/console/keys", "Keys", "admin", "tutorials/connect-your-arena.html"),
        Section("/console/webhooks", "Webhooks", "admin", "reference.html"),
    ),
}
"""The links of the console. A visitor sees those that the key allows."""

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
        `csrf_token` for the header that htmx sends; and `flash`, the notice of the form before. `sections` are the
        links by group; `here` is that of this page, `section_group` its group, or None.
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
            **self._place(),
            csrf_token=token,
            csrf_field=_FIELD.format(CSRF_FIELD, token),
            flash=flash,
            **values,
        )
        if flash is not None:
            response.delete_cookie(_COOKIE, path="/console")
        return response

    def _place(self) -> dict[str, Any]:
        groups, path = _groups_of(self.visitor.caller), self.request.url.path
        found = [(name, one) for name, pages in groups.items() for one in pages if path.startswith(one.address)]
        group, here = found[0] if found else (None, None)
        has_guides = self.request.app.state.settings.pages.docs_dir is not None
        return {"sections": groups, "section_group": group, "here": here, "has_guides": has_guides}

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


def first_page(conn: Connection, caller: Caller) -> str:
    """Return the address at which the caller begins: an admin without a vote on record at the start."""
    if caller.may("admin") and not any_vote(conn, true()):
        return START_PATH
    return next((pages[0].address for pages in _groups_of(caller).values()), "/")


def _groups_of(caller: Caller) -> dict[str, list[Section]]:
    """Return the sections that the caller may see, by group."""
    seen = {name: [one for one in pages if caller.may(one.scope)] for name, pages in GROUPS.items()}
    return {name: pages for name, pages in seen.items() if pages}


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
