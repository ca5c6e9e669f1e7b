"""How pages write numbers, times and addresses. Each function is a filter of the templates by its name."""

import re
from datetime import UTC, datetime
from urllib.parse import quote

from markupsafe import Markup, escape

from app.monitoring.wording import MINUS, count, duration, listed, percent, plural
from app.snapshots.schemas import LeaderboardMethod

METHODS: dict[LeaderboardMethod, str] = {
    "am-elo": "am-ELO",
    "m-elo": "m-ELO",
    "m-elo-all": "m-ELO of all votes",
    "elo": "Elo",
}
"""What people call the methods, in the order in which pages list them."""

_POWER = re.compile(r"\b10\^(\d+)")


def points(value: float | None, digits: int = 0) -> str:
    """Write Elo points: 1,043; a dash where there are none."""
    return "–" if value is None else f"{value:,.{digits}f}".replace("-", MINUS)


def tick(value: float) -> str:
    """Write a number at an axis, with as many digits as it needs: 1,050, 0.25."""
    return f"{value:,.10g}".replace("-", MINUS)


def method_name(method: LeaderboardMethod) -> str:
    """Write a method's name: am-ELO."""
    return METHODS[method]


def change(value: float, digits: int = 0) -> str:
    """Write a difference with its sign: +12, −3."""
    rounded = round(value, digits) + 0.0  # never −0
    return f"{rounded:+,.{digits}f}".replace("-", MINUS)


def moment(value: datetime) -> str:
    """Write a time for people: 22 Nov 2026, 10:41 UTC."""
    shown = value.astimezone(UTC)
    return f"{shown.day} {shown:%b %Y, %H:%M} UTC"


def powers(text: str) -> Markup:
    """Write a sentence with powers of ten, such as 10^27, as people write them, and keep % with its number."""
    return Markup(_POWER.sub(r"10<sup>\1</sup>", str(escape(text)).replace(" %", "\N{NO-BREAK SPACE}%")))  # noqa: S704  escaped above


def sentence(text: str) -> str:
    """Write a problem's detail as a sentence: a capital where it begins with a word, and a full stop."""
    word = text.partition(" ")[0]
    return (text[:1].upper() + text[1:] if word.isalpha() else text) + ("" if text.endswith((".", "?", "!")) else ".")


def model_address(name: str) -> str:
    """Return the address of a model's page.

    Browsers take `.` and `..` between slashes as steps through folders, so such a name stands in the query.
    """
    if {".", ".."} & set(name.split("/")):
        return f"/models/?name={quote(name, safe='')}"
    return f"/models/{quote(name)}"


FILTERS = (
    count,
    points,
    tick,
    change,
    percent,
    plural,
    moment,
    duration,
    listed,
    method_name,
    powers,
    sentence,
    model_address,
)
