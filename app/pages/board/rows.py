"""One model on the page: what its row shows, and what it is sorted and found by."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from markupsafe import Markup

from app.leaderboard.diff.schemas import RowChange
from app.leaderboard.schemas import LeaderboardRow, Place

_STEPS = (1, 2, 2.5, 5)
_MOST_TICKS = 5
_MARGIN = 0.03  # of the axis, at both ends
_WIDE = 2.5  # typical intervals: what reaches further is cut, so that one unsure model does not squeeze the others


@dataclass(frozen=True)
class Whisker:
    """An interval on the axis, in percent; `cut` says at which ends it goes on beyond the axis."""

    start: float
    end: float
    point: float | None
    cut_start: bool
    cut_end: bool


@dataclass(frozen=True)
class Axis:
    """The shared axis of all intervals, in Elo points."""

    low: float
    high: float

    @classmethod
    def of(cls, models: Sequence[LeaderboardRow]) -> "Axis | None":
        """Return an axis that holds every score and the typical intervals around them; None without scores."""
        ends = [
            (row.score if row.lower is None else row.lower, row.score, row.score if row.upper is None else row.upper)
            for row in models
            if row.score is not None
        ]
        if not ends:
            return None
        lowers, scores, uppers = zip(*ends, strict=True)
        reach = _WIDE * median((upper - lower) / 2 for lower, _, upper in ends)
        low, high = max(min(scores) - reach, min(lowers)), min(max(scores) + reach, max(uppers))
        margin = max((high - low) * _MARGIN, 1.0)
        return cls(low - margin, high + margin)

    def place(self, value: float) -> float:
        """Return where a value is, in percent of the axis; beyond its ends at the end."""
        return round(100 * min(max((value - self.low) / (self.high - self.low), 0.0), 1.0), 2)

    def ticks(self) -> list[tuple[float, float]]:
        """Return round values on the axis, and where they are."""
        rough = (self.high - self.low) / _MOST_TICKS
        unit = 10 ** math.floor(math.log10(rough))
        step = next((size * unit for size in _STEPS if size * unit >= rough), 10 * unit)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [(number * step, self.place(number * step)) for number in range(first, last + 1)]

    def draw(self, row: LeaderboardRow) -> Whisker | None:
        """Return a model's interval or, without a score, what its bound leaves possible; None without either."""
        if row.score is None and row.lower is None and row.upper is None:
            return None
        single = row.score if row.score is not None and row.lower is None and row.upper is None else None
        lower = row.lower if row.lower is not None else single
        upper = row.upper if row.upper is not None else single
        return Whisker(
            start=0.0 if lower is None else self.place(lower),
            end=100.0 if upper is None else self.place(upper),
            point=None if row.score is None else self.place(row.score),
            cut_start=lower is None or lower < self.low,
            cut_end=upper is None or upper > self.high,
        )


@dataclass(frozen=True)
class Row:
    """A model's row, drawn once for all readers.

    Attributes
    ----------
    keys : the value of each column by its name, to sort by; None where there is none
    searched : the texts that a search looks at
    html : the drawn row
    """

    model: LeaderboardRow
    keys: Mapping[str, Any]
    searched: str
    html: Markup


@dataclass(frozen=True)
class Figures:
    """What the template shows of a model beside the leaderboard's own row."""

    model: LeaderboardRow
    win_rate: float | None
    climbed: int | None
    gained: float | None
    is_new: bool
    other: Place | None
    whisker: Whisker | None


def figures_of(
    model: LeaderboardRow, change: RowChange | None, other: Place | None, axis: Axis | None, *, any_before: bool
) -> Figures:
    """Return what the page shows of a model.

    Parameters
    ----------
    change : since the snapshot before; None where there is nothing to compare with
    other : the model's place by the method beside
    any_before : whether there is a snapshot before
    """
    stayed = change is not None and change.kind == "stayed" and bool(change.comparable)
    climbed = None
    if change is not None and stayed and change.rank_before is not None and change.rank_after is not None:
        climbed = change.rank_before - change.rank_after
    return Figures(
        model=model,
        win_rate=(model.wins + model.ties / 2) / model.votes if model.votes else None,
        climbed=climbed,
        gained=change.change if change is not None and stayed else None,
        is_new=any_before and change is not None and change.kind == "entered",
        other=other,
        whisker=None if axis is None else axis.draw(model),
    )


def make_row(figures: Figures, html: str) -> Row:
    """Return a model's row with what it is sorted and found by."""
    model = figures.model
    keys = {
        "rank": (model.component, model.provisional, model.rank or 0, -(model.score or 0.0), model.model),
        "class": model.class_rank,
        "model": model.model.casefold(),
        "score": model.score,
        "votes": model.votes,
        "win-rate": figures.win_rate,
        "organization": model.organization and model.organization.casefold(),
        "license": model.license and model.license.casefold(),
        "change": figures.climbed,
        "other": figures.other and figures.other.rank,
    }
    texts = (model.model, model.organization, model.license)
    return Row(model, keys, " ".join(text for text in texts if text).casefold(), Markup(html))  # noqa: S704  a template's
