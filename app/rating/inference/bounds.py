from collections.abc import Callable

import numpy as np
from scipy.special import expit, ndtri

from app.rating.data.arrays import Floats, Mask
from app.rating.data.sums import sum_by
from app.rating.data.votes import Cells

SPAN = 60.0  # of θ (R − R_j) beyond the fitted scores: σ(60) is 1 in double precision
LEAST_SAY = 1e-12  # ability of a judge who says anything: smaller ones would bound at 10¹³ natural units
HALVINGS = 120  # of a span of 60 / LEAST_SAY, which leave nothing of it


def outside_bounds(cells: Cells, core: Mask, R: Floats, theta: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Bound the models without a score by their votes against those with one.

    The bounds are where a model's likelihood ℓ_i(R_i), scores and abilities of the fit held, has lost z²/2 of its
    supremum, z the normal quantile of `confidence`. Of a model that only won, ℓ_i rises for ever: it has a lower bound
    and no upper one; of a model that only lost the reverse; one that hangs between has both. Votes among models without
    a score are left out, which can only widen the bounds.

    Parameters
    ----------
    cells : all counted cells
    core : models with a score, shape (n_models,)
    R, theta : natural units, shapes (n_models,) and (n_annotators,); R is read for the core only; abilities of 1e-12 or
        less bound nothing

    Returns
    -------
    lower, upper : natural units, shape (n_models,); −∞ and ∞ where the data give none, NaN for the core
    """
    lower = np.where(core, np.nan, -np.inf)
    upper = np.where(core, np.nan, np.inf)
    if core.all():
        return lower, upper
    touching = core[cells.model_a] != core[cells.model_b]
    edge = cells.where(touching & (np.abs(theta[cells.annotator]) > LEAST_SAY))
    if len(edge.n) == 0:
        return lower, upper
    outside_is_a = ~core[edge.model_a]
    model = np.where(outside_is_a, edge.model_a, edge.model_b)
    opponent = R[np.where(outside_is_a, edge.model_b, edge.model_a)]
    won = np.where(outside_is_a, edge.s, edge.n - edge.s)
    ability = theta[edge.annotator]
    models, row = np.unique(model, return_inverse=True)
    least = np.full(len(models), np.inf)
    np.minimum.at(least, row, np.abs(ability))
    low, high = float(R[core].min()) - SPAN / least, float(R[core].max()) + SPAN / least

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
    """Find where `before`, true from `start` on, turns false on the way to `end`, for every model at once."""
    for _ in range(HALVINGS):
        middle = 0.5 * (start + end)
        still = before(middle)
        start, end = np.where(still, middle, start), np.where(still, end, middle)
    return 0.5 * (start + end)
