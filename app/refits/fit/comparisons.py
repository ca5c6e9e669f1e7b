"""Leaderboards to compare the main one with: by other methods, of kinds, with style control, and of categories."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, get_args

import numpy as np

from app.rating.arrays import Floats, Mask
from app.rating.errors import RatingNotice, VotesError
from app.rating.judges.ballots import Ballots
from app.rating.judges.board import rate_judges
from app.rating.judges.comparison import JudgeComparison, compare
from app.rating.judges.planning import trace_widths
from app.rating.judges.sharpening import Sharpened, sharpen
from app.rating.plain.elo import fit_elo
from app.rating.settings import SIDE
from app.rating.uncertainty.freedom import critical_values
from app.rating.uncertainty.ranks import rank_by
from app.rating.uncertainty.results import ModelEstimates
from app.rating.verdict.categories import Categories, pool_categories
from app.rating.verdict.rating import Rating
from app.rating.verdict.round import run_round
from app.rating.verdict.style import Styled, control_style
from app.rating.votes.cells import Cells, pool_annotators
from app.rating.votes.measures import Features, measure_features, measure_known
from app.refits.fit.interface import DimensionResult, FitInput, LeaderboardName, StandingOut, StyleBoard, Whose
from app.refits.fit.parts import Parts
from app.votes.rules import criterion_tag

ELO_UPDATES = 10_000_000
"""How many votes Elo plays in all its shuffles together: about a second."""
FEWEST_SHUFFLES, MOST_SHUFFLES = 20, 1000


def fit_other_methods(
    fit_input: FitInput, cells: Cells, fitted: Rating, parts: Parts
) -> dict[LeaderboardName, ModelEstimates]:
    """Fit m-ELO on the votes that count ("m-elo") and on all votes ("m-elo-all"), and Elo ("elo") where it is cheap.

    `cells`: of all votes in the input.
    `fitted`: the main leaderboard's fit.
    """
    settings = replace(
        fit_input.settings, method="m-elo", flag_rule="threshold", exclude=False, release_margin=0.0, min_votes=0
    )
    counted, prompts = fitted.cells, fit_input.by_prompt()
    shuffles = int(min(MOST_SHUFFLES, ELO_UPDATES // counted.n_votes))
    methods: dict[str, Callable[[], ModelEstimates]] = {
        "m-elo": lambda: run_round(counted, settings, prompts=prompts).models,
        "m-elo-all": lambda: run_round(cells, settings, prompts=prompts).models,
    }
    if shuffles >= FEWEST_SHUFFLES:
        methods["elo"] = lambda: _fit_elo(counted, fitted, shuffles)
    return _compute_leaderboards(methods, parts, "method-board-omitted")


@dataclass(frozen=True)
class FittedKinds:
    """The leaderboards of people, of judges and of both, and how judges sharpen the people's; None where not."""

    leaderboards: dict[LeaderboardName, ModelEstimates] = field(default_factory=dict)
    sharpened: dict[str, Any] | None = None


def fit_kinds(fit_input: FitInput, cells: Cells, fitted: Rating, parts: Parts) -> FittedKinds:
    """Fit leaderboards of "people", "judges", "all" and "people+judges" where both vote; without a fit one is left out.

    Judges are rated with a lean of each (`app.rating.judges`), the others by the main leaderboard's method and rules.
    """
    if not fit_input.mixed:
        return FittedKinds()
    people: list[Rating] = []

    def fit_kind(whose: Whose) -> ModelEstimates:
        left_out = fit_input.left_out(whose)
        if whose == "judges":
            return _rate_judges(fit_input, ~left_out)
        rating = fitted if whose == fit_input.whose else _rate_anew(fit_input, cells, left_out)
        if whose == "people":
            people.append(rating)
        return rating.models

    kinds = {whose: partial(fit_kind, whose) for whose in get_args(Whose)}
    found = _compute_leaderboards(kinds, parts, "kind-board-omitted")
    together = parts.compute("leaderboard people+judges", lambda: _sharpen(fit_input, people[0])) if people else None
    if together is None or together.rating is None:
        if together is not None and together.part is not None and together.notice is not None:
            parts.notices.append(together.notice)
        return FittedKinds(found)
    account = {
        "people_votes": round(together.votes), "people_votes_worth": round(together.worth), **together.account(),
        "curve": [one._asdict() for one in trace_widths(together)],
    }  # fmt: skip
    return FittedKinds(found | {LeaderboardName("people+judges"): together.rating.models}, account)


def _sharpen(fit_input: FitInput, people: Rating) -> Sharpened:
    counted = ~fit_input.left_out("all")
    return sharpen(people, _ballots(fit_input).where(counted[fit_input.annotator]), ~fit_input.judges)


def _rate_anew(fit_input: FitInput, cells: Cells, left_out: Mask) -> Rating:
    """Rate these votes by the main leaderboard's rules, but without what they found before."""
    return run_round(
        cells,
        fit_input.settings,
        keep_always=fit_input.keep_always,
        keep_never=left_out,
        weigher=fit_input.weigher(fit_input.settings.evidence_tests),
        votes=fit_input.votes_by_annotator,
        prompts=fit_input.by_prompt(),
    )


def _compute_leaderboards(
    methods: Mapping[str, Callable[[], ModelEstimates]], parts: Parts, omitted: str
) -> dict[LeaderboardName, ModelEstimates]:
    made = {name: parts.compute(f"leaderboard {name}", work, omitted=omitted) for name, work in methods.items()}
    return {LeaderboardName(name): models for name, models in made.items() if models is not None}


def _rate_judges(fit_input: FitInput, judges: Mask) -> ModelEstimates:
    return rate_judges(_ballots(fit_input).of_annotators(judges), fit_input.settings).rating.models


def _ballots(fit_input: FitInput) -> Ballots:
    """Return all votes, with the policy's features; annotators and models are named by their ids."""
    votes, number = fit_input.indexed(np.ones(len(fit_input.outcome), dtype=np.bool_)), None
    if fit_input.battles is not None:
        known, place = np.unique(fit_input.battles, return_inverse=True)
        number = np.where(known[place] == 0, -1, place)
    return replace(Ballots.of(votes, number), style=_style(fit_input))


def compare_judges(fit_input: FitInput) -> JudgeComparison | None:
    """Compare the judges with the people, by tag too; None where one kind alone votes.

    Annotators excluded by a decision are left out. Annotators are named by their ids.
    Raises RatingError: nothing can be compared.
    """
    if not fit_input.mixed:
        return None
    counted = ~fit_input.left_out("all")
    votes = np.bincount(fit_input.annotator, minlength=len(counted))
    here = (counted & (votes > 0))[fit_input.annotator]
    human, bits = ~fit_input.judges | (votes == 0) | ~counted, fit_input.tag_bits
    categories = {} if bits is None else {tag: ((bits[here] >> i) & 1) > 0 for i, tag in enumerate(fit_input.tags)}
    return compare(_ballots(fit_input).where(here), human, fit_input.settings, categories=categories, declared=True)


def _style(fit_input: FitInput) -> Features | None:
    """Return what the answers of the votes differ in."""
    return None if fit_input.measures is None else measure_known(_by_feature(fit_input, fit_input.measures))


def _by_feature(fit_input: FitInput, measures: Floats) -> dict[str, tuple[Floats, Floats]]:
    names = [name for name in fit_input.policy.style_features if name != SIDE]
    return {name: (measures[:, 2 * j], measures[:, 2 * j + 1]) for j, name in enumerate(names)}


def fit_style_board(fit_input: FitInput, fitted: Rating, parts: Parts) -> StyleBoard | None:
    """Fit a leaderboard with style control, of the votes that count and have all features of the policy.

    Where some lack one, the others are fitted without features first. None where the policy declares no features.
    """
    names = fit_input.policy.style_features
    if not names:
        return None
    measures = fit_input.measures
    known: Mask = np.ones(len(fit_input.outcome), dtype=np.bool_)
    if measures is not None:
        known = np.asarray(np.isfinite(measures).all(axis=1))
    columns = {} if measures is None else _by_feature(fit_input, measures[known])
    counts = fitted.cells.votes_by_annotator() > 0
    counted = counts[fit_input.annotator]
    votes, left_out = int((counted & known).sum()), int((counted & ~known).sum())

    def fit() -> Styled:
        if not votes:
            raise VotesError(f"no vote that counts has all of the features {', '.join(names)}")
        base = fitted
        if left_out:
            again = fit_input.fit_again(counts, fitted.optimum, known)
            same = np.array_equal(again.small.models, fitted.small.models)
            base = replace(again, settings=fitted.settings, covariance=fitted.covariance if same else None)
        features = measure_features(names, columns, int(known.sum()))
        return control_style(base, fit_input.indexed(known), features)

    found = parts.compute("leaderboard with style control", fit, omitted="style-board-omitted")
    return StyleBoard(found, votes, left_out)


@dataclass(frozen=True)
class FittedCategories:
    """The leaderboards of categories, by tag and the weighted one, and how each dimension's differ."""

    tags: dict[str, Rating] = field(default_factory=dict)
    weighted: Rating | None = None
    dimensions: dict[str, DimensionResult] = field(default_factory=dict)


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
            weighted = every.weighted if found.weighted is None else found.weighted
            every = FittedCategories(every.tags | found.tags, weighted, every.dimensions | found.dimensions)
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
    weighted = None
    if weighed:
        share = np.array([fit_input.policy.category_weights.get(tag, 0.0) for tag in values] + [0.0] * bool(votes[-1]))
        weighted = found.mix(share / share.sum(), fitted.cells)
    return FittedCategories(
        tags, weighted, {name: DimensionResult(by_tag, found.tau, find_outliers(found, values, votes))}
    )


def _has_anchor(cells: Cells, fit_input: FitInput) -> bool:
    """Whether votes are on the anchor, so that the scores of these votes can be fixed by it."""
    if fit_input.settings.anchor is None:
        return True
    return bool(np.isin(fit_input.settings.anchor[0], [cells.model_a, cells.model_b]))


def find_outliers(found: Categories, tags: Sequence[str], votes: Sequence[float]) -> tuple[StandingOut, ...]:
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


def fit_criteria(fit_input: FitInput, parts: Parts) -> dict[str, Rating]:
    """Fit a leaderboard for every criterion by its own votes alone, abilities too, as the main one is; by its tag.

    A criterion without a fit is left out, with a notice.
    """
    found = dict[str, Rating]()
    for criterion, own in fit_input.criteria.items():
        part = f"leaderboard of the criterion {criterion!r}"
        work = partial(_rate_anew, own, own.cells(), fit_input.keep_never)
        rating = parts.compute(part, work, omitted="criterion-board-omitted")
        if rating is not None:
            found[criterion_tag(criterion)] = rating
    return found


def _fit_elo(cells: Cells, fitted: Rating, shuffles: int) -> ModelEstimates:
    """Rate by Elo over random orders of the votes. The standard error is that of the mean over the orders.

    The votes are sorted before they are shuffled, so that the same votes give the same leaderboard.
    """
    pooled = pool_annotators(cells)
    counts = np.stack([pooled.s - pooled.ties / 2.0, pooled.ties, pooled.n - pooled.s - pooled.ties / 2.0], axis=1)
    repeats = counts.astype(np.int64).ravel()
    voted, pair = np.unique(np.stack([pooled.model_a, pooled.model_b]), return_inverse=True)
    a, b = np.repeat(pair.reshape(2, -1), 3, axis=1).repeat(repeats, axis=1)
    outcome = np.tile([1.0, 0.5, 0.0], len(pooled.n)).repeat(repeats)
    result = fit_elo(a, b, outcome, n_models=len(voted), initial=fitted.settings.base, shuffles=shuffles)
    main = fitted.models  # of the same votes
    score, sem, nothing = np.full((3, cells.n_models), np.nan)
    score[voted], sem[voted] = result.score, result.sem
    if fitted.settings.anchor is not None:
        model, points = fitted.settings.anchor
        score[main.component == main.component[model]] += points - score[model]
    rank = np.zeros(cells.n_models, dtype=np.int64)
    for component in range(fitted.diagnostics.components):
        members = (main.component == component) & ~main.provisional
        later = (main.component == component) & main.provisional
        rank[members], rank[later] = rank_by(score[members]), rank_by(score[later]) + members.sum()
    unknown = np.zeros_like(rank)
    return replace(
        main,
        score=score,
        se=sem,
        lower=nothing,
        upper=nothing,
        identified=np.isfinite(score),
        rank=rank,
        best_rank=rank,
        worst_rank=rank,
        rank_set_best=unknown,
        rank_set_worst=unknown,
        class_rank=unknown,
        sureness=np.zeros_like(main.sureness),
    )
