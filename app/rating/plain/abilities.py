"""Abilities at fixed scores: one-dimensional concave problems."""

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, sum_by
from app.rating.votes.cells import Cells

MOST_STEPS, NEAR = 100, 1e-6  # of the search for one ability, and its last step


def own_abilities(cells: Cells, R: Floats, steps: int = MOST_STEPS) -> tuple[Floats, Floats]:
    """Maximise each annotator's own ℓ_k(θ_k | R) by Newton's method in a bracket, from 1.

    Returns
    -------
    The abilities, and −ℓ_k″ one step before, shape (n_annotators,) each.
    """
    k, d, size = cells.annotator, R[cells.model_a] - R[cells.model_b], cells.n_annotators
    theta, low, high, bend = np.ones(size), np.full(size, -np.inf), np.full(size, np.inf), np.zeros(size)
    for _ in range(steps):
        x = theta[k] * d
        p = expit(x)
        slope = sum_by(k, (cells.s - cells.n * p) * d, size)
        bend = sum_by(k, cells.n * p * expit(-x) * d * d, size)
        low, high = np.where(slope > 0.0, theta, low), np.where(slope < 0.0, theta, high)
        most = 2.0 + np.abs(theta)
        step = np.clip(slope / np.where(bend > 0.0, bend, np.inf), -most, most)
        there = theta + step
        with np.errstate(invalid="ignore"):  # without a bracket the step is inside
            theta = np.where((low < there) & (there < high) | (there == theta), there, 0.5 * (low + high))
        if np.abs(step).max(initial=0.0) < NEAR:
            break
    return theta, bend


def shadow_abilities(cells: Cells, R: Floats) -> tuple[Floats, Floats]:
    """Return abilities at fixed scores, of annotators who are not in the fit, and their standard errors.

    NaN for an annotator without votes, or whose votes all follow or all oppose the ranking.
    """
    along, against = count_following(cells, R)
    defined = (along > 0.0) & (against > 0.0)
    theta, curvature = own_abilities(cells.where(defined[cells.annotator]), R)
    se = 1.0 / np.sqrt(np.where(defined, curvature, 1.0))
    return np.where(defined, theta, np.nan), np.where(defined, se, np.nan)


def count_following(cells: Cells, R: Floats) -> tuple[Floats, Floats]:
    """Count each annotator's votes along the ranking R and against it; a tie is half of each, equal R do not count."""
    d = R[cells.model_a] - R[cells.model_b]
    won = np.where(d > 0.0, cells.s, cells.n - cells.s)
    along = sum_by(cells.annotator, np.where(d != 0.0, won, 0.0), cells.n_annotators)
    return along, sum_by(cells.annotator, np.where(d != 0.0, cells.n, 0.0), cells.n_annotators) - along
