from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Indices, Mask, sum_by
from app.rating.errors import VotesError
from app.rating.settings import LoopSettings
from app.rating.uncertainty.bounds import unscored_bounds
from app.rating.uncertainty.ranks import (
    class_ranks,
    pairwise_confidence,
    rank_by,
    rank_spread,
    simultaneous_ranks,
    win_probabilities,
)
from app.rating.uncertainty.results import Estimate, ModelEstimates
from app.rating.units import ELO_PER_NATURAL
from app.rating.votes.cells import Cells

SMALL_TABLE = 1 << 26  # bytes: a table of annotators and models that fits into memory beside the fit
DECIMALS = 6  # of Elo points; scores that agree to them share a rank


def make_model_estimates(rating: Estimate) -> ModelEstimates:
    """Convert a rating to what is published: Elo points, intervals, ranks within each component.

    Raises
    ------
    VotesError
        The anchor model has no score.
    """
    settings, identified, size = rating.settings, rating.identified, rating.cells.n_models
    offset = _offset(rating)
    score = offset + ELO_PER_NATURAL * rating.natural_scores()
    se = np.full(size, np.nan)
    lower, upper = np.full(size, np.nan), np.full(size, np.nan)
    if rating.covariance is not None:
        se[rating.small.models] = ELO_PER_NATURAL * np.sqrt(rating.covariance.variance)
        below, above = rating.covariance.reaches(settings.confidence)
        lower[rating.small.models] = score[rating.small.models] - ELO_PER_NATURAL * below
        upper[rating.small.models] = score[rating.small.models] + ELO_PER_NATURAL * above
    low, high = unscored_bounds(rating, settings.confidence)
    rest = ~identified & (rating.components.label >= 0)
    lower[rest], upper[rest] = offset[rest] + low[rest], offset[rest] + high[rest]
    counts = _counts(rating.pairs)
    provisional = find_provisional(rating.cells, settings, votes=counts[0], width=upper - lower)
    ranked = identified & ~provisional
    rank, best, worst = _rank(rating, score, lower, upper, ranked)
    return ModelEstimates(
        score, se, lower, upper, rank, best, worst, *_rank_sets(rating, ranked),
        _classes(rating, rank, lower, upper, ranked), *counts,
        component=rating.components.label, identified=identified, provisional=provisional,
    )  # fmt: skip


def find_provisional(cells: Cells, settings: LoopSettings, *, votes: Floats, width: Floats) -> Mask:
    """Return which models have too few votes or annotators, or too wide an interval, to be ranked, shape (n_models,).

    Parameters
    ----------
    votes : counted votes of each model
    width : of its interval; NaN without one, infinite for a bound on one side
    """
    few = votes < settings.min_model_votes
    if settings.min_model_annotators > 0:
        few |= _count_annotators(cells) < settings.min_model_annotators
    if settings.max_interval_width is not None:
        few |= np.isfinite(width) & (width > settings.max_interval_width)
    return few & (votes > 0)


def _count_annotators(cells: Cells) -> Indices:
    """Return how many annotators have a counted vote on each model."""
    size = cells.n_models
    pair = np.concatenate([cells.annotator.astype(np.int64) * size + model for model in (cells.model_a, cells.model_b)])
    if cells.n_annotators * size <= SMALL_TABLE:  # several times faster than to sort the pairs
        seen = np.zeros(cells.n_annotators * size, dtype=np.bool_)
        seen[pair] = True
        counts: Indices = np.count_nonzero(seen.reshape(cells.n_annotators, size), axis=0)
        return counts
    return np.bincount(np.unique(pair) % size, minlength=size).astype(np.int64)


def check_anchor(settings: LoopSettings, identified: Mask) -> None:
    """Raise where the anchor model has no score.

    Raises
    ------
    VotesError
    """
    if settings.anchor is not None and not identified[settings.anchor[0]]:
        raise VotesError("the anchor model has no score: it has no counted votes, or only won, or only lost")


def _offset(rating: Estimate) -> Floats:
    """Return the Elo points to add to each model: the base, or the shift that gives the anchor its points."""
    offset = np.full(rating.cells.n_models, rating.settings.base)
    if rating.settings.anchor is None:
        return offset
    model, points = rating.settings.anchor
    check_anchor(rating.settings, rating.identified)
    R = rating.natural_scores()[model]
    offset[rating.components.label == rating.components.label[model]] = points - ELO_PER_NATURAL * R
    return offset


def _rank(
    rating: Estimate, score: Floats, lower: Floats, upper: Floats, ranked: Mask
) -> tuple[Indices, Indices, Indices]:
    """Return rank, best and worst rank among the ranked models of a component.

    The others follow in an order of their own, by score or lower bound, and have no best and worst rank.
    """
    rank, best, worst = (np.zeros(len(score), dtype=np.int64) for _ in range(3))
    known = [np.isfinite(x) for x in (score, lower)]
    position = np.round(np.select(known, [score, lower], -np.inf), DECIMALS)  # equal but for rounding: one rank
    for component in range(rating.components.number):
        here = rating.components.label == component
        members, others = np.flatnonzero(here & ranked), np.flatnonzero(here & ~ranked)
        rank[members] = rank_by(position[members])
        rank[others] = rank_by(position[others]) + len(members)
        if rating.covariance is None:
            best[members] = worst[members] = rank[members]  # without intervals there is no spread
        else:
            best[members], worst[members] = rank_spread(lower[members], upper[members])
    return rank, best, worst


def _classes(rating: Estimate, rank: Indices, lower: Floats, upper: Floats, ranked: Mask) -> Indices:
    """Return the class of each ranked model, within its component."""
    classes = np.zeros(len(rank), dtype=np.int64)
    for component in range(rating.components.number):
        members = np.flatnonzero((rating.components.label == component) & ranked)
        classes[members] = class_ranks(rank[members], lower[members], upper[members])
    return classes


def _rank_sets(rating: Estimate, ranked: Mask) -> tuple[Indices, Indices]:
    """Return the best and worst rank of each ranked model's simultaneous rank set, 0 without intervals."""
    models, spread = rating.small.models, rating.covariance
    label = np.where(ranked, rating.components.label, -1)[models]
    first, last = np.zeros((2, len(ranked)), dtype=np.int64)
    if spread is None:
        return first, last
    R = rating.fit.R
    for component in range(rating.components.number):
        scored = np.flatnonzero(label == component)
        confidence, half = pairwise_confidence(rating.settings.confidence, len(scored)), np.zeros((len(scored),) * 2)
        i, j = np.triu_indices(
            len(scored), 1
        )  # of a difference and its negative one is enough: quantiles of t are slow
        half[i, j] = half[j, i] = spread.contrast_half_widths(confidence, scored[i], scored[j], order=True)
        first[models[scored]], last[models[scored]] = simultaneous_ranks(R[scored], half)
    return first, last


def _counts(cells: Cells) -> tuple[Floats, Floats, Floats, Floats]:
    """Return votes, wins, ties and losses of each model, shape (n_models,) each."""
    size = cells.n_models
    won_a, lost_a = cells.wins_a, cells.wins_b

    def total(of_a: Floats, of_b: Floats) -> Floats:
        return sum_by(cells.model_a, of_a, size) + sum_by(cells.model_b, of_b, size)

    return (
        total(cells.n, cells.n),
        total(won_a, lost_a),
        total(cells.ties, cells.ties),
        total(lost_a, won_a),
    )


@dataclass(frozen=True)
class Matchups:
    """Predictions for pairs of models, arrays of shape (n_pairs,).

    Attributes
    ----------
    model_a, model_b : indices
    probability : that model_a beats model_b for the mean annotator, a tie being half a win for each; NaN where one
        has no score, or they are in different components
    lower, upper : ends of its interval; NaN without intervals
    """

    model_a: Indices
    model_b: Indices
    probability: Floats
    lower: Floats
    upper: Floats


def predict_matchups(
    rating: Estimate, settings: LoopSettings, pairs: tuple[Indices, Indices] | None = None
) -> Matchups:
    """Predict P(a beats b) = σ(R_a − R_b), R in units of the mean ability, with intervals made on the log-odds.

    Parameters
    ----------
    settings : of the rating; the intervals have its confidence
    pairs : model_a and model_b, shape (n_pairs,) each; default every pair a < b of a component in which both have a
        score, in ascending order

    Notes
    -----
    The interval uses the covariance of the two scores, so it is narrower than their own errors suggest. O(n_pairs).
    """
    component = np.where(rating.identified, rating.components.label, -1)
    if pairs is None:
        first, second = np.triu_indices(len(rating.small.models), 1)
        model_a, model_b = rating.small.models[first], rating.small.models[second]
        same = component[model_a] == component[model_b]
        model_a, model_b = model_a[same], model_b[same]
    else:
        model_a, model_b = pairs
    scored = (component[model_a] == component[model_b]) & (component[model_a] >= 0)
    row = np.zeros(len(component), dtype=np.int64)
    row[rating.small.models] = np.arange(len(rating.small.models))
    R = rating.natural_scores()
    difference, half = R[model_a] - R[model_b], np.full(len(model_a), np.nan)
    spread = rating.covariance
    if spread is not None:
        half = spread.contrast_half_widths(settings.confidence, row[model_a], row[model_b])
    predicted = win_probabilities(np.where(scored, difference, np.nan), half)
    return Matchups(model_a, model_b, predicted.probability, predicted.lower, predicted.upper)
