"""How pages write numbers, times and addresses. Each function is a filter of the templates by its name."""

from datetime import UTC, date, datetime
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
    "people+judges": "people, sharpened by judges",
    "style": "style control",
    "weighted": "weighted mean",
}
"""What people call the methods, in the order in which pages list them."""

SHOWN_METHODS = [method for method in METHODS if method not in ("m-elo-all", "elo")]
"""Those that pages offer; the API and the addresses of pages have the others too."""

_LANGUAGES = {
    "ar": "Arabic", "cs": "Czech", "de": "German", "en": "English", "es": "Spanish", "fa": "Persian", "fr": "French",
    "he": "Hebrew", "hi": "Hindi", "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean",
    "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ru": "Russian", "sv": "Swedish", "th": "Thai", "tr": "Turkish",
    "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


def tick(value: float) -> str:
    """Write a number at an axis, with as many digits as it needs: 1,050, 0.25."""
    return f"{value:,.10g}".replace("-", MINUS)


def dimension_name(tag: str) -> str:
    """Write what a tag is a category of: Language for `language=fr`; empty for a tag of no dimension."""
    return _say(tag.rpartition("=")[0])


def tag_name(tag: str) -> str:
    """Write a tag as people say it: Creative writing for `category=creative_writing`, French for `language=fr`."""
    dimension, _, value = tag.rpartition("=")
    if not dimension:
        return tag
    code, _, region = value.partition("-")
    if "lang" in dimension.casefold() and (language := _LANGUAGES.get(code.casefold())):
        return f"{language} ({region})" if region else language
    return _say(value)


def _say(name: str) -> str:
    words = name.replace("_", " ").replace("-", " ")
    return words[:1].upper() + words[1:]


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


def day(value: date) -> str:
    """Write a day: 22 Nov 2026."""
    return f"{value.day} {value:%b %Y}"


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
    day,
    duration,
    listed,
    method_name,
    dimension_name,
    tag_name,
    ordinal,
    sentence,
    unbroken,
    model_address,
)
