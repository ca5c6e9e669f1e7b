"""Bounds on scores that the votes do not determine, and predictions for pairs of models."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, Indices, Mask, sum_by
from app.rating.exchange import concatenated, join
from app.rating.uncertainty.centre import centred_covariance, centred_errors, centred_scores
from app.rating.uncertainty.covariance import contrast_errors
from app.rating.uncertainty.freedom import critical_values
from app.rating.uncertainty.results import Estimate
from app.rating.units import ELO_PER_NATURAL
from app.rating.votes.cells import Cells, compact, join_cells

T = TypeVar("T")

SPAN = 60.0  # of θ (R − R_j) beyond the fitted scores: σ(60) is 1 in double precision
LEAST_ABILITY = 1e-12  # smaller abilities would bound scores at 10¹³ natural units
HALVINGS = 120  # enough for a span of 60 / LEAST_ABILITY
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(15)  # of the normal distribution, over which opponents are averaged


def unscored_bounds(rating: Estimate, confidence: float) -> tuple[Floats, Floats]:
    """Bound the scores of models that are not identified, in Elo points from the centre of their component.

    Parameters
    ----------
    confidence : one-sided, in (0, 1)

    Returns
    -------
    lower, upper : shape (n_models,); −∞ and ∞ where there is no bound, NaN for identified models
    """
    identified, errors = rating.identified, None
    if rating.covariance is not None and not identified[rating.components.label >= 0].all():
        errors = centred_covariance(rating, rating.covariance)
    R = np.nan_to_num(centred_scores(rating)) / ELO_PER_NATURAL
    bound = partial(outside_bounds, identified=identified, R=R, confidence=confidence, errors=errors)
    lower, upper = _of_outside(rating, bound)
    return ELO_PER_NATURAL * lower, ELO_PER_NATURAL * upper


def bound_differences(rating: Estimate, alpha: float, model_a: Indices, model_b: Indices) -> tuple[Floats, Floats]:
    """Bound S_a − S_b of pairs of a component in which one has no score, or both, Elo points, shape (n_pairs,) each.

    A model without a score is held against one that has one by its bound and the other's interval, each with half the
    error probability; against another one by the votes on the two. Each bound is one-sided; where the votes bound
    nothing it is infinite.

    Parameters
    ----------
    alpha : probability with which a bound is wrong
    """
    low, high = unscored_bounds(rating, 1.0 - alpha / 2.0)
    scored, score = rating.identified, centred_scores(rating)
    half = np.nan_to_num(centred_errors(rating, 1.0 - alpha)[1])
    low, high = np.where(scored, score - half, low), np.where(scored, score + half, high)
    mixed = scored[model_a] != scored[model_b]
    least = np.where(mixed, low[model_a] - high[model_b], -np.inf)
    most = np.where(mixed, high[model_a] - low[model_b], np.inf)
    first, last = np.minimum(model_a, model_b), np.maximum(model_a, model_b)
    pair, below, above = _bound_pairs(rating, 1.0 - alpha)
    key = first * rating.cells.n_models + last
    voted = np.isin(key, pair)
    at = np.searchsorted(pair, key[voted])
    turned = (model_a > model_b)[voted]
    least[voted] = np.where(turned, -above[at], below[at])
    most[voted] = np.where(turned, -below[at], above[at])
    return least, most


def _bound_pairs(rating: Estimate, confidence: float) -> tuple[Indices, Floats, Floats]:
    """Bound S_a − S_b of models without a score by the votes on the two, Elo points.

    Returns
    -------
    pair : model_a · n_models + model_b, ascending
    lower, upper : of S_a − S_b
    """
    unscored = ~rating.identified
    pair, lower, upper = _of_outside(rating, partial(_bound_joined_pairs, unscored=unscored, confidence=confidence))
    return pair, ELO_PER_NATURAL * lower, ELO_PER_NATURAL * upper


def _bound_joined_pairs(
    cells: Cells, theta: Floats, unscored: Mask, confidence: float
) -> tuple[Indices, Floats, Floats]:
    mine = cells.where(unscored[cells.model_a] & unscored[cells.model_b])
    pair, row = np.unique(mine.model_a.astype(np.int64) * cells.n_models + mine.model_b, return_inverse=True)
    against = replace(mine, model_a=row + 1, model_b=np.zeros_like(row), n_models=len(pair) + 1)
    known = np.arange(len(pair) + 1) == 0
    lower, upper = outside_bounds(against, known, np.zeros(len(known)), theta, confidence)
    return pair, lower[1:], upper[1:]


def _of_outside(rating: Estimate, function: Callable[..., T]) -> T:
    """Return the function of all votes on models without a score and their annotators' abilities, computed once."""
    cells, pairs, scored = rating.cells, rating.pairs, rating.identified
    if scored[pairs.model_a].all() and scored[pairs.model_b].all():
        return function(pairs.where(np.zeros(len(pairs.n), dtype=bool)), theta=np.ones(1))
    some = compact(cells.where(~scored[cells.model_a] | ~scored[cells.model_b]), np.ones(cells.n_models, dtype=bool))
    return join(partial(_of_joined, function), (some.cells, rating.bounding[some.annotators]))


def _of_joined(function: Callable[..., T], votes: list[tuple[Cells, Floats]]) -> T:
    cells, theta = zip(*votes, strict=True)
    return function(join_cells(cells), theta=concatenated(list(theta)))


def outside_bounds(
    cells: Cells, identified: Mask, R: Floats, theta: Floats, confidence: float, errors: Floats | None = None
) -> tuple[Floats, Floats]:
    """Bound the scores of models that are not identified by their votes against identified models.

    A bound is where the model's likelihood L_i(R_i) at the abilities of the fit, averaged over the error of the
    opponents' scores, is 1 − confidence of its supremum. For a model that only won, L_i is the probability that it wins
    all those battles, so the lower bound is the exact one: lower scores would win them all with a probability of less
    than 1 − confidence. A model that only won has a lower bound and no upper one; a model that only lost has an upper
    bound. Votes between two models that are not identified are left out, which can only widen the bounds.

    Parameters
    ----------
    cells : all counted cells
    identified : models with a score, shape (n_models,)
    R, theta : natural units, shapes (n_models,) and (n_annotators,); only R of identified models is read; votes of
        annotators with abilities of 1e-12 or less are left out
    confidence : one-sided, in (0, 1)
    errors : covariance of R, shape (n_models, n_models), read for identified models; default none

    Returns
    -------
    lower, upper : natural units, shape (n_models,); −∞ and ∞ where there is no bound, NaN for identified models

    References
    ----------
    Clopper and Pearson (1934), for one opponent: n wins of n bound p from below by (1 − confidence)^(1/n).
    """
    lower = np.where(identified, np.nan, -np.inf)
    upper = np.where(identified, np.nan, np.inf)
    if identified.all():
        return lower, upper
    touching = identified[cells.model_a] != identified[cells.model_b]
    edge = cells.where(touching & (np.abs(theta[cells.annotator]) > LEAST_ABILITY))
    if len(edge.n) == 0:
        return lower, upper
    outside_is_a = ~identified[edge.model_a]
    model = np.where(outside_is_a, edge.model_a, edge.model_b)
    opponent = np.where(outside_is_a, edge.model_b, edge.model_a)
    won = np.where(outside_is_a, edge.s, edge.n - edge.s)
    ability = theta[edge.annotator]
    models, row = np.unique(model, return_inverse=True)
    least = np.full(len(models), np.inf)
    np.minimum.at(least, row, np.abs(ability))
    low, high = float(R[identified].min()) - SPAN / least, float(R[identified].max()) + SPAN / least
    error = np.zeros(len(models))
    if errors is not None:
        error = _mean_errors(row, opponent, edge.n * np.abs(ability), errors)

    def log_likelihood(at: Floats) -> Floats:
        x = ability * (at[row] - R[opponent])
        return sum_by(row, won * x - edge.n * np.logaddexp(0.0, x), len(models))

    def slope(at: Floats) -> Floats:
        x = ability * (at[row] - R[opponent])
        return sum_by(row, ability * (won - edge.n * expit(x)), len(models))

    peak = _bisect(lambda at: slope(at) > 0, low, high)
    supremum = log_likelihood(peak)

    def unlikely(at: Floats) -> Mask:
        nodes = NODES if error.any() else np.zeros(1)
        each = np.exp([log_likelihood(at - node * error) - supremum for node in nodes])
        chance = WEIGHTS / WEIGHTS.sum() @ each if error.any() else each[0]
        below: Mask = chance < 1.0 - confidence
        return below

    for bound, end in ((lower, low), (upper, high)):
        limited = unlikely(end)
        found = _bisect(unlikely, end, peak)
        bound[models[limited]] = found[limited]
    return lower, upper


def _mean_errors(row: Indices, opponent: Indices, weight: Floats, errors: Floats) -> Floats:
    """Return the standard error of the mean of each model's opponents by weight, shape (row.max() + 1,)."""
    opponents, column = np.unique(opponent, return_inverse=True)
    share = np.zeros((int(row.max()) + 1, len(opponents)))
    np.add.at(share, (row, column), weight)
    share /= share.sum(axis=1, keepdims=True)
    variance = np.einsum("ij,jk,ik->i", share, errors[np.ix_(opponents, opponents)], share)
    mean_errors: Floats = np.sqrt(np.maximum(variance, 0.0))
    return mean_errors


def _bisect(before: Callable[[Floats], Mask], start: Floats, end: Floats) -> Floats:
    """Find where `before`, true at `start`, becomes false on the way to `end`, for all models at once."""
    for _ in range(HALVINGS):
        middle = 0.5 * (start + end)
        if ((middle == start) | (middle == end)).all():  # no number lies between
            break
        still = before(middle)
        start, end = np.where(still, middle, start), np.where(still, end, middle)
    return 0.5 * (start + end)


@dataclass(frozen=True)
class Matchups:
    """Predictions for pairs of models, arrays of shape (n_pairs,).

    Attributes
    ----------
    model_a, model_b : indices
    probability : that model_a beats model_b for the mean annotator, a tie being half a win for each; where one has no
        score, the nearest to ½ within the bounds; NaN where they are in different components
    lower, upper : ends of its interval, NaN without intervals; where one has no score, bounds on one side each
    """

    model_a: Indices
    model_b: Indices
    probability: Floats
    lower: Floats
    upper: Floats


def predict_matchups(rating: Estimate, model_a: Indices, model_b: Indices) -> Matchups:
    """Predict P(a beats b) = σ(R_a − R_b), R in units of the mean ability, with intervals made on the log-odds.

    Parameters
    ----------
    model_a, model_b : shape (n_pairs,) each

    Notes
    -----
    The interval uses the covariance of the two scores, so it is narrower than their own errors suggest. Of two models
    without a score, one that won all of n votes beats the other with at least (1 − confidence)^(1/n). O(n_pairs).
    """
    component = np.where(rating.identified, rating.components.label, -1)
    scored = (component[model_a] == component[model_b]) & (component[model_a] >= 0)
    row = np.zeros(len(component), dtype=np.int64)
    row[rating.small.models] = np.arange(len(rating.small.models))
    R = rating.natural_scores()
    difference, half = R[model_a] - R[model_b], np.full(len(model_a), np.nan)
    spread = rating.covariance
    if spread is not None:
        i, j = row[model_a], row[model_b]
        quantile = critical_values(spread.contrast_freedom(i, j), rating.settings.confidence)
        half = quantile * contrast_errors(spread.scores, i, j)
    difference[~scored] = np.nan
    found = Matchups(model_a, model_b, *(expit(difference + end) for end in (0.0, -half, half)))
    label = rating.components.label
    rest = np.flatnonzero(~scored & (label[model_a] == label[model_b]) & (label[model_a] >= 0))
    if len(rest):
        bounds = bound_differences(rating, 1.0 - rating.settings.confidence, model_a[rest], model_b[rest])
        found.lower[rest], found.upper[rest] = (expit(bound / ELO_PER_NATURAL) for bound in bounds)
        found.probability[rest] = np.clip(0.5, found.lower[rest], found.upper[rest])
    return found
