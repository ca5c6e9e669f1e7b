from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.leaderboard.schemas import LeaderboardRow, PublishedLeaderboard

MOST_MODELS = 10_000
"""How many models a limit may ask for."""

FIELDS = (*LeaderboardRow.model_fields, "diagnostics")
"""What a request may name: the fields of a model, and the diagnostics, which are the leaderboard's."""


@dataclass(frozen=True)
class Excerpt:
    """Which part of a leaderboard an answer shows.

    Attributes
    ----------
    limit : only the first so many models; None for all
    fields : only these of `FIELDS`; empty for all
    """

    limit: int | None = None
    fields: tuple[str, ...] = ()

    def shorten(self, published: PublishedLeaderboard) -> PublishedLeaderboard:
        """Return the leaderboard with its first models."""
        if self.limit is None:
            return published
        return published.model_copy(update={"models": published.models[: self.limit]})

    def to_json(self, published: PublishedLeaderboard) -> bytes:
        """Return the part as JSON."""
        shown: dict[str, Any] | None = None
        if self.fields:
            left_out = {"diagnostics"} - {*self.fields}
            shown = dict.fromkeys(PublishedLeaderboard.model_fields.keys() - left_out, True)
            shown["models"] = {"__all__": {*self.fields}}
        return self.shorten(published).model_dump_json(include=shown).encode()

    def to_rows(self, published: PublishedLeaderboard) -> tuple[Sequence[dict[str, Any]], Sequence[str]]:
        """Return the part as rows of a table, and their columns. Compared leaderboards have columns of their own."""
        rows, columns = self.shorten(published).rows(), published.columns()
        if not self.fields:
            return rows, columns
        left_out = {*columns} - {*self.fields}
        if "compared" not in self.fields and rows:
            left_out |= {*rows[0]} - {*columns}
        return (
            [{name: value for name, value in row.items() if name not in left_out} for row in rows],
            [name for name in columns if name not in left_out],
        )


WHOLE = Excerpt()


def read_fields(text: str | None) -> tuple[str, ...]:
    """Return the fields that a text names, separated by commas, and the models' names; in the order of `FIELDS`.

    Raises ValueError: it names an unknown one.
    """
    named = {name.strip() for name in text.split(",")} - {""} if text else set()
    if unknown := sorted(named - {*FIELDS}):
        raise ValueError(f"has the unknown {', '.join(unknown)}; fields are {', '.join(FIELDS)}")
    return tuple(name for name in FIELDS if name in named or (named and name == "model"))
