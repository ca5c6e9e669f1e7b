"""API keys: make one, replace it, revoke it. A key is shown once, on the answer to the form that made it."""

from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse

from app.api.dependencies import ReadView, Transaction
from app.api.sessions import signed_in
from app.auth.callers import SCOPES
from app.auth.keys import create_key, list_keys, revoke_key, rotate_key
from app.auth.schemas import Key
from app.auth.sessions.schemas import SignedIn
from app.errors import BadInputError
from app.pages.console.flash import Flash
from app.pages.console.keys.view import LIFETIMES, OVERLAPS, KeyForm, show_key
from app.pages.console.rendering import redirect, render_console

router = APIRouter(prefix="/console/keys", include_in_schema=False, default_response_class=HTMLResponse)

Admin = Annotated[SignedIn, signed_in("admin")]


@router.get("")
def get_keys(request: Request, visitor: Admin, conn: ReadView) -> Response:
    """List keys, and show the form that makes one."""
    return _show(request, visitor, list_keys(conn))


@router.post("")
def post_key(request: Request, visitor: Admin, conn: Transaction, form: Annotated[KeyForm, Form()]) -> Response:
    """Make a key and show it this once."""
    days = LIFETIMES[form.lifetime][1]
    try:
        made, secret = create_key(
            conn,
            form.name.strip(),
            form.scopes,
            expires_at=None if days is None else datetime.now(UTC) + timedelta(days=days),
            requests_per_minute=form.requests_per_minute,
            actor=visitor.caller.name,
        )
    except BadInputError as error:
        return _show(request, visitor, list_keys(conn), form=form, problem=error, status=422)
    return _show(request, visitor, list_keys(conn), made=made, secret=secret)


@router.post("/{key_id}/rotate")
def post_rotate(
    key_id: UUID, request: Request, visitor: Admin, conn: Transaction, overlap: Annotated[str, Form()] = "hour"
) -> Response:
    """Replace a key by a new one and show it this once."""
    lasts = OVERLAPS.get(overlap, OVERLAPS["hour"])[1]
    made, secret = rotate_key(conn, str(key_id), overlap=lasts, actor=visitor.caller.name)
    return _show(request, visitor, list_keys(conn), made=made, secret=secret)


@router.post("/{key_id}/revoke")
def post_revoke(key_id: UUID, visitor: Admin, conn: Transaction) -> Response:
    """Revoke a key, with its tokens and sessions."""
    key = revoke_key(conn, str(key_id), actor=visitor.caller.name)
    return redirect("/console/keys", visitor, Flash(f"The key {key.prefix} of {key.name} is revoked."))


def _show(
    request: Request,
    visitor: SignedIn,
    keys: list[Key],
    *,
    form: KeyForm | None = None,
    problem: BadInputError | None = None,
    made: Key | None = None,
    secret: str | None = None,
    status: int = 200,
) -> Response:
    now = datetime.now(UTC)
    return render_console(
        request,
        visitor,
        "console/keys/page.html",
        status=status,
        keys=sorted((show_key(key, now) for key in keys), key=lambda shown: not shown.works),
        scopes=SCOPES,
        lifetimes=LIFETIMES,
        overlaps=OVERLAPS,
        form=form or KeyForm(),
        problem=problem,
        made=made,
        secret=secret,
    )
