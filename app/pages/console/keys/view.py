"""Keys as their page shows them, and the form that makes one."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator

from app.auth.schemas import Key

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


@dataclass(frozen=True)
class ShownKey:
    """A key and its state in a word."""

    key: Key
    state: Literal["works", "replaced", "expired", "revoked"]

    @property
    def works(self) -> bool:
        """Whether a caller can use it now."""
        return self.state in ("works", "replaced")


def show_key(key: Key, now: datetime) -> ShownKey:
    """Return the key as its page shows it."""
    if key.revoked_at is not None:
        return ShownKey(key, "revoked")
    if key.expires_at is not None and key.expires_at <= now:
        return ShownKey(key, "expired")
    return ShownKey(key, "replaced" if key.replaced_by is not None else "works")
