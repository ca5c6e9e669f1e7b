"""One model on the page: what its row shows, what it is sorted and found by, and its interval on the shared axis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median, quantiles
from typing import Any

from app.leaderboard.diff.schemas import RowChange
from app.leaderboard.groups import ModelGroup
from app.leaderboard.schemas import LeaderboardRow, Place
from app.pages.charts import nice_ticks

_MARGIN = 0.03  # of the axis, at both ends
_WIDE = 2.5  # typical intervals: what reaches further is cut, so that one unsure model does not squeeze the others
_FAR = 2.0  # interquartile ranges below the first quartile: a score further down stands at the border, as an outlier


@dataclass(frozen=True)
class Whisker:
    """An interval on the axis, in percent.

    Attributes
    ----------
    cut_start, cut_end : whether it goes on beyond the axis
    below : whether the score itself is below the axis
    """

    start: float
    end: float
    point: float | None
    cut_start: bool
    cut_end: bool
    below: bool


@dataclass(frozen=True)
class Axis:
    """The shared axis of all intervals, in Elo points."""

    low: float
    high: float

    @classmethod
    def of(cls, models: Sequence[LeaderboardRow]) -> "Axis | None":
        """Return an axis of the scores, but for those far below the others, and of typical intervals; None without."""
        ends = [
            (row.score if row.lower is None else row.lower, row.score, row.score if row.upper is None else row.upper)
            for row in models
            if row.score is not None
        ]
        if not ends:
            return None
        half = median((upper - lower) / 2 for lower, _, upper in ends)
        first, _, third = quantiles([score for _, score, _ in ends] * 2, method="inclusive")
        least = first - _FAR * max(third - first, 2 * half)
        lowers, scores, uppers = zip(*(end for end in ends if end[1] >= least), strict=True)
        reach = _WIDE * half
        low, high = max(min(scores) - reach, min(lowers)), min(max(scores) + reach, max(uppers))
        margin = max((high - low) * _MARGIN, 1.0)
        return cls(low - margin, high + margin)

    def place(self, value: float) -> float:
        """Return where a value is, in percent of the axis; beyond its ends at the end."""
        return round(100 * min(max((value - self.low) / (self.high - self.low), 0.0), 1.0), 2)

    def ticks(self) -> list[tuple[float, float]]:
        """Return round values on the axis, and where they are."""
        ticks = nice_ticks(self.low, self.high)
        return [(tick, self.place(tick)) for tick in ticks if self.low <= tick <= self.high]

    def draw(self, row: LeaderboardRow) -> Whisker | None:
        """Return a model's interval or, without a score, what its bound leaves possible; None without either."""
        score = row.score
        if score is None and row.lower is None and row.upper is None:
            return None
        single = score if row.lower is None and row.upper is None else None
        lower = row.lower if row.lower is not None else single
        upper = row.upper if row.upper is not None else single
        return Whisker(
            start=0.0 if lower is None else self.place(lower),
            end=100.0 if upper is None else self.place(upper),
            point=None if score is None else self.place(score),
            cut_start=lower is None or lower < self.low,
            cut_end=upper is None or upper > self.high,
            below=score is not None and score < self.low,
        )


@dataclass(frozen=True)
class Row:
    """A model's row.

    Attributes
    ----------
    group : the models that it compares with
    change : since the snapshot before; None where there is nothing to compare with
    other : the model's place by the method beside
    whisker : its interval on its group's axis
    """

    model: LeaderboardRow
    group: ModelGroup
    change: RowChange | None
    other: Place | None
    whisker: Whisker | None

    @property
    def rank(self) -> int | None:
        """Its place by score; without a score it has none."""
        return None if self.model.score is None else self.model.rank

    @property
    def win_rate(self) -> float | None:
        """The share of its votes that it won; a tie is half a win."""
        model = self.model
        return (model.wins + model.ties / 2) / model.votes if model.votes else None

    @property
    def is_new(self) -> bool:
        """Whether the snapshot before did not have the model."""
        return self.change is not None and self.change.kind == "entered"

    @property
    def climbed(self) -> int | None:
        """How many ranks it rose."""
        before, after = (self._stayed.rank_before, self._stayed.rank_after) if self._stayed else (None, None)
        return None if before is None or after is None else before - after

    @property
    def gained(self) -> float | None:
        """How many points it gained; None for less than half a point."""
        gained = self._stayed.change if self._stayed else None
        return gained if gained and round(gained) else None

    @property
    def _stayed(self) -> RowChange | None:
        change = self.change
        return change if change is not None and change.kind == "stayed" and change.comparable else None

    @cached_property
    def keys(self) -> Mapping[str, Any]:
        """The value of each column by its name, to sort by; None where there is none."""
        model = self.model
        return {
            "rank": (model.component, model.rank is None, model.rank or 0, -(model.score or 0.0), model.model),
            "class": model.class_rank,
            "model": model.model.casefold(),
            "score": model.score,
            "votes": model.votes,
            "win-rate": self.win_rate,
            "organization": model.organization and model.organization.casefold(),
            "license": model.license and model.license.casefold(),
            "change": self.climbed,
            "other": self.other and self.other.rank,
        }

    @cached_property
    def searched(self) -> str:
        """The texts that a search looks at."""
        model = self.model
        return " ".join(text for text in (model.model, model.organization, model.license) if text).casefold()
