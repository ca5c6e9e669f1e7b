import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from app.rating.sums import Floats, sum_by
from app.rating.votes import Cells

SPAN = 60.0  # natural units beyond the fitted scores: σ(60) is 1 in double precision
HALVINGS = 80


def one_sided_bounds(
    cells: Cells, core: NDArray[np.bool_], R: Floats, theta: Floats, confidence: float
) -> tuple[Floats, Floats]:
    """Bound the models that only won, or only lost, against the fitted ones.

    Such a model's likelihood rises for ever in one direction; its bound is where its votes against fitted models have
    lost z²/2 of their supremum, with z the normal quantile of `confidence`: max{R_i : ℓ_i(R_i) ≤ −z²/2} for a model
    that only won. Votes among models without a score are left out, which can only widen the bound.

    Parameters
    ----------
    cells : all counted cells
    core : models with a score, shape (n_models,)
    R, theta : natural units, shapes (n_models,) and (n_annotators,); R is read for the core only

    Returns
    -------
    lower, upper : natural units, shape (n_models,); −∞ and ∞ where the data give none, NaN for the core
    """
    lower = np.where(core, np.nan, -np.inf)
    upper = np.where(core, np.nan, np.inf)
    touching = core[cells.model_a] != core[cells.model_b]
    edge = cells.where(touching & (theta[cells.annotator] != 0))
    outside_is_a = ~core[edge.model_a]
    model = np.where(outside_is_a, edge.model_a, edge.model_b)
    opponent = R[np.where(outside_is_a, edge.model_b, edge.model_a)]
    ability = theta[edge.annotator]
    won = np.where(outside_is_a, edge.s, edge.n - edge.s) > 0
    upward = won == (ability > 0)
    models = np.unique(model)
    if len(models) == 0:
        return lower, upper
    allowed = norm.ppf(confidence) ** 2 / 2.0
    row = np.searchsorted(models, model)
    rises = sum_by(row, upward.astype(np.float64), len(models)) > 0
    low = np.full(len(models), float(R[core].min()) - SPAN)
    high = np.full(len(models), float(R[core].max()) + SPAN)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        distance = np.abs(ability) * np.where(upward, middle[row] - opponent, opponent - middle[row])
        lost = sum_by(row, edge.n * np.logaddexp(0.0, -distance), len(models))
        # a model that only won is too low where it lost too much; one that only lost, too high
        too_low = np.where(rises, lost > allowed, lost < allowed)
        low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)
    bound = 0.5 * (low + high)
    lower[models[rises]] = bound[rises]
    upper[models[~rises]] = bound[~rises]
    return lower, upper
