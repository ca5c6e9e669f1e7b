"""The links at the top of every page: a new page is one line here."""

from typing import NamedTuple


class Link(NamedTuple):
    """A link and its text."""

    address: str
    text: str


NAVIGATION = (
    Link("/", "Leaderboard"),
    Link("/matchups", "Matchups"),
    Link("/compare", "Compare"),
    Link("/history", "History"),
    Link("/method", "Method"),
    Link("/docs", "API"),
    Link("/console", "Console"),
)
