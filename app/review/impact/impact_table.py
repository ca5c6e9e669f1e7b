"""A published leaderboard compared with the one that a change of annotators would give, model by model."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from sqlalchemy import RowMapping

from app.rating.loop.rows import finite
from app.review.impact.leave_one_out import Floats, ScoreChange
from app.review.schemas import ModelImpact

_CLEAR = 0.2  # places from which a change gets a sentence


def compare_models(
    change: ScoreChange, model_ids: NDArray[np.int32], published: Sequence[RowMapping]
) -> list[ModelImpact]:
    """Compare a published leaderboard with the changed one, in the order of the published one.

    Ranks count archived models, but no row shows them. A model that is not on the published leaderboard has no row.

    Parameters
    ----------
    model_ids : of the models in `change`
    published : the published leaderboard, as `read_leaderboard` returns it
    """
    rows = _compare(change, {int(number): at for at, number in enumerate(model_ids)}, published)
    return sorted(rows, key=lambda row: (row.rank_before is None, row.rank_before or row.rank_after or 0, row.model))


def _compare(change: ScoreChange, place: dict[int, int], published: Sequence[RowMapping]) -> Iterator[ModelImpact]:
    at = np.array([place[row["model_id"]] for row in published], dtype=np.int64)
    before = np.array([np.nan if row["score"] is None else row["score"] for row in published], dtype=np.float64)
    points = change.after[at] - change.before[at]
    after = np.where(np.isnan(before), change.after[at], before + points)
    se = np.array([np.nan if row["se"] is None else row["se"] for row in published], dtype=np.float64)
    component = np.array([row["component"] for row in published], dtype=np.int64)
    passed, moved = _passed(before, after, component), _moved(before, after, se, component)
    for i, row in enumerate(published):
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
    """Count, for each model, the models that are newly above it, minus those that no longer are."""
    together = component[:, None] == component
    above_before, above_after = before > before[:, None], after > after[:, None]  # never of those without a score
    passed: NDArray[np.int64] = ((above_after.astype(np.int64) - above_before) * together).sum(axis=1)
    return passed


def _moved(before: Floats, after: Floats, se: Floats, component: NDArray[np.int64]) -> Floats:
    """Return the change of the expected place; NaN for a model without a score or a standard error."""
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


def describe_impact(models: Sequence[ModelImpact], *, inside: bool, votes: int) -> Iterator[str]:
    """Describe the models that would change their rank or expected place, the largest change first."""
    if votes == 0:
        yield "The annotator has no votes in this snapshot: nothing would change."
        return
    if not inside:
        yield "The annotator does not count in this snapshot; this is the effect of counting their votes."
    moved = [one for one in models if one.rank_after != one.rank_before or abs(one.place_change or 0.0) >= _CLEAR]
    for one in sorted(moved, key=lambda m: -abs(m.change or 0.0)):
        yield _describe_model(one)
    if not moved:
        largest = max((abs(one.change) for one in models if one.change is not None), default=0.0)
        yield f"No model would change its rank; the largest change would be {largest:.1f} points."


def _describe_model(one: ModelImpact) -> str:
    if one.score_after is None and one.score_before is None:
        return f"{one.model}, which has no score, would {_place(one)}."
    if one.score_after is None:
        return f"{one.model} would no longer have a score."
    if one.change is None:
        return f"{one.model} would have a score: {one.score_after:.1f} points."
    text = f"{one.model} would {_place(one)}, {one.change:+.1f} points"
    if one.beyond_interval is None:
        return f"{text}."
    return f"{text}, {'beyond' if one.beyond_interval else 'within'} its interval."


def _place(one: ModelImpact) -> str:
    if one.rank_after is None:
        return "have no counted votes left"
    if one.rank_before is None:
        return f"enter at rank {one.rank_after}"
    if one.rank_after == one.rank_before:
        return f"keep rank {one.rank_before}"
    return f"{'rise' if one.rank_after < one.rank_before else 'fall'} from rank {one.rank_before} to {one.rank_after}"
