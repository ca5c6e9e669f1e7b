"""Leaderboards to compare the main one with: by other methods, of kinds, and with style control."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, get_args

import numpy as np

from app.rating.arrays import Floats, Mask
from app.rating.errors import VotesError
from app.rating.judges.ballots import Ballots
from app.rating.judges.board import rate_judges
from app.rating.judges.comparison import JudgeComparison, compare
from app.rating.judges.planning import trace_widths
from app.rating.judges.sharpening import Sharpened, sharpen
from app.rating.plain.elo import fit_elo
from app.rating.settings import SIDE
from app.rating.uncertainty.ranks import rank_by
from app.rating.uncertainty.results import ModelEstimates
from app.rating.verdict.rating import Rating
from app.rating.verdict.round import run_round
from app.rating.verdict.style import Styled, control_style
from app.rating.votes.cells import Cells, pool_annotators
from app.rating.votes.measures import Features, measure_features, measure_known
from app.refits.fit.interface import FitInput, LeaderboardName, StyleBoard, Whose
from app.refits.fit.parts import Parts

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
        rating = fitted if whose == fit_input.whose else rate_anew(fit_input, cells, left_out)
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


def rate_anew(fit_input: FitInput, cells: Cells, left_out: Mask) -> Rating:
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
