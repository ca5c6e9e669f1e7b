"""API keys: make one, replace it, revoke it. A key is shown once, on the answer to the form that made it."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Form, Response
from pydantic import BaseModel, BeforeValidator
from sqlalchemy import Connection

from app.api.dependencies import ReadView, Transaction
from app.auth.callers import SCOPES
from app.auth.keys import create_key, list_keys, revoke_key, rotate_key
from app.auth.schemas import Key
from app.errors import BadInputError
from app.pages.console.rendering import Admin, Console, console_router

router = console_router("keys")


LIFETIMES: dict[str, tuple[str, int | None]] = {
    "month": ("30 days", 30),
    "quarter": ("90 days", 90),
    "year": ("a year", 365),
    "never": ("no end", None),
}
"""How long a new key may work: the words, and the days."""

OVERLAPS: dict[str, tuple[str, timedelta]] = {
    "none": ("at once", timedelta(0)),
    "hour": ("in an hour", timedelta(hours=1)),
    "day": ("in a day", timedelta(days=1)),
    "week": ("in a week", timedelta(days=7)),
}
"""When a key that was replaced ends: the words, and the time."""


class KeyForm(BaseModel):
    """What the form says of the key to make."""

    name: str = ""
    scopes: list[str] = []
    lifetime: Literal["month", "quarter", "year", "never"] = "year"
    requests_per_minute: Annotated[int | None, BeforeValidator(lambda value: value or None)] = None


def state_of_key(key: Key, now: datetime) -> Literal["works", "replaced", "expired", "revoked"]:
    """Return the key's state in a word; one that is replaced works until it ends."""
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is not None and key.expires_at <= now:
        return "expired"
    return "replaced" if key.replaced_by is not None else "works"


@router.get("")
def get_keys(console: Admin, conn: ReadView) -> Response:
    """List keys, and show the form that makes one."""
    return _show(console, conn)


@router.post("")
def post_key(console: Admin, conn: Transaction, form: Annotated[KeyForm, Form()]) -> Response:
    """Make a key and show it this once."""
    days = LIFETIMES[form.lifetime][1]
    try:
        made, secret = create_key(
            conn,
            form.name.strip(),
            form.scopes,
            expires_at=None if days is None else datetime.now(UTC) + timedelta(days=days),
            requests_per_minute=form.requests_per_minute,
            actor=console.actor,
        )
    except BadInputError as error:
        return _show(console, conn, form=form, problem=error, status=422)
    return _show(console, conn, made=made, secret=secret)


@router.post("/{key_id}/rotate")
def post_rotate(key_id: UUID, console: Admin, conn: Transaction, overlap: Annotated[str, Form()] = "hour") -> Response:
    """Replace a key by a new one and show it this once."""
    lasts = OVERLAPS.get(overlap, OVERLAPS["hour"])[1]
    made, secret = rotate_key(conn, str(key_id), overlap=lasts, actor=console.actor)
    return _show(console, conn, made=made, secret=secret)


@router.post("/{key_id}/revoke")
def post_revoke(key_id: UUID, console: Admin, conn: Transaction) -> Response:
    """Revoke a key, with its tokens and sessions."""
    key = revoke_key(conn, str(key_id), actor=console.actor)
    return console.go("/console/keys", f"The key {key.prefix} of {key.name} is revoked.")


def _show(console: Console, conn: Connection, *, status: int = 200, **shown: Any) -> Response:
    now = datetime.now(UTC)
    keys = [(key, state_of_key(key, now)) for key in list_keys(conn)]
    usual = {"form": KeyForm(), "problem": None, "made": None, "secret": None}
    return console.page(
        "keys/page.html",
        status=status,
        keys=sorted(keys, key=lambda shown: not shown[0].works_at(now)),
        scopes=SCOPES,
        lifetimes=LIFETIMES,
        overlaps=OVERLAPS,
        **(usual | shown),
    )
