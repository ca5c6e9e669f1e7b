"""A table of models and categories: scores, and what stands out beyond its error."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field
from sqlalchemy import Connection

from app.naming.aliases import read_names
from app.schemas import FrozenModel
from app.snapshots.queries import list_placed_models
from app.snapshots.schemas import Snapshot, SnapshotHead


class Dimension(FrozenModel):
    """The categories of a dimension together."""

    votes: dict[str, int] = Field(description='Counted votes by tag; "" for those of none of its categories.')
    spread: float | None = Field(
        description="Standard deviation of a model's scores over the categories, Elo points; null where all votes are "
        "of one."
    )


class CategoryScore(FrozenModel):
    """A model in a category; null where the votes give no score or no interval."""

    score: float | None
    lower: float | None
    upper: float | None
    votes: int = Field(description="0 for a model without votes in the category, whose score is that of the others.")
    difference: float | None = Field(description="The score less that of the main leaderboard.")
    stands_out: bool = Field(
        description="Whether the difference is beyond its error, with Bonferroni's correction for all models and "
        "categories of the dimension."
    )


class CategoryRow(FrozenModel):
    """A model, by the tags of the categories."""

    model: str
    score: float | None = Field(description="Of the main leaderboard.")
    categories: dict[str, CategoryScore]


class CategoryTable(FrozenModel):
    """The scores of the models in all categories."""

    snapshot: SnapshotHead
    dimensions: dict[str, Dimension]
    models: list[CategoryRow] = Field(description="In the order of the main leaderboard.")


def tabulate_categories(conn: Connection, snapshot: Snapshot) -> CategoryTable:
    """Return the table of a snapshot; without dimensions where it has no categories."""
    found = snapshot.diagnostics.get("categories", {})
    outliers = _find_outliers(conn, [one for dimension in found.values() for one in dimension["outliers"]])
    scores: dict[str, dict[str, CategoryScore]] = {}
    main = {row["model"]: row["score"] for row in list_placed_models(conn, snapshot.id)}
    for tag in (tag for dimension in found.values() for tag in dimension["votes"] if tag):
        for row in list_placed_models(conn, snapshot.id, tag=tag):
            model, own, whole = row["model"], row["score"], main.get(row["model"])
            scores.setdefault(model, {})[tag] = CategoryScore(
                **{name: row[name] for name in ("score", "lower", "upper", "votes")},
                difference=None if own is None or whole is None else own - whole,
                stands_out=(row["model_id"], tag) in outliers,
            )
    return CategoryTable(
        snapshot=SnapshotHead.model_validate(dict(snapshot)),
        dimensions={name: Dimension(votes=one["votes"], spread=one["spread"]) for name, one in found.items()},
        models=[CategoryRow(model=name, score=score, categories=scores.get(name, {})) for name, score in main.items()],
    )


def _find_outliers(conn: Connection, outliers: Sequence[Mapping[str, Any]]) -> set[tuple[int | None, str]]:
    """Return what stands out by the models' numbers: the diagnostics name them as they were called then."""
    names = read_names(conn, sorted({one["model"] for one in outliers}))
    return {(names.own.get(one["model"]) or names.number(one["model"], None), one["tag"]) for one in outliers}
