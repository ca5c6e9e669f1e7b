"""One model on the page: what its row shows, and what it is sorted and found by."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from app.leaderboard.diff.schemas import RowChange
from app.leaderboard.schemas import LeaderboardRow, Place
from app.pages.board.whiskers import Axis, Whisker


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
