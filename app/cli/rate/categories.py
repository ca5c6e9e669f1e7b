"""Leaderboards by a column of the file: its values are categories, pooled with each other, or criteria, each apart."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import polars as pl

from app.cli.rate.options import FitOptions
from app.errors import BadInputError
from app.imports.formats.whole import VoteFile
from app.rating.errors import RatingWarning
from app.rating.estimators.am_elo import AmElo, BradleyTerry
from app.rating.estimators.tables import VoteTable, read_table
from app.rating.verdict.categories import Categories, pool_categories
from app.rating.verdict.criteria import Criteria
from app.rating.verdict.portfolio import HeldOut, choose_portfolio, hold_out
from app.rating.verdict.rating import Rating
from app.rating.verdict.rows import count, model_rows
from app.rating.votes.indexed import IndexedVotes
from app.refits.fit.dimensions import find_outliers, weigh
from app.votes.rules import OVERALL

MOST_CATEGORIES = 100

Estimators = Callable[[], AmElo | BradleyTerry]


def rate_by_category(
    category: pl.Series, table: VoteTable, rating: Rating, options: FitOptions, estimator: Estimators
) -> dict[str, Any]:
    """Return the scores of the models by category, as `GET /leaderboard/categories` does for one dimension.

    Parameters
    ----------
    category : of each vote, null or blank for none, shape (n_votes,)
    estimator : returns what rates votes, for `portfolio`

    Raises
    ------
    BadInputError
        The counted votes are of fewer than two categories, or of too many; a weight is for none of them.
    app.rating.errors.RatingError
    """
    votes = table.votes
    counted = (rating.cells.votes_by_annotator() > 0)[votes.annotator]
    named = category.replace("", None)
    tags = _tags(named.filter(pl.Series(counted)))
    place = named.replace_strict(tags, range(len(tags)), default=len(tags), return_dtype=pl.Int64).to_numpy()
    weight = np.ones(len(votes.outcome)) if votes.weight is None else votes.weight
    sums = np.bincount(place[counted], weights=weight[counted], minlength=len(tags) + 1)
    parts = [votes.rows(counted & (place == number)).aggregate() for number in range(len(tags) + bool(sums[-1]))]
    totals = dict(zip([*tags, ""], sums.tolist(), strict=True))
    found = pool_categories(rating, parts)
    tabulated = _tabulate(found, totals, votes.models, options.weights)
    if options.portfolio is not None:

        def fit(some: IndexedVotes) -> Rating:
            return _rate(estimator, VoteTable(some, table.annotated, table.kind), min_votes=0)

        held_out = hold_out(votes.rows(counted), place[counted], len(tags), fit)
        tabulated["portfolio"] = _find_portfolio(found, tags, votes.models, options.portfolio, held_out)
    return tabulated


def _find_portfolio(
    found: Categories, tags: list[str], models: list[str], margin: float, held_out: HeldOut
) -> dict[str, Any]:
    """Return the portfolio as plain data; without models where the categories do not differ beyond error."""
    data: dict[str, Any] = {"margin": margin, "held_out": asdict(held_out), "differ": held_out.differ, "models": []}
    if not held_out.differ:
        return data | {"serves": {}}
    chosen = choose_portfolio(found, range(len(tags)), margin)
    columns = zip(tags, chosen.serves.tolist(), chosen.behind.tolist(), chosen.at_most.tolist(), strict=True)
    serves = {
        tag: {
            "model": None if model < 0 else models[model],
            "behind": None if model < 0 else behind,
            "at_most": None if model < 0 else most,
        }
        for tag, model, behind, most in columns
    }
    return data | {"models": [models[model] for model in chosen.models.tolist()], "serves": serves}


def _rate(estimator: Estimators, table: VoteTable, **changed: Any) -> Rating:
    fitted = replace(estimator(), **changed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RatingWarning)
        return fitted.fit(table).result_


def rate_by_criterion(
    every: VoteFile, main: str, estimator: Estimators, weights: Mapping[str, float]
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
        own = VoteTable(table.votes.rows((said == tag).to_numpy()), table.annotated, table.kind)
        ratings[tag] = _rate(estimator, own)
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
