"""How pages write numbers, times and addresses. Each function is a filter of the templates by its name."""

from datetime import UTC, datetime
from urllib.parse import quote

from app.snapshots.schemas import LeaderboardMethod
from app.wording import MINUS, change, count, duration, listed, percent, plural, points

METHODS: dict[LeaderboardMethod, str] = {
    "am-elo": "am-ELO",
    "m-elo": "m-ELO",
    "m-elo-all": "m-ELO of all votes",
    "elo": "Elo",
    "people": "people",
    "judges": "judges",
    "all": "people and judges",
    "style": "style control",
    "weighted": "weighted categories",
}
"""What people call the methods, in the order in which pages list them."""


def tick(value: float) -> str:
    """Write a number at an axis, with as many digits as it needs: 1,050, 0.25."""
    return f"{value:,.10g}".replace("-", MINUS)


def method_name(method: LeaderboardMethod) -> str:
    """Write a method's name: am-ELO."""
    return METHODS[method]


def ordinal(value: int) -> str:
    """Write a place in an order: 1st, 2nd, 11th."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th") if value // 10 % 10 != 1 else "th"
    return f"{value:,}{ending}"


def moment(value: datetime) -> str:
    """Write a time for people: 22 Nov 2026, 10:41 UTC."""
    shown = value.astimezone(UTC)
    return f"{shown.day} {shown:%b %Y, %H:%M} UTC"


def unbroken(text: str) -> str:
    """Keep each % of a sentence on the line of its number."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


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
    ordinal,
    sentence,
    unbroken,
    model_address,
)
