"""Leaderboards by a column of the file: its values are the categories of a dimension, pooled with each other."""

from typing import Any

import numpy as np
import polars as pl

from app.errors import BadInputError
from app.rating.verdict.categories import pool_categories
from app.rating.verdict.rating import Rating
from app.rating.verdict.rows import count, model_rows
from app.rating.votes.indexed import IndexedVotes
from app.refits.fit.comparisons import find_outliers

MOST_CATEGORIES = 100


def rate_by_category(category: pl.Series, votes: IndexedVotes, rating: Rating) -> dict[str, Any]:
    """Return the scores of the models by category, as `GET /leaderboard/categories` does for one dimension.

    Parameters
    ----------
    category : of each vote, null or blank for none, shape (n_votes,)

    Raises
    ------
    BadInputError
        The counted votes are of fewer than two categories, or of too many.
    app.rating.errors.RatingError
    """
    counted = (rating.cells.votes_by_annotator() > 0)[votes.annotator]
    named = category.replace("", None)
    tags = named.filter(pl.Series(counted)).drop_nulls().unique().sort().to_list()
    if not 1 < len(tags) <= MOST_CATEGORIES:
        raise BadInputError(f"--by needs a column of 2 to {MOST_CATEGORIES} values, this one has {len(tags):,}")
    place = named.replace_strict(tags, range(len(tags)), default=len(tags), return_dtype=pl.Int64).to_numpy()
    weight = np.ones(len(votes.outcome)) if votes.weight is None else votes.weight
    sums = np.bincount(place[counted], weights=weight[counted], minlength=len(tags) + 1)
    counts = [count(total) for total in sums.tolist()]
    parts = [votes.rows(counted & (place == number)).aggregate() for number in range(len(tags) + bool(counts[-1]))]
    found = pool_categories(rating, parts)
    outliers = {(votes.models[one.model], one.tag) for one in find_outliers(found, tags, counts)}
    own: dict[str, dict[str, dict[str, Any]]] = {
        tag: {row["model"]: dict(row) for row in model_rows(found.rating(number), votes.models)}
        for number, tag in enumerate(tags)
    }

    def cell(tag: str, model: str, score: float | None) -> dict[str, Any]:
        row = own[tag][model]
        unknown = row["score"] is None or score is None
        return {
            **{name: row[name] for name in ("score", "lower", "upper", "votes")},
            "difference": None if unknown else row["score"] - score,
            "stands_out": (model, tag) in outliers,
        }

    return {
        "votes": dict(zip(tags, counts, strict=False)), "spread": found.tau,
        "models": [
            {"model": row["model"], "score": row["score"],
             "categories": {tag: cell(tag, row["model"], row["score"]) for tag in tags if row["model"] in own[tag]}}
            for row in model_rows(rating, votes.models)
        ],
    }  # fmt: skip
