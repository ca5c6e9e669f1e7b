"""What the page after a form says about it: one notice, carried by a cookie and shown once."""

import base64
import json
from dataclasses import asdict, dataclass
from typing import Literal

from app.auth.sessions.csrf import is_token_of, make_token

COOKIE = "stable-arena-notice"
SECONDS = 60
_MOST = 400  # characters: a cookie holds 4 kB


@dataclass(frozen=True)
class Flash:
    """A notice on the next page.

    Attributes
    ----------
    text : one or two sentences
    kind : how it looks
    undo : where a form that takes it back is sent; None where nothing can be taken back
    """

    text: str
    kind: Literal["good", "warn", "bad"] = "good"
    undo: str | None = None


def write_flash(flash: Flash, session_secret: str) -> str:
    """Return the notice as the value of a cookie, which only this session can read."""
    text = (
        base64.urlsafe_b64encode(json.dumps({**asdict(flash), "text": flash.text[:_MOST]}).encode())
        .decode()
        .rstrip("=")
    )
    return f"{text}.{make_token(session_secret, about=text)}"


def read_flash(value: str | None, session_secret: str) -> Flash | None:
    """Return the notice in a cookie's value, None where there is none or another session wrote it."""
    text, _, token = (value or "").partition(".")
    if not text or not is_token_of(session_secret, token, about=text):
        return None
    return Flash(**json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))))
