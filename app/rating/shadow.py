import numpy as np

from app.rating.likelihood import Likelihood
from app.rating.sums import Floats, sum_by
from app.rating.votes import Cells

MAX_ITERATIONS = 100
TOLERANCE = 1e-12


def shadow_abilities(
    cells: Cells, R: Floats, *, prior_sd: float | None, ability_cap: float | None
) -> tuple[Floats, Floats]:
    """Maximise each annotator's own ℓ_k(θ_k | R) − (θ_k − 1)²/(2 sd²) with the scores held fixed.

    The ability of annotators outside a fit, judged against its scores and without any influence on them.

    Parameters
    ----------
    cells : their votes between models that have a score; indices as in R
    R : natural units, shape (n_models,)
    prior_sd, ability_cap : as in the fit that R comes from, in its units

    Returns
    -------
    theta, se : shape (n_annotators,); NaN for an annotator without cells, and, without a prior, for one whose votes
        all follow or all oppose the ranking. The standard error is from the inverse information with R known.

    Notes
    -----
    One-dimensional concave problems, solved together by Newton's method with a bracket: converges always.
    """
    likelihood = Likelihood(cells, prior_sd)
    votes = cells.votes_by_annotator()
    c = cells
    d = R[c.model_a] - R[c.model_b]
    defined = votes > 0
    if prior_sd is None:
        pulls_up = sum_by(c.annotator, c.s * np.maximum(d, 0) + (c.n - c.s) * np.maximum(-d, 0), c.n_annotators)
        pulls_down = sum_by(c.annotator, c.s * np.maximum(-d, 0) + (c.n - c.s) * np.maximum(d, 0), c.n_annotators)
        defined &= (pulls_up > 0) & (pulls_down > 0)
    theta: Floats = np.ones(c.n_annotators)
    low, high = np.full(len(theta), -np.inf), np.full(len(theta), np.inf)
    information = np.ones(len(theta))
    for _ in range(MAX_ITERATIONS):
        x = theta[c.annotator] * d
        p = 1.0 / (1.0 + np.exp(-np.clip(x, -700.0, 700.0)))
        slope = sum_by(c.annotator, (c.s - c.n * p) * d, len(theta)) - likelihood.precision * (theta - 1.0)
        information = sum_by(c.annotator, c.n * p * (1 - p) * d * d, len(theta)) + likelihood.precision
        low, high = np.where(slope > 0, theta, low), np.where(slope < 0, theta, high)
        step = slope / np.maximum(information, 1e-12)
        proposal = theta + np.clip(step, -2.0 - np.abs(theta), 2.0 + np.abs(theta))
        inside = (proposal > low) & (proposal < high)
        middle = np.where(np.isfinite(low) & np.isfinite(high), 0.5 * (np.nan_to_num(low) + np.nan_to_num(high)), theta)
        updated = np.where(slope == 0, theta, np.where(inside, proposal, middle))
        moved = np.abs(updated - theta) > TOLERANCE * (1.0 + np.abs(theta))
        theta = np.where(defined, updated, 1.0)
        if not np.any(moved & defined):
            break
    if ability_cap is not None:
        theta = np.minimum(theta, ability_cap)
    se = 1.0 / np.sqrt(np.maximum(information, 1e-300))
    return np.where(defined, theta, np.nan), np.where(defined, se, np.nan)
