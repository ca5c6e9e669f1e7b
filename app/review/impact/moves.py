from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import ndtr
from sqlalchemy import RowMapping

from app.rating.loop.rows import finite
from app.review.impact.leaving import Change, Floats

_CLEAR = 0.2  # places, from which a change is told in words


class ModelImpact(BaseModel):
    """What would become of one model; null where it has no score before or after."""

    model_config = ConfigDict(frozen=True)

    model: str
    score_before: float | None
    score_after: float | None
    change: float | None = Field(description="Elo points.")
    rank_before: int | None = Field(description="1 is best, within the component.")
    rank_after: int | None
    place_change: float | None = Field(
        description="Change of the expected place, which counts every other model by the probability that it is above; "
        "negative is up."
    )
    beyond_interval: bool | None = Field(description="Whether the later score lies outside the published interval.")


def compare_models(change: Change, model_ids: NDArray[np.int32], board: Sequence[RowMapping]) -> list[ModelImpact]:
    """Compare a published board with what it would be, in its order.

    Archived models count in ranks and are not shown; a model that is not on the published board neither.

    Parameters
    ----------
    model_ids : of the models in `change`
    board : as `read_published` returns it
    """
    rows = _compare(change, {int(number): at for at, number in enumerate(model_ids)}, board)
    return sorted(rows, key=lambda row: (row.rank_before is None, row.rank_before or 0, row.model))


def _compare(change: Change, place: dict[int, int], board: Sequence[RowMapping]) -> Iterator[ModelImpact]:
    at = np.array([place[row["model_id"]] for row in board], dtype=np.int64)
    before = np.array([np.nan if row["score"] is None else row["score"] for row in board], dtype=np.float64)
    points = change.after[at] - change.before[at]
    after = np.where(np.isnan(before), change.after[at], before + points)
    se = np.array([np.nan if row["se"] is None else row["se"] for row in board], dtype=np.float64)
    component = np.array([row["component"] for row in board], dtype=np.int64)
    passed, moved = _passed(before, after, component), _moved(before, after, se, component)
    for i, row in enumerate(board):
        if row["archived"]:
            continue
        rank = row["rank"] + int(passed[i]) if change.rank is None else int(change.rank[at[i]]) or None
        yield ModelImpact(
            model=row["model"],
            score_before=row["score"],
            score_after=finite(after[i]),
            change=finite(points[i]),
            rank_before=row["rank"],
            rank_after=rank,
            place_change=finite(moved[i]),
            beyond_interval=_outside(row, finite(after[i])),
        )


def _passed(before: Floats, after: Floats, component: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the models that come to stand above each one, less those that no longer do."""
    together = component[:, None] == component
    above_before, above_after = before > before[:, None], after > after[:, None]  # never of those without a score
    passed: NDArray[np.int64] = ((above_after.astype(np.int64) - above_before) * together).sum(axis=1)
    return passed


def _moved(before: Floats, after: Floats, se: Floats, component: NDArray[np.int64]) -> Floats:
    """Change of the expected place; NaN for a model without a score or a standard error."""
    spread = np.hypot(se[:, None], se)
    together = (component[:, None] == component) & ~np.eye(len(se), dtype=bool)
    with np.errstate(invalid="ignore", divide="ignore"):
        change = ndtr((after - after[:, None]) / spread) - ndtr((before - before[:, None]) / spread)
    known = np.isfinite(before) & np.isfinite(after) & np.isfinite(se)
    moved: Floats = np.where(together & np.isfinite(change), change, 0.0).sum(axis=1)
    return np.where(known, moved, np.nan)


def _outside(row: RowMapping, score: float | None) -> bool | None:
    if score is None or row["lower"] is None or row["upper"] is None:
        return None
    return not row["lower"] <= score <= row["upper"]


def tell_impact(models: list[ModelImpact], what: str, votes: int) -> Iterator[str]:
    """Say which models would change their rank or place, the furthest first."""
    if votes == 0:
        yield "The annotator has no votes in this snapshot: nothing would change."
        return
    if what == "let in":
        yield "The annotator does not count in this snapshot; this is what letting them in would do."
    moved = [one for one in models if one.rank_after != one.rank_before or abs(one.place_change or 0.0) >= _CLEAR]
    for one in sorted(moved, key=lambda m: -abs(m.change or 0.0)):
        yield _tell_model(one)
    if not moved:
        largest = max((abs(one.change) for one in models if one.change is not None), default=0.0)
        yield f"No model would change its rank; the largest change would be {largest:.1f} points."


def _tell_model(one: ModelImpact) -> str:
    if one.score_after is None and one.score_before is None:
        return f"{one.model}, which has no score, would {_place(one)}."
    if one.score_after is None:
        return f"{one.model} would have no score any more."
    if one.change is None:
        return f"{one.model} would have a score: {one.score_after:.1f} points."
    told = f"{one.model} would {_place(one)}, {one.change:+.1f} points"
    if one.beyond_interval is None:
        return f"{told}."
    return f"{told}, {'beyond' if one.beyond_interval else 'within'} its interval."


def _place(one: ModelImpact) -> str:
    if one.rank_after is None:
        return "have no counted votes left"
    if one.rank_before is None:
        return f"come to rank {one.rank_after}"
    if one.rank_after == one.rank_before:
        return f"keep rank {one.rank_before}"
    return f"{'rise' if one.rank_after < one.rank_before else 'fall'} from rank {one.rank_before} to {one.rank_after}"
