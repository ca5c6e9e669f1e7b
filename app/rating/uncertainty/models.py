"""What is published of the models: Elo points, intervals, and places by scores or by the wins over each other."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from app.rating.arrays import Floats, Indices, Mask, sum_by, sum_by_key
from app.rating.errors import VotesError
from app.rating.exchange import total
from app.rating.model.start import fit_bradley_terry
from app.rating.settings import LoopSettings
from app.rating.uncertainty.bounds import bound_differences, unscored_bounds
from app.rating.uncertainty.centre import centred_errors, centred_scores
from app.rating.uncertainty.covariance import Covariance, contrast_errors
from app.rating.uncertainty.freedom import widen, widenings
from app.rating.uncertainty.ranks import (
    bonferroni_multiple,
    class_ranks,
    order_together,
    rank_by,
    rank_range,
    sureness,
)
from app.rating.uncertainty.results import Estimate, ModelEstimates
from app.rating.units import ELO_PER_NATURAL
from app.rating.votes.cells import Cells
from app.rating.votes.graph import follow_wins, orient


def make_model_estimates(rating: Estimate) -> ModelEstimates:
    """Convert a rating to what is published: Elo points, intervals, ranks within each component.

    Raises
    ------
    VotesError
        The anchor model has no score.
    """
    settings, identified, label = rating.settings, rating.identified, rating.components.label
    centred = centred_scores(rating)
    centre = np.full(len(centred), settings.base)
    if settings.anchor is not None:
        model, points = settings.anchor
        if not identified[model]:
            raise VotesError("the anchor model has no score: it has no counted votes, or only won, or only lost")
        centre[label == label[model]] = points - centred[model]
    score = centre + centred
    se, half = centred_errors(rating, settings.confidence)
    lower, upper = score - half, score + half
    low, high = unscored_bounds(rating, settings.confidence)
    rest = ~identified & (label >= 0)
    lower[rest], upper[rest] = (centre + low)[rest], (centre + high)[rest]
    columns: dict[str, Any] = _counts(rating.pairs)
    provisional = find_provisional(rating.cells, settings, label >= 0, votes=columns["votes"], width=upper - lower)
    columns |= find_places(rating, (label >= 0) & ~provisional)
    return ModelEstimates(
        score, se, lower, upper, **columns, component=label, identified=identified, provisional=provisional
    )


def find_provisional(cells: Cells, settings: LoopSettings, placed: Mask, *, votes: Floats, width: Floats) -> Mask:
    """Return which models have too few votes or annotators, or too wide an interval, to be ranked, shape (n_models,).

    Those that the settings leave unranked are among them.

    Parameters
    ----------
    placed : models with a place to lose: those with votes, in a category also those with votes in others
    votes : counted votes of each model
    width : of its interval; NaN without one, infinite for a bound on one side
    """
    few = votes < settings.min_model_votes
    few[list(settings.unranked)] = True
    if settings.min_model_annotators > 0:
        few |= _count_annotators(cells) < settings.min_model_annotators
    if settings.max_interval_width is not None:
        few |= np.isfinite(width) & (width > settings.max_interval_width)
    return few & placed


def _count_annotators(cells: Cells) -> Indices:
    """Return how many annotators have a counted vote on each model."""
    size = cells.n_models
    pair = np.concatenate([cells.annotator.astype(np.int64) * size + model for model in (cells.model_a, cells.model_b)])
    return total(np.bincount(sum_by_key(pair, cells.n_annotators * size)[0] % size, minlength=size))


def _counts(cells: Cells) -> dict[str, Floats]:
    """Return votes, wins, ties and losses of each model, shape (n_models,) each."""
    size, won, lost = cells.n_models, cells.wins_a, cells.wins_b
    sides = {"votes": (cells.n, cells.n), "wins": (won, lost), "ties": (cells.ties, cells.ties), "losses": (lost, won)}
    return {name: sum_by(cells.model_a, a, size) + sum_by(cells.model_b, b, size) for name, (a, b) in sides.items()}


RANKS = ("rank", "best_rank", "worst_rank", "rank_set_best", "rank_set_worst", "class_rank")
CLOSE = 0.01  # of a difference to where its test decides: there the interpolated widening is replaced by the exact one
DECIMALS = 6  # of Elo points; scores that agree to them share a rank


def find_places(rating: Estimate, ranked: Mask) -> dict[str, Any]:
    """Return the place of each model within its component; those that are not ranked follow, for order alone.

    Ranks and classes are of the differences of two scores, and so no other model moves them. A model without a score
    is above another where the bound on their difference says so.

    Parameters
    ----------
    ranked : models that get a place, shape (n_models,)

    Returns
    -------
    The ranks of `ModelEstimates` by their names, and `sureness`.
    """
    found: dict[str, Any] = {name: np.zeros(len(ranked), dtype=np.int64) for name in RANKS}
    found["sureness"] = np.zeros((len(ranked), len(ranked)), dtype=np.int8)
    position = np.round(_positions(rating), DECIMALS)  # equal but for rounding: one rank
    for component in range(rating.components.number):
        here = rating.components.label == component
        members, others = np.flatnonzero(here & ranked), np.flatnonzero(here & ~ranked)
        rank = rank_by(position[members])
        places = {"rank": rank, "best_rank": rank, "worst_rank": rank}  # without intervals there is no spread
        if rating.settings.interval != "none" and len(members):
            of_pair, of_model, together = _order(rating, members)
            best, worst = rank_range(of_model)
            set_best, set_worst = rank_range(together)
            places = dict(zip(RANKS, (rank, best, worst, set_best, set_worst, class_ranks(rank, of_pair)), strict=True))
            found["sureness"][members[:, None], members] = sureness(of_pair, together)
        for name, place in places.items():
            found[name][members] = place
        found["rank"][others] = rank_by(position[others]) + len(members)
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


def _order(rating: Estimate, members: Indices) -> NDArray[np.bool_]:
    """Return which members are certainly above which, in three ways, shape (3, n, n).

    Wrong with probability α for one pair; as clear as two intervals at α that do not overlap, by an interval √2 times
    as wide; wrong with probability α for any pair at all.
    """
    alpha, n = 1.0 - rating.settings.confidence, len(members)
    scored = np.flatnonzero(rating.identified[members])
    i, j = np.nonzero(np.triu(~(rating.identified[members][:, None] & rating.identified[members]), 1))
    pairs = n * (n - 1) / 2
    known = 1.0 - len(i) / max(pairs, 1.0)  # share of the pairs with two scores, and of the error probability
    found = np.zeros((3, n, n), dtype=np.bool_)
    alphas = alpha, float(2.0 * ndtr(np.sqrt(2.0) * ndtri(alpha / 2.0)))
    if rating.covariance is not None and len(scored):
        row = np.searchsorted(rating.small.models, members[scored])
        found[:, scored[:, None], scored] = order_scores(rating.fit.R, rating.covariance, row, alphas, known * alpha)
    if len(i):
        for order, level in zip(found, (*alphas, alpha / pairs), strict=True):
            least, most = bound_differences(rating, level, members[i], members[j])
            order[i, j], order[j, i] = least > 0.0, most < 0.0
    return found


def order_scores(
    R: Floats, spread: Covariance, row: Indices, alphas: tuple[float, float], alpha_together: float
) -> list[Mask]:
    """Return which scores are certainly above which: each pair at one α and at another, and all together at a third."""
    R, index, covariance = R[row], np.arange(len(row)), spread.order[np.ix_(row, row)]
    errors = contrast_errors(covariance, index[:, None], index)
    errors[errors <= 1e-9 * errors.max()] = 0.0  # of a model with itself, and rounding
    freedom = spread.contrast_freedom(row[:, None], row, order=True)

    def standardise(at: float) -> Floats:
        wide = errors * widenings(at, freedom)
        z: Floats = np.divide(R[:, None] - R, wide, out=np.zeros_like(wide), where=errors > 0.0)
        near = np.abs(z - at) < CLOSE * at
        exact = widen(np.full(np.count_nonzero(near), at), freedom[near]) / at
        z[near] = (R[:, None] - R)[near] / (errors[near] * exact)
        return z

    together = np.zeros_like(errors, dtype=np.bool_)
    if alpha_together > 0.0:
        z = standardise(bonferroni_multiple(alpha_together, len(row)))
        together = order_together(z, errors, covariance, alpha_together)
    return [*(standardise(at) > at for at in (float(-ndtri(alpha / 2.0)) for alpha in alphas)), together]
