from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Indices, Mask, sum_by
from app.rating.errors import VotesError
from app.rating.fit.scale import ELO_PER_NATURAL
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
    scale = np.ones(size)
    scale[rating.small.models] = ELO_PER_NATURAL * rating.unit
    offset = _offset(rating, scale)
    score = offset + scale * rating.scores()
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
    rank, best, worst = _rank(rating, score, lower, upper, provisional)
    return ModelEstimates(
        score, se, lower, upper, rank, best, worst, *_rank_sets(rating, provisional),
        _classes(rating, rank, lower, upper, provisional), *counts,
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


def _offset(rating: Estimate, scale: Floats) -> Floats:
    """Return the Elo points to add to each model: the base, or the shift that gives the anchor its points."""
    offset = np.full(rating.cells.n_models, rating.settings.base)
    if rating.settings.anchor is None:
        return offset
    model, points = rating.settings.anchor
    check_anchor(rating.settings, rating.identified)
    R = rating.scores()[model]
    offset[rating.components.label == rating.components.label[model]] = points - scale[model] * R
    return offset


def _rank(
    rating: Estimate, score: Floats, lower: Floats, upper: Floats, provisional: Mask
) -> tuple[Indices, Indices, Indices]:
    """Return rank, best and worst rank. Provisional models follow the others, and have no best and worst rank."""
    rank, best, worst = (np.zeros(len(score), dtype=np.int64) for _ in range(3))
    for component in range(rating.components.number):
        members = np.flatnonzero(rating.components.label == component)
        position = _positions(score[members], lower[members], upper[members])
        later = provisional[members]
        rank[members[~later]] = rank_by(position[~later])
        rank[members[later]] = rank_by(position[later]) + int((~later).sum())
        members = members[~later]
        if rating.covariance is None and rating.identified[members].all():
            best[members] = worst[members] = rank[members]  # without intervals there is no spread
        else:
            ends = (np.where(np.isnan(x[members]), score[members], x[members]) for x in (lower, upper))
            best[members], worst[members] = rank_spread(*ends)
    return rank, best, worst


def _classes(rating: Estimate, rank: Indices, lower: Floats, upper: Floats, provisional: Mask) -> Indices:
    """Return the class of each model with a score and a rank, within its component."""
    classes = np.zeros(len(rank), dtype=np.int64)
    ranked = rating.identified & ~provisional
    for component in range(rating.components.number):
        members = np.flatnonzero((rating.components.label == component) & ranked)
        classes[members] = class_ranks(rank[members], lower[members], upper[members])
    return classes


def _rank_sets(rating: Estimate, provisional: Mask) -> tuple[Indices, Indices]:
    """Return the best and worst rank of each model's simultaneous rank set, 0 without intervals or for no rank.

    Models without a score may have any rank of their component.
    """
    label = np.where(provisional, -1, rating.components.label)
    models, spread = rating.small.models, rating.covariance
    first, last = np.zeros((2, len(label)), dtype=np.int64)
    if rating.settings.interval == "none":
        return first, last
    R = rating.unit * rating.fit.scores
    for component in range(rating.components.number):
        members, scored = np.flatnonzero(label == component), np.flatnonzero(label[models] == component)
        first[members], last[members] = 1, len(members)
        if spread is None or len(scored) == 0:
            continue
        confidence, half = pairwise_confidence(rating.settings.confidence, len(scored)), np.zeros((len(scored),) * 2)
        i, j = np.triu_indices(
            len(scored), 1
        )  # of a difference and its negative one is enough: quantiles of t are slow
        half[i, j] = half[j, i] = spread.contrast_half_widths(confidence, scored[i], scored[j], order=True)
        best, worst = simultaneous_ranks(R[scored], half)
        first[models[scored]], last[models[scored]] = best, worst + len(members) - len(scored)
    return first, last


def _positions(score: Floats, lower: Floats, upper: Floats) -> Floats:
    """Return where the models of a component are ranked.

    A score is its own position. A model without one is placed no higher than its votes prove: by its lower bound (by
    the middle of two bounds). A model with only an upper bound comes after these, or lower if the bound says so. Models
    without a bound are in the middle.
    """
    position = np.where(np.isnan(score), lower, score)
    both = np.isnan(score) & np.isfinite(lower) & np.isfinite(upper)
    position[both] = (lower[both] + upper[both]) / 2.0
    proven, lost = np.isfinite(position), ~np.isfinite(position) & np.isfinite(upper)
    position[lost] = np.minimum(upper[lost], np.min(position[proven], initial=np.inf) - 1.0)
    placed = proven | lost
    position[~placed] = np.mean(position[placed]) if placed.any() else 0.0
    np.round(position, DECIMALS, out=position)  # scores that are equal but for rounding share a rank
    return position


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
    unit, row = np.ones(len(component)), np.zeros(len(component), dtype=np.int64)
    unit[rating.small.models] = rating.unit
    row[rating.small.models] = np.arange(len(rating.small.models))
    R = unit * rating.scores()
    difference, half = R[model_a] - R[model_b], np.full(len(model_a), np.nan)
    spread = rating.covariance
    if spread is not None:
        half = spread.contrast_half_widths(settings.confidence, row[model_a], row[model_b])
    predicted = win_probabilities(np.where(scored, difference, np.nan), half)
    return Matchups(model_a, model_b, predicted.probability, predicted.lower, predicted.upper)
