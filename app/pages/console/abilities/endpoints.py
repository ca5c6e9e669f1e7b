"""The distribution of abilities and of votes, with ε and δ drawn in; and what moving the thresholds would do."""

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from threading import Lock
from typing import Annotated, Any
from uuid import UUID

from cachetools import LRUCache, cached
from fastapi import Form, Query, Response
from pydantic import BaseModel, Field
from sqlalchemy import Connection

from app.api.dependencies import HeldDatabase, ReadView, held
from app.leaderboard.chart_specs import STANDINGS
from app.pages.charts import nice_ticks
from app.pages.console.policy.fields import preview_policy
from app.pages.console.rendering import Admin, Reader, console_router
from app.policy.schemas import Policy, bounds_of
from app.policy.service import current_policy, stored_policy
from app.review.abilities import Bin, SnapshotAnnotators, bin_abilities, bin_votes, count_beyond, read_crowd
from app.review.previews import PolicyPreviews
from app.snapshots.queries import newest_snapshot

router = console_router("abilities")


class Thresholds(BaseModel):
    """Where ε, δ and the probability stand; None where the policy has them."""

    min_ability: float | None = Field(None, ge=-100, le=100, allow_inf_nan=False)
    min_votes: int | None = Field(None, ge=0, le=10**9)
    min_probability: float | None = Field(None, **bounds_of("min_probability"))

    def within(self, policy: Policy) -> Policy:
        """Return the policy with these thresholds."""
        return policy.model_copy(update=self.model_dump(exclude_none=True))


@router.get("")
def get_abilities(
    console: Reader,
    conn: ReadView,
    moved: Annotated[Thresholds, Query()],
) -> Response:
    """Show how many annotators have which ability and how many votes."""
    current, snapshot = current_policy(conn).settings, newest_snapshot(conn)
    if snapshot is None:
        return console.page("abilities/empty.html", min_votes=current.min_votes)
    chosen = moved.within(current)
    crowd = _read_crowd(conn, snapshot["id"])
    made_with = stored_policy(snapshot["settings"])
    same = all(getattr(made_with, name) == getattr(chosen, name) for name in Thresholds.model_fields)
    standing = crowd.standing if same else crowd.judge(chosen)
    return console.page(
        "abilities/page.html",
        snapshot=snapshot,
        current=current,
        chosen=chosen,
        moved=chosen != current,
        abilities=draw_abilities(bin_abilities(crowd, standing), chosen.min_ability),
        votes=draw_votes(bin_votes(crowd, standing), chosen.min_votes),
        counts=count_beyond(crowd, standing, chosen),
    )


# A snapshot never changes, and with 100,000 annotators reading it takes longer than the rest of the page.
@cached(LRUCache(2), key=lambda _, snapshot_id: snapshot_id, lock=Lock())
def _read_crowd(conn: Connection, snapshot_id: UUID) -> SnapshotAnnotators:
    return read_crowd(conn, snapshot_id)


# A plain function: FastAPI runs it in a thread, where it waits for the fit.
@router.post("/preview")
def post_preview(
    console: Admin,
    database: HeldDatabase,
    previews: Annotated[PolicyPreviews, held(PolicyPreviews)],
    moved: Annotated[Thresholds, Form()],
) -> Response:
    """Fit the votes with these thresholds, publish nothing, and show what would change."""
    with database.read() as conn:
        settings = moved.within(current_policy(conn).settings)
    return console.page("policy/preview.html", **preview_policy(previews, settings))


_WIDTH, _HEIGHT = 560.0, 240.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 12.0, 26.0, 30.0  # margins: page.html has the lines that stand at them


Shapes = dict[str, Any]
"""Bars in a box of 560 × 240: each its place, size and standing; the marks of the two axes; the threshold."""


def draw_abilities(bins: Sequence[Bin], min_ability: float) -> Shapes:
    """Draw annotators by ability, with ε."""
    low = min([-1.0, min_ability, *(one.low for one in bins)])
    high = max([2.0, min_ability, *(one.high for one in bins)])
    ticks = [tick for tick in nice_ticks(low, high) if low <= tick <= high]
    return _draw(bins, low, high, ticks, min_ability, float)


def draw_votes(bins: Sequence[Bin], min_votes: int) -> Shapes:
    """Draw annotators by their number of votes, each bin twice as wide as the one before."""
    high = max([2.0 * max(min_votes, 1), 128.0, *(one.high for one in bins)])
    ticks = [10.0**power for power in range(math.ceil(math.log10(high)))]
    return _draw(bins, 1.0, high, ticks, max(min_votes, 1), lambda value: math.log(float(value)))


def _draw(
    bins: Sequence[Bin], low: float, high: float, ticks: list[float], threshold: float, scale: Callable[[Any], float]
) -> Shapes:
    start, end = scale(low), scale(high)

    def across(value: Any) -> float:
        return round(_LEFT + (scale(value) - start) / (end - start) * (_WIDTH - _LEFT - _RIGHT), 1)

    stacks = [
        sorted(stack, key=lambda one: STANDINGS.index(one.standing))
        for _, stack in groupby(sorted(bins, key=lambda one: one.low), key=lambda one: one.low)
    ]
    marks = nice_ticks(0.0, max([4, *(sum(one.annotators for one in stack) for stack in stacks)]))
    unit = (_HEIGHT - _TOP - _BOTTOM) / marks[-1]
    drawn = []
    for stack in stacks:
        y = _HEIGHT - _BOTTOM
        for one in stack:
            x, height = across(one.low), one.annotators * unit
            y -= height
            width = max(across(one.high) - x - 1.0, 1.0)
            drawn.append((x, round(y, 1), round(width, 1), round(height, 1), one.standing))
    return {
        "bars": drawn,
        "across": [(across(tick), tick) for tick in ticks],
        "up": [(round(_HEIGHT - _BOTTOM - mark * unit, 1), mark) for mark in marks],
        "line": across(threshold),
    }
