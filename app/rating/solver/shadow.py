import numpy as np

from app.rating.data.arrays import Floats
from app.rating.data.votes import Cells
from app.rating.solver.following import count_following
from app.rating.solver.profile_abilities import profile_abilities
from app.rating.solver.rows import CellRows
from app.rating.solver.second_order import first_order_bias


def shadow_abilities(
    cells: Cells,
    R: Floats,
    *,
    prior_sd: float | None,
    ability_cap: float | None,
    bias_correction: bool = False,
    start: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Maximise each annotator's own ℓ_k(θ_k | R) − (θ_k − 1)²/(2 sd²) at fixed scores.

    This is the ability of annotators outside a fit: measured against its scores, without influence on them.

    Parameters
    ----------
    cells : their votes between models that have a score; indices as in R
    R : natural units, shape (n_models,)
    prior_sd, ability_cap : of the fit that R comes from, in its units
    bias_correction : subtract the first-order bias of each maximum below the cap, at most half its standard error
    start : shape (n_annotators,), default 1; the result does not depend on it

    Returns
    -------
    theta, se : shape (n_annotators,); NaN for an annotator without cells and, without a prior, for one whose votes all
        follow or all oppose the ranking. The standard error is that of the inverse information with R known.
    """
    rows = CellRows(cells)
    defined = np.diff(rows.starts) > 0
    if prior_sd is None:
        along, against = count_following(rows, R)
        defined &= (along > 0) & (against > 0)
        rows = CellRows(cells.where(defined[cells.annotator]))
    precision = 0.0 if prior_sd is None else 1.0 / prior_sd**2
    begin = np.ones(cells.n_annotators) if start is None else start
    own = profile_abilities(rows, R, begin, precision=precision)
    curvature = own.information + precision
    theta = own.theta
    if bias_correction:
        inverse = np.where(curvature > 0, 1.0 / np.where(curvature > 0, curvature, 1.0), 0.0)
        if ability_cap is not None:
            inverse[theta >= ability_cap] = 0.0
        theta = theta - first_order_bias(own.third, own.noise, inverse)
    if ability_cap is not None:
        theta = np.minimum(theta, ability_cap)
    se = 1.0 / np.sqrt(np.maximum(curvature, 1e-300))
    return np.where(defined, theta, np.nan), np.where(defined, se, np.nan)
