import numpy as np
from numpy.typing import NDArray

from app.rating.evidence.crowd import LOG_ALWAYS, LOG_SLIP, Crowd, outcomes
from app.rating.sums import Floats, sum_by
from app.rating.votes import Cells

MAX_ITERATIONS = 50
TOLERANCE = 1e-10
SIDE_SD = 0.5  # natural units; of the prior on a preference for a side


def always_one_side(cells: Cells, crowd: Crowd, left_wins: Floats) -> tuple[Floats, Floats]:
    """Compare "always the left" and "always the right answer" with honest.

    Parameters
    ----------
    left_wins : votes of each annotator that the model shown on the left won, between models with a score,
        shape (n_annotators,)

    Returns
    -------
    left, right : log-likelihood ratios, shape (n_annotators,)
    """
    win, loss = outcomes(cells)
    decided = sum_by(cells.annotator, win + loss, cells.n_annotators)
    ties = sum_by(cells.annotator, cells.ties, cells.n_annotators)
    right_wins = decided - left_wins
    honest = crowd.log_likelihood[:, 0]
    left = left_wins * LOG_ALWAYS + (ties + right_wins) * LOG_SLIP - honest
    right = right_wins * LOG_ALWAYS + (ties + left_wins) * LOG_SLIP - honest
    return left, right


def side_preferences(
    annotator: NDArray[np.integer],
    difference: Floats,
    outcome: Floats,
    *,
    n_annotators: int,
    prior_sd: float = 1.0,
) -> tuple[Floats, Floats, Floats]:
    """Maximise each annotator's ℓ_k(θ_k, β_k) − (θ_k − 1)²/(2 sd²) − β_k²/(2·0.5²) with P = σ(θ_k d + β_k).

    An ability that a preference for a side does not lower: the preference is a parameter of its own.

    Parameters
    ----------
    difference : score of the left minus that of the right model, natural units, shape (n_votes,)
    outcome : W for the left model, shape (n_votes,)

    Returns
    -------
    ability, preference, se : shape (n_annotators,); se of the preference, from the inverse information with scores
        known. 1, 0 and 0.5 for somebody without votes: the prior.

    Notes
    -----
    Newton's method on a concave problem of two dimensions, all annotators together, steps of at most 1.
    """
    theta, beta = np.ones(n_annotators), np.zeros(n_annotators)
    se: Floats = np.full(n_annotators, SIDE_SD)
    precision, side_precision = 1.0 / prior_sd**2, 1.0 / SIDE_SD**2
    for _ in range(MAX_ITERATIONS):
        x = theta[annotator] * difference + beta[annotator]
        p = 1.0 / (1.0 + np.exp(-np.clip(x, -700.0, 700.0)))
        residual, variance = outcome - p, p * (1.0 - p)
        slope = sum_by(annotator, residual * difference, n_annotators) - precision * (theta - 1.0)
        side_slope = sum_by(annotator, residual, n_annotators) - side_precision * beta
        tt = sum_by(annotator, variance * difference**2, n_annotators) + precision
        tb = sum_by(annotator, variance * difference, n_annotators)
        bb = sum_by(annotator, variance, n_annotators) + side_precision
        determinant = tt * bb - tb**2
        step = np.clip((bb * slope - tb * side_slope) / determinant, -1.0, 1.0)
        side_step = np.clip((tt * side_slope - tb * slope) / determinant, -1.0, 1.0)
        theta, beta = theta + step, beta + side_step
        se = np.sqrt(tt / determinant)
        if max(np.abs(step).max(initial=0.0), np.abs(side_step).max(initial=0.0)) < TOLERANCE:
            break
    return theta, beta, se
