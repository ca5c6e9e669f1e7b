"""The strategy of a fit: what is tried, in this order, until votes have a result, or an error that says why.

How often each step acts is of 600 tiny worlds (few annotators, up to 30 votes each) and 600 crowds.

1. Start from earlier results, else from the default (`fit_models`). Every refit but the first has them. The fit from
   them fails where the votes have changed: 37 times.
2. Several default starts (`am_elo`). Of fewer than 20 annotators it is open which to believe.
3. Leave a saddle point on both sides (`fit_models`). Votes of 20 annotators or more may tie in sum: 0 times, but a test
   has such a crowd.
4. Bar the models whose scores diverge, and fit the rest. A model's only win may be by an annotator that the others
   contradict: about 970 models.
5. Fit groups that no vote links apart, with abilities of 1 where they are undecided. Two annotators may contradict each
   other beside a crowd: 71 times.
6. Halve the sd of the prior, and begin anew. So few votes that abilities and scores can fit almost all of them have no
   maximum: about 270 times.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices, Mask
from app.rating.errors import (
    NoCommonRankingError,
    NoFiniteScoreError,
    NotConvergedError,
    SaddlePointError,
    VotesError,
)
from app.rating.fit.am_elo import FEW
from app.rating.fit.m_elo import fit_m_elo, fit_m_elo_unchecked
from app.rating.fit.prior_spread import ASSUMED, DEFAULT, LEAST
from app.rating.fit.result import FitResult
from app.rating.fit.scale import find_scale
from app.rating.fit.solution import Solution, Start, fit_models, publish
from app.rating.fit.weights import scale_votes
from app.rating.settings import LoopSettings
from app.rating.votes.cells import Cells
from app.rating.votes.compact import Compact, compact, pool_annotators
from app.rating.votes.graph import Components, find_components, find_identified

MOST_RATED = 4_096  # models; a square matrix of them is 134 MB
IDENTIFICATION_ROUNDS = 6  # thousands of small simulated arenas needed at most five, apart from cycles
SURE = -math.log(np.finfo(float).eps)  # 36 natural units: P(win) is 1 in double precision


class Fitted(NamedTuple):
    """A fit of votes.

    Attributes
    ----------
    pairs : the pair table of the votes
    components : of their comparison graph
    identified : models with a finite score, shape (n_models,)
    small : the cells between identified models, renumbered
    solution : of `small`
    """

    pairs: Cells
    components: Components
    identified: Mask
    small: Compact
    solution: Solution


def fit_votes(cells: Cells, settings: LoopSettings, start: Start | None = None) -> Fitted:
    """Fit the settings' method to the models whose scores the votes identify.

    Which models these are depends on the signs of the abilities, and these on the fit: both are iterated until they
    agree, starting from positive abilities. A model is barred, and the rest fitted again, where its score diverges
    although the signs say that it is finite: its only win (or loss) is by an annotator that the others contradict, and
    that ability goes to 0 at a bounded cost. So is a model whose few annotators contradict each other so that believing
    either is as good (a saddle point), and, where signs and models do not agree after six rounds, a model that is
    identified in one round and not in the next.

    So few votes that abilities and scores can fit almost all of them have no maximum, or one for few of the models. The
    prior's sd is then halved until they have one: with it the abilities come nearer to 1, and am-ELO to m-ELO.

    Raises
    ------
    VotesError
        Votes on more than 4,096 models.
    NotConvergedError
        m-ELO or plain am-ELO: the solver failed, or half of the scores diverge. With a prior: with an sd of .1 or less
        six fits with fewer and fewer models failed, or one without a score that diverges, or half of them do.
    NoFiniteMaximumError, NoCommonRankingError
    """
    pairs = pool_annotators(cells)
    components = find_components(pairs)
    models = int((components.label >= 0).sum())
    if models > MOST_RATED:
        detail = f"at most {MOST_RATED:,} models can be rated at once; the votes compare {models:,}"
        raise VotesError(detail, "too-many")
    first = find_identified(pairs, components, np.ones(1))
    identified, barred, rounds = first, np.zeros(cells.n_models, dtype=bool), 0
    while True:
        rounds += 1
        small = compact(_between(cells, identified), identified)
        label = components.label[small.models]
        try:
            try:
                solution = fit_models(small, label, settings, start)
            except NotConvergedError as failure:
                if settings.prior_sd is not None and rounds > IDENTIFICATION_ROUNDS:
                    raise
                recovered = _bar_or_fit_apart(failure, small, label, settings, barred)
                if recovered is None:
                    identified = find_identified(_between(pairs, ~barred), components, np.ones(1))
                    continue
                solution = recovered
        except NotConvergedError:
            sd = _assumed_sd(settings)
            if settings.method == "m-elo" or sd is None or sd <= LEAST:
                raise
            settings = replace(settings, prior_sd=sd / 2.0)
            identified, barred, rounds = first, np.zeros_like(barred), 0
            continue
        sign = np.ones(cells.n_annotators)
        sign[small.annotators] = solution.fit.theta
        agreed = find_identified(_between(cells, ~barred), components, sign)
        if np.array_equal(agreed, identified):
            return Fitted(pairs, components, identified, small, solution)
        if rounds >= IDENTIFICATION_ROUNDS:
            barred |= identified & ~agreed
        identified = agreed


def _assumed_sd(settings: LoopSettings) -> float | None:
    return ASSUMED if settings.prior_sd == "estimated" else settings.prior_sd


def _bar_or_fit_apart(
    failure: NotConvergedError, small: Compact, label: Indices, settings: LoopSettings, barred: Mask
) -> Solution | None:
    """Bar the models because of which a fit failed, and return None; or return a fit of its groups by themselves."""
    if settings.method == "m-elo":
        raise failure  # the objective is concave and has a maximum, so no score diverges
    out = _diverged(small.cells, label, failure.R)
    if not out.any():
        if settings.prior_sd is None:
            raise failure
        try:
            return fit_groups_apart(small.cells, label, settings)
        except SaddlePointError:
            if not isinstance(failure, SaddlePointError):
                raise
            out = _beyond_the_gap(np.abs(failure.direction))
    if 2 * out.sum() >= len(out):
        raise failure  # not because of some models
    barred[small.models[out]] = True
    return None


def _between(cells: Cells, kept: Mask) -> Cells:
    """Return the cells between two of these models."""
    return cells if kept.all() else cells.where(kept[cells.model_a] & kept[cells.model_b])


def _diverged(cells: Cells, label: Indices, R: Floats) -> Mask:
    """Return the models whose scores diverge: those furthest from m-ELO's, if one is further away than `SURE`."""
    try:
        known = fit_m_elo(cells, label).R
    except (NoFiniteScoreError, NotConvergedError):
        known = np.zeros(len(R))
    moved = np.abs(R - _median_score(R, label) - (known - _median_score(known, label)))
    diverged: Mask = _beyond_the_gap(moved) & (moved.max() > SURE)
    return diverged


def _beyond_the_gap(distance: Floats) -> Mask:
    """Mark the largest of these distances: all beyond the widest gap between neighbours, of which the first is 0."""
    ascending = np.sort(distance)
    beyond: Mask = distance >= ascending[np.argmax(np.diff(ascending, prepend=0.0))]
    return beyond


def _median_score(R: Floats, label: Indices) -> Floats:
    """Return the median score of each model's component, shape (n_models,)."""
    middle = np.empty(len(R))
    for component in np.unique(label):
        middle[label == component] = np.median(R[label == component])
    return middle


def fit_groups_apart(cells: Cells, component: Indices, settings: LoopSettings) -> Solution:
    """Fit each group of models and annotators that votes link by itself, where `fit_models` fails.

    A small group without a stable maximum keeps abilities of 1, so that its scores are m-ELO's
    (`FitResult.undecided`). For example, of two annotators who contradict each other either may be the better one.

    Raises
    ------
    NotConvergedError, NoCommonRankingError
        A group of 20 annotators or more has no maximum; `SaddlePointError` where it has two that are as good.

    Notes
    -----
    The likelihood is a product over the groups, so the objective is the same. A prior to be estimated gets sd 1.
    Votes of undecided groups have the weight 1.
    """
    scale, sd = find_scale(cells), _assumed_sd(settings)
    alone = replace(settings, prior_sd=sd)
    R, theta = np.zeros(cells.n_models), np.ones(cells.n_annotators)
    at_cap, undecided = np.zeros((2, cells.n_annotators), dtype=bool)
    log_likelihood, iterations = 0.0, 0
    weight, by_ability = np.ones(len(cells.n)), np.ones(cells.n_annotators)
    for group in range(scale.number):
        inside = scale.annotators[cells.annotator] == group
        mine = compact(cells.where(inside))
        label = component[mine.models]
        try:
            fit = fit_models(mine, label, alone).fit
        except (NotConvergedError, NoCommonRankingError):
            if len(mine.annotators) >= FEW:
                raise
            fit = fit_m_elo_unchecked(mine.cells, label)
            undecided[mine.annotators] = True
        R[mine.models], theta[mine.annotators], at_cap[mine.annotators] = fit.R, fit.theta, fit.at_cap
        if fit.weighted is not None:
            weight[inside], by_ability[mine.annotators] = fit.weights(mine.cells), fit.weighted.by_ability
        log_likelihood, iterations = log_likelihood + fit.log_likelihood, max(iterations, fit.iterations)
    prior = DEFAULT if settings.prior_sd == "estimated" else None
    weighted = scale_votes(cells, weight, by_ability)
    whole = FitResult(R, theta, at_cap, log_likelihood, iterations, undecided, sd, prior, weighted)
    return publish(whole, None, cells, component)
