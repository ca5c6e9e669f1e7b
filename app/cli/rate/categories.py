"""Leaderboards by a column of the file: its values are categories, pooled with each other, or criteria, each apart."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import polars as pl

from app.errors import BadInputError
from app.imports.formats.whole import VoteFile
from app.rating.errors import RatingWarning
from app.rating.estimators.am_elo import AmElo, BradleyTerry
from app.rating.estimators.tables import VoteTable, read_table
from app.rating.verdict.categories import Categories, pool_categories
from app.rating.verdict.criteria import Criteria
from app.rating.verdict.rating import Rating
from app.rating.verdict.rows import count, model_rows
from app.rating.votes.indexed import IndexedVotes
from app.refits.fit.dimensions import find_outliers, weigh
from app.votes.rules import OVERALL

MOST_CATEGORIES = 100


def rate_by_category(
    category: pl.Series, votes: IndexedVotes, rating: Rating, weights: Mapping[str, float]
) -> dict[str, Any]:
    """Return the scores of the models by category, as `GET /leaderboard/categories` does for one dimension.

    Parameters
    ----------
    category : of each vote, null or blank for none, shape (n_votes,)
    weights : of the categories in the leaderboard `weighted`; none without

    Raises
    ------
    BadInputError
        The counted votes are of fewer than two categories, or of too many; a weight is for none of them.
    app.rating.errors.RatingError
    """
    counted = (rating.cells.votes_by_annotator() > 0)[votes.annotator]
    named = category.replace("", None)
    tags = _tags(named.filter(pl.Series(counted)))
    place = named.replace_strict(tags, range(len(tags)), default=len(tags), return_dtype=pl.Int64).to_numpy()
    weight = np.ones(len(votes.outcome)) if votes.weight is None else votes.weight
    sums = np.bincount(place[counted], weights=weight[counted], minlength=len(tags) + 1)
    parts = [votes.rows(counted & (place == number)).aggregate() for number in range(len(tags) + bool(sums[-1]))]
    totals = dict(zip([*tags, ""], sums.tolist(), strict=True))
    return _tabulate(pool_categories(rating, parts), totals, votes.models, weights)


def rate_by_criterion(
    every: VoteFile, main: str, estimator: Callable[[], AmElo | BradleyTerry], weights: Mapping[str, float]
) -> dict[str, Any]:
    """Return the scores of the models by criterion, each by its own votes alone, abilities too.

    Parameters
    ----------
    every : the votes by all criteria
    main : the criterion of the main leaderboard
    estimator : returns what rates the votes by one

    Raises
    ------
    BadInputError
        As `rate_by_category`.
    app.rating.errors.RatingError
    """
    said, table = every.frame["criterion"].fill_null(OVERALL), read_table(every.table())
    if len(said) != len(table.votes.outcome):
        raise BadInputError("--by criterion takes whole verdicts: leave out --soft")
    ratings = dict[str, Rating]()
    for tag in _tags(said):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RatingWarning)
            own = VoteTable(table.votes.rows((said == tag).to_numpy()), table.annotated, table.kind)
            ratings[tag] = estimator().fit(own).result_
    totals = {tag: rating.votes_used for tag, rating in ratings.items()} | {"": 0.0}
    return _tabulate(Criteria(ratings[main], list(ratings.values())), totals, table.votes.models, weights)


def _tags(said: pl.Series) -> list[str]:
    tags: list[str] = said.drop_nulls().unique().sort().to_list()
    if not 1 < len(tags) <= MOST_CATEGORIES:
        raise BadInputError(f"--by needs a column of 2 to {MOST_CATEGORIES} values, this one has {len(tags):,}")
    return tags


def _tabulate(
    found: Categories | Criteria, totals: Mapping[str, float], models: list[str], weights: Mapping[str, float]
) -> dict[str, Any]:
    """Return the scores as plain data; `totals`: votes of each category, "" for those of none."""
    names = [tag for tag in totals if tag or totals[tag]]
    tags, counts = [tag for tag in names if tag], [count(totals[tag]) for tag in names]
    if unknown := sorted(set(weights) - set(tags)):
        raise BadInputError(f"--category-weights names {unknown[0]!r}; the values are {', '.join(tags)}")
    outliers = {(models[one.model], one.tag) for one in find_outliers(found, tags, counts)}
    own: dict[str, dict[str, dict[str, Any]]] = {
        tag: {row["model"]: dict(row) for row in model_rows(found.rating(number), models)}
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

    weighted = {"weighted": model_rows(weigh(found, names, weights), models)} if weights else {}
    return {
        "votes": dict(zip(tags, counts, strict=False)), "spread": found.tau, **weighted,
        "models": [
            {"model": row["model"], "score": row["score"],
             "categories": {tag: cell(tag, row["model"], row["score"]) for tag in tags if row["model"] in own[tag]}}
            for row in model_rows(found.whole, models)
        ],
    }  # fmt: skip
