"""Pages of the console. CONTRIBUTING.md shows how a new one is made."""

from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.api.sessions import CSRF_FIELD
from app.auth.sessions.csrf import make_token
from app.auth.sessions.schemas import SignedIn
from app.pages.console.flash import COOKIE, SECONDS, Flash, read_flash, write_flash
from app.pages.console.navigation import sections_of
from app.pages.rendering import render

_FIELD = Markup('<input type="hidden" name="{}" value="{}">')
_SEE_OTHER = 303


def render_console(request: Request, visitor: SignedIn, template: str, *, status: int = 200, **values: Any) -> Response:
    """Return a page of the console, or a part of one, for a visitor who is signed in.

    Beside `values` the template has `visitor`; `csrf_field`, which every form of method post must hold; `csrf_token`
    for the header that htmx sends; `sections`, the links at the top; and `flash`, the notice of the form before.
    """
    partial = "hx-request" in request.headers
    flash = None if partial else read_flash(request.cookies.get(COOKIE), visitor.secret)
    token = make_token(visitor.secret)
    response = render(
        request,
        template,
        status=status,
        headers={"Cache-Control": "no-store", "Vary": "Cookie, HX-Request"},
        visitor=visitor,
        sections=sections_of(visitor.caller),
        csrf_token=token,
        csrf_field=_FIELD.format(CSRF_FIELD, token),
        flash=flash,
        **values,
    )
    if flash is not None:
        response.delete_cookie(COOKIE, path="/console")
    return response


def redirect(address: str, visitor: SignedIn | None = None, flash: Flash | None = None) -> Response:
    """Send the browser on to another page after a form, which shows the notice once."""
    response = RedirectResponse(address, _SEE_OTHER)
    if flash is not None and visitor is not None:
        value = write_flash(flash, visitor.secret)
        response.set_cookie(
            COOKIE, value, max_age=SECONDS, path="/console", secure=visitor.over_tls, httponly=True, samesite="lax"
        )
    return response
