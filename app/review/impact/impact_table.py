"""A published leaderboard compared with the one that a change of annotators would give, model by model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import Floats, Indices, Mask, finite
from app.review.impact.leave_one_out import ScoreChange
from app.review.schemas import ModelImpact
from app.wording import change, points

_CLEAR = 0.2  # places from which a change gets a sentence


def compare_models(change: ScoreChange, published: Sequence[Mapping[str, Any]]) -> list[ModelImpact]:
    """Compare a published leaderboard with the changed one, in the order of the published one.

    Ranks count archived models, but no row shows them. Provisional models have none. A model that is not on the
    published leaderboard has no row. A model whose interval is too wide stays provisional.

    `published`: the published leaderboard, as `list_placed_models` returns it.
    """
    shown = sorted(published, key=lambda row: (row["rank"] is None, row["place"] or 0, row["model"]))
    at, component, rank = _columns(change, shown)
    before, se = (np.array([row[name] for row in shown], dtype=np.float64) for name in ("score", "se"))
    points = change.after[at] - change.before[at]
    after = np.where(np.isnan(before), change.after[at], before + points)
    rivals = (component[:, None] == component) & (rank[:, None] > 0) & (rank > 0)
    moved, later = _moved(before, after, se, rivals), _ranks(change, at, component, rank)
    return [
        ModelImpact(
            model=row["model"],
            score_before=row["score"],
            score_after=finite(after[i]),
            change=finite(points[i]),
            rank_before=row["rank"],
            rank_after=int(later[i]) or None,
            place_change=finite(moved[i]),
            beyond_interval=_outside(row, finite(after[i])),
        )
        for i, row in enumerate(shown)
        if not row["archived"]
    ]


def move_published(change: ScoreChange, published: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the published leaderboard as decisions that wait for a refit will leave it: the change's fit before.

    An interval moves with its score.
    """
    at, component, rank = _columns(change, published)
    later = _ranks(replace(change, rank=change.rank_before), at, component, rank)
    return [_moved_row(row, finite(change.before[at[i]]), int(later[i]) or None) for i, row in enumerate(published)]


def _moved_row(row: Mapping[str, Any], score: float | None, rank: int | None) -> dict[str, Any]:
    known = score is not None and row["score"] is not None
    by = score - row["score"] if known else None
    ends = {name: row[name] + by if known and row[name] is not None else None for name in ("lower", "upper")}
    return {**row, **ends, "score": score, "rank": rank}


def _columns(change: ScoreChange, published: Sequence[Mapping[str, Any]]) -> NDArray[np.int64]:
    """Return of each row its place in the change, its component, and its rank, 0 for none: shape (3, n_rows)."""
    place = {number: at for at, number in enumerate(change.model_ids.tolist())}
    columns = [(place[row["model_id"]], row["component"], row["rank"] or 0) for row in published]
    return np.array(columns, dtype=np.int64).reshape(-1, 3).T


def _ranks(change: ScoreChange, at: Indices, component: Indices, before: Indices) -> Indices:
    """Return the later ranks, 0 for none. A model whose interval is too wide now is not among those of a refit."""
    wide, rank = (before == 0) & ~change.unranked[at], change.rank[at]
    above = (component[:, None] == component) & wide & (rank > 0) & (rank < rank[:, None])
    return np.where(wide | (rank == 0), 0, rank - above.sum(axis=1))


def _moved(before: Floats, after: Floats, se: Floats, rivals: Mask) -> Floats:
    """Return the change of the expected place; NaN for a model without a score, a standard error or a rank."""
    from scipy.special import ndtr  # noqa: PLC0415  slow to import, and servers start without it

    spread = np.hypot(se[:, None], se)
    others = rivals & ~np.eye(len(se), dtype=bool)
    with np.errstate(invalid="ignore", divide="ignore"):
        change = ndtr((after - after[:, None]) / spread) - ndtr((before - before[:, None]) / spread)
    known = np.isfinite(before) & np.isfinite(after) & np.isfinite(se) & np.diag(rivals)
    moved: Floats = np.where(others & np.isfinite(change), change, 0.0).sum(axis=1)
    return np.where(known, moved, np.nan)


def _outside(row: Mapping[str, Any], score: float | None) -> bool | None:
    if score is None or row["lower"] is None or row["upper"] is None:
        return None
    return not row["lower"] <= score <= row["upper"]


def describe_impact(models: Sequence[ModelImpact], *, inside: bool, votes: int) -> Iterator[str]:
    """Describe the models that would get or lose a score or change their rank or place, the largest change first."""
    if votes == 0:
        yield "The votes are not in this snapshot: nothing would change."
        return
    if not inside:
        yield "The votes do not count now; this is the effect of counting them."
    moved = [one for one in models if _is_moved(one)]
    for one in sorted(moved, key=lambda m: -abs(m.change or 0.0)):
        yield _describe_model(one)
    if not moved:
        largest = max((abs(one.change) for one in models if one.change is not None), default=0.0)
        yield f"No model would change its rank; the largest change would be {largest:.1f} points."


def _is_moved(one: ModelImpact) -> bool:
    scored = (one.score_before is None) == (one.score_after is None)
    return not scored or one.rank_after != one.rank_before or abs(one.place_change or 0.0) >= _CLEAR


def _describe_model(one: ModelImpact) -> str:
    if one.score_after is None:
        return f"{one.model} would {_place(one) if one.score_before is None else 'no longer have a score'}."
    if one.change is None:
        return f"{one.model} would have a score: {points(one.score_after, 1)} points."
    text = f"{one.model} would {_place(one)}, {change(one.change, 1)} points"
    if one.beyond_interval is None:
        return f"{text}."
    return f"{text}, {'beyond' if one.beyond_interval else 'within'} its interval."


def _place(one: ModelImpact) -> str:
    if one.rank_after is None:
        return "stay without a rank" if one.rank_before is None else "have no rank"
    if one.rank_before is None:
        return f"enter at rank {one.rank_after}"
    if one.rank_after == one.rank_before:
        return f"keep rank {one.rank_before}"
    return f"{'rise' if one.rank_after < one.rank_before else 'fall'} from rank {one.rank_before} to {one.rank_after}"
