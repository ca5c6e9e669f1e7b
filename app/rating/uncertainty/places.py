"""The places of models: by their scores, and where a score is missing by the wins of the models over each other."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from app.rating.arrays import Floats, Indices, Mask
from app.rating.model.start import fit_bradley_terry
from app.rating.uncertainty.bounds import bound_differences
from app.rating.uncertainty.covariance import Covariance, contrast_errors, widenings
from app.rating.uncertainty.ranks import (
    bonferroni_multiple,
    class_ranks,
    order_together,
    rank_by,
    rank_range,
)
from app.rating.uncertainty.results import Estimate
from app.rating.units import ELO_PER_NATURAL
from app.rating.votes.graph import follow_wins, orient

DECIMALS = 6  # of Elo points; scores that agree to them share a rank


class Places(NamedTuple):
    """Ranks of the models, as in `ModelEstimates`, shape (n_models,) each."""

    rank: Indices
    best_rank: Indices
    worst_rank: Indices
    rank_set_best: Indices
    rank_set_worst: Indices
    class_rank: Indices


def find_places(rating: Estimate, ranked: Mask) -> Places:
    """Return the place of each model within its component; those that are not ranked follow, for order alone.

    Ranks and classes are of the differences of two scores, and so no other model moves them. A model without a score
    is above another where the bound on their difference says so.

    Parameters
    ----------
    ranked : models that get a place, shape (n_models,)
    """
    found = Places(*np.zeros((6, len(ranked)), dtype=np.int64))
    position = np.round(_positions(rating), DECIMALS)  # equal but for rounding: one rank
    for component in range(rating.components.number):
        here = rating.components.label == component
        members, others = np.flatnonzero(here & ranked), np.flatnonzero(here & ~ranked)
        rank = found.rank[members] = rank_by(position[members])
        found.rank[others] = rank_by(position[others]) + len(members)
        if rating.settings.interval == "none":
            found.best_rank[members] = found.worst_rank[members] = rank  # without intervals there is no spread
        elif len(members):
            orders = _order(rating, members)
            found.best_rank[members], found.worst_rank[members] = rank_range(orders.of_model)
            found.rank_set_best[members], found.rank_set_worst[members] = rank_range(orders.together)
            found.class_rank[members] = class_ranks(rank, orders.of_pair)
    return found


def _positions(rating: Estimate) -> Floats:
    """Return values by which the models are in order, Elo points: scores, as far as the wins do not say more.

    Models without a score are placed by the Bradley-Terry scores of their votes, with a weak prior, beside those of the
    others.
    """
    R = rating.natural_scores()
    counted = rating.components.label >= 0
    if rating.identified[counted].all():
        return ELO_PER_NATURAL * np.nan_to_num(R)
    pairs = orient(rating.cells, rating.bounding)
    R[~counted] = 0.0
    return follow_wins(pairs, ELO_PER_NATURAL * fit_bradley_terry(pairs, R))


class Orders(NamedTuple):
    """Which models are certainly above which, shape (n, n) each.

    Attributes
    ----------
    of_pair : wrong with probability α for one pair
    of_model : as clear as two intervals at α that do not overlap: by an interval √2 times as wide
    together : wrong with probability α for any pair at all
    """

    of_pair: Mask
    of_model: Mask
    together: Mask


def _order(rating: Estimate, members: Indices) -> Orders:
    """Return which members are certainly above which."""
    alpha, n = 1.0 - rating.settings.confidence, len(members)
    scored = np.flatnonzero(rating.identified[members])
    row = np.searchsorted(rating.small.models, members[scored])
    i, j = np.nonzero(np.triu(~(rating.identified[members][:, None] & rating.identified[members]), 1))
    pairs = n * (n - 1) / 2
    known = 1.0 - len(i) / max(pairs, 1.0)  # share of the pairs with two scores, and of the error probability
    found = Orders(*np.zeros((3, n, n), dtype=np.bool_))
    each = float(2.0 * ndtr(np.sqrt(2.0) * ndtri(alpha / 2.0)))
    if rating.covariance is not None and len(scored):
        inside = np.ix_(scored, scored)
        orders = _order_scores(rating, rating.covariance, row, (alpha, each), known * alpha)
        for order, of_scores in zip(found, orders, strict=True):
            order[inside] = of_scores
    if len(i):
        for order, level in zip(found, (alpha, each, alpha / pairs), strict=True):
            least, most = bound_differences(rating, level, members[i], members[j])
            order[i, j], order[j, i] = least > 0.0, most < 0.0
    return found


def _order_scores(
    rating: Estimate, spread: Covariance, row: Indices, alphas: tuple[float, float], alpha_together: float
) -> Orders:
    """Return which scores are certainly above which: each pair at one α and at another, and all together at a third."""
    R = rating.fit.R[row]
    every = np.ix_(row, row)
    covariance = spread.order[every]
    index = np.arange(len(row))
    errors = contrast_errors(covariance, index[:, None], index)
    errors[errors <= 1e-9 * errors.max()] = 0.0  # of a model with itself, and rounding
    freedom = spread.contrast_freedom(row[:, None], row, order=True)

    def standardise(at: float) -> Floats:
        wide = errors * widenings(at, freedom)
        z: Floats = np.divide(R[:, None] - R, wide, out=np.zeros_like(wide), where=errors > 0.0)
        return z

    together = np.zeros_like(errors, dtype=np.bool_)
    if alpha_together > 0.0:
        z = standardise(bonferroni_multiple(alpha_together, len(row)))
        together = order_together(z, errors, covariance, alpha_together)
    of_pair, of_model = (standardise(at) > at for at in (float(-ndtri(alpha / 2.0)) for alpha in alphas))
    return Orders(of_pair, of_model, together)
