from collections.abc import Callable

import numpy as np
from scipy.special import expit, ndtri

from app.rating.data.arrays import Floats, Mask
from app.rating.data.sums import sum_by
from app.rating.data.votes import Cells

SPAN = 60.0  # of θ (R − R_j) beyond the fitted scores: σ(60) is 1 in double precision
LEAST_ABILITY = 1e-12  # smaller abilities would bound scores at 10¹³ natural units
HALVINGS = 120  # enough for a span of 60 / LEAST_ABILITY


def outside_bounds(
    cells: Cells, identified: Mask, R: Floats, theta: Floats, confidence: float
) -> tuple[Floats, Floats]:
    """Bound the scores of models that are not identified by their votes against identified models.

    A bound is where the model's likelihood ℓ_i(R_i), at the scores and abilities of the fit, is z²/2 below its
    supremum, with z the normal quantile of `confidence`. A model that only won has a lower bound and no upper one; a
    model that only lost has an upper bound. Votes between two models that are not identified are left out, which can
    only widen the bounds.

    Parameters
    ----------
    cells : all counted cells
    identified : models with a score, shape (n_models,)
    R, theta : natural units, shapes (n_models,) and (n_annotators,); only R of identified models is read; votes of
        annotators with abilities of 1e-12 or less are left out

    Returns
    -------
    lower, upper : natural units, shape (n_models,); −∞ and ∞ where there is no bound, NaN for identified models
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
    opponent = R[np.where(outside_is_a, edge.model_b, edge.model_a)]
    won = np.where(outside_is_a, edge.s, edge.n - edge.s)
    ability = theta[edge.annotator]
    models, row = np.unique(model, return_inverse=True)
    least = np.full(len(models), np.inf)
    np.minimum.at(least, row, np.abs(ability))
    low, high = float(R[identified].min()) - SPAN / least, float(R[identified].max()) + SPAN / least

    def likelihood(at: Floats) -> Floats:
        x = ability * (at[row] - opponent)
        return sum_by(row, won * x - edge.n * np.logaddexp(0.0, x), len(models))

    def slope(at: Floats) -> Floats:
        x = ability * (at[row] - opponent)
        return sum_by(row, ability * (won - edge.n * expit(x)), len(models))

    peak = _bisect(lambda at: slope(at) > 0, low, high)
    floor = likelihood(peak) - ndtri(confidence) ** 2 / 2.0
    for bound, end, inner in ((lower, low, peak), (upper, high, peak)):
        limited = likelihood(end) < floor
        found = _bisect(lambda at: likelihood(at) < floor, end, inner)
        bound[models[limited]] = found[limited]
    return lower, upper


def _bisect(before: Callable[[Floats], Mask], start: Floats, end: Floats) -> Floats:
    """Find where `before`, true at `start`, becomes false on the way to `end`, for all models at once."""
    for _ in range(HALVINGS):
        middle = 0.5 * (start + end)
        still = before(middle)
        start, end = np.where(still, middle, start), np.where(still, end, middle)
    return 0.5 * (start + end)
