"""Leaderboards of the categories of votes and of criteria, and of all of a dimension with the policy's weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from app.rating.arrays import Mask
from app.rating.errors import RatingNotice, VotesError
from app.rating.uncertainty.freedom import critical_values
from app.rating.verdict.categories import Categories, pool_categories
from app.rating.verdict.criteria import Criteria
from app.rating.verdict.rating import Rating
from app.rating.votes.cells import Cells
from app.refits.fit.comparisons import rate_anew
from app.refits.fit.interface import DimensionResult, FitInput, StandingOut
from app.refits.fit.parts import Parts
from app.votes.rules import OVERALL, criterion_of, criterion_tag


@dataclass(frozen=True)
class FittedCategories:
    """The leaderboards of categories or criteria, by tag and the weighted one, and how each dimension's differ."""

    tags: dict[str, Rating] = field(default_factory=dict)
    weighted: Rating | None = None
    dimensions: dict[str, DimensionResult] = field(default_factory=dict)

    def __or__(self, other: "FittedCategories") -> "FittedCategories":
        """Return the leaderboards of both; the policy's weights are of one of them."""
        return FittedCategories(
            self.tags | other.tags, other.weighted or self.weighted, self.dimensions | other.dimensions
        )


def fit_categories(fit_input: FitInput, fitted: Rating, parts: Parts) -> FittedCategories:
    """Fit a leaderboard for every category with counted votes, those of a dimension pooled with each other.

    A dimension without a fit is left out, with a notice.
    """
    every = FittedCategories()
    counted = (fitted.cells.votes_by_annotator() > 0)[fit_input.annotator]
    for name, unordered in fit_input.dimensions.items():
        values = tuple(sorted(unordered))  # a refit that is made again does not know the order
        work = partial(_fit_dimension, fit_input, fitted, name, values, counted, parts)
        found = parts.compute(f"leaderboard of {', '.join(values)}", work, omitted="tag-board-omitted")
        if found is not None:
            every |= found
    return every


def _fit_dimension(
    fit_input: FitInput, fitted: Rating, name: str, values: Sequence[str], counted: Mask, parts: Parts
) -> FittedCategories:
    """Return the leaderboards of the categories of one dimension, none without a counted vote."""
    place = fit_input.find_category(values)
    votes = np.bincount(place[counted], minlength=len(values) + 1).tolist()
    by_tag = dict(zip((*values, ""), votes, strict=True))
    weighed = set(fit_input.policy.category_weights) & set(values)
    if weighed and (unknown := sorted(tag for tag in weighed if not by_tag[tag])):
        detail = f"the weight of {', '.join(unknown)} is for no vote: no counted vote has the tag"
        parts.notices.append(RatingNotice("weight-without-votes", detail))
    if not sum(votes[:-1]):
        return FittedCategories()
    if max(votes) == sum(votes):  # a category of all votes is the main leaderboard
        dimensions = {name: DimensionResult(by_tag, None, ())}
        return FittedCategories({values[votes.index(max(votes))]: fitted}, fitted if weighed else None, dimensions)
    cells = [fit_input.cells(counted & (place == number)) for number in range(len(values) + bool(votes[-1]))]
    found = pool_categories(fitted, cells)
    tags = {}
    for number, tag in enumerate(values):
        if votes[number] and not _has_anchor(cells[number], fit_input):
            detail = f"there is no leaderboard of {tag}: no counted vote of the category is on the policy's anchor"
            parts.notices.append(RatingNotice("tag-board-omitted", detail))
        elif votes[number]:
            tags[tag] = found.rating(number)
    named = (*values, "") if votes[-1] else values
    weighted = weigh(found, named, fit_input.policy.category_weights) if weighed else None
    outliers = find_outliers(found, values, votes)
    return FittedCategories(tags, weighted, {name: DimensionResult(by_tag, found.tau, outliers)})


def fit_criteria(fit_input: FitInput, fitted: Rating, parts: Parts) -> FittedCategories:
    """Fit a leaderboard for every criterion by its own votes alone, abilities too, as the main one is.

    A criterion without a fit is left out, with a notice, and so is the weighted leaderboard then.
    """
    tags, weights = dict[str, Rating](), fit_input.policy.category_weights
    for criterion, own in fit_input.criteria.items():
        part = f"leaderboard of the criterion {criterion!r}"
        work = partial(rate_anew, own, own.cells(), fit_input.keep_never)
        rating = parts.compute(part, work, omitted="criterion-board-omitted")
        if rating is not None:
            tags[criterion_tag(criterion)] = rating
    weighted = None
    if any(criterion_of(tag) is not None for tag in weights):
        rated = {criterion_tag(OVERALL): fitted} | tags
        found = Criteria(fitted, list(rated.values()))
        work = partial(weigh, found, list(rated), weights)
        weighted = parts.compute("leaderboard weighted", work, omitted="method-board-omitted")
    return FittedCategories(tags, weighted)


def weigh(found: Categories | Criteria, names: Sequence[str], weights: Mapping[str, float]) -> Rating:
    """Return the leaderboard of the mean of the scores with these weights.

    Parameters
    ----------
    names : of the categories or criteria
    weights : by name; others have none

    Raises
    ------
    VotesError
        A weight is for none of them, or `Criteria.weigh`.
    """
    if unknown := sorted(set(weights) - set(names)):
        raise VotesError(f"the weight of {', '.join(unknown)} is for no leaderboard")
    share = np.array([weights.get(name, 0.0) for name in names])
    return found.weigh(share / share.sum())


def _has_anchor(cells: Cells, fit_input: FitInput) -> bool:
    """Whether votes are on the anchor, so that the scores of these votes can be fixed by it."""
    if fit_input.settings.anchor is None:
        return True
    return bool(np.isin(fit_input.settings.anchor[0], [cells.model_a, cells.model_b]))


def find_outliers(found: Categories | Criteria, tags: Sequence[str], votes: Sequence[float]) -> tuple[StandingOut, ...]:
    """Return the models whose scores in a category differ from those of all votes, with Bonferroni's correction."""
    spread, here = found.whole.covariance, [number for number in range(len(tags)) if votes[number]]
    if spread is None:
        return ()
    models = found.whole.small.models
    level = 1.0 - (1.0 - found.whole.settings.confidence) / (len(models) * len(here))
    outliers: list[StandingOut] = []
    for number in here:
        difference, se = (each[models] for each in found.differences(number))
        half = critical_values(spread.freedom, level) * se
        for i in np.flatnonzero(np.abs(difference) > half).tolist():
            middle, reach = float(difference[i]), float(half[i])
            outliers.append(StandingOut(int(models[i]), tags[number], middle, middle - reach, middle + reach))
    return tuple(sorted(outliers, key=lambda one: -abs(one.difference)))
