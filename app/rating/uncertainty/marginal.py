"""The errors of a fit in which abilities are integrated out, as they are published."""

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats
from app.rating.model.covariance import find_covariance, shift_to_centre
from app.rating.model.expansion import Expansion
from app.rating.model.scores import MarginalFit
from app.rating.settings import Interval
from app.rating.uncertainty.by_vote import squared_residuals, sum_by_vote
from app.rating.uncertainty.covariance import Covariance
from app.rating.votes.cells import Cells


def marginal_covariance(cells: Cells, fit: MarginalFit, kind: Interval, influence_limit: float | None) -> Covariance:
    """Return the covariance of the scores, and of each ability the standard deviation of its posterior.

    Parameters
    ----------
    kind : "clustered" (annotators are a sample), "sandwich" (the same annotators vote again: votes are independent) or
        "information" (the same, with the variance that the model gives a vote)
    """
    annotators, judges = cells.n_annotators, fit.clusters.judges.astype(np.int64)
    if kind == "clustered" and annotators == 1:
        kind = "sandwich"  # nothing says how annotators differ
    if kind == "clustered":
        found = find_covariance(fit)
        return Covariance(found.scores, found.scores, fit.ability_sd, kind, annotators, found.freedom, judges)
    size, bread = len(fit.R), shift_to_centre(fit)[0] @ np.linalg.inv(fit.equations.jacobian)
    scores = bread @ _sum_by_vote(Expansion(cells, fit, influence_limit), kind) @ bread.T
    known, all_of_them = np.full(size, np.inf), np.full(size, annotators)
    return Covariance(scores, scores, fit.ability_sd, kind, annotators, known, all_of_them)


def _sum_by_vote(expansion: Expansion, kind: Interval) -> Floats:
    """Return the sum over the votes: a unit of a vote's residual adds w h (e_a − e_b) + d c_k to u_k."""
    cells, fit = expansion.cells, expansion.fit
    k = cells.annotator
    x = fit.ability[k] * (fit.R[cells.model_a] - fit.R[cells.model_b])
    squares = squared_residuals(cells, x)
    if kind == "information":
        squares = fit.dispersion * cells.n * expit(x) * expit(-x)
    return sum_by_vote(cells, fit.R, squares, expansion.weight * expansion.pull[k], expansion.each_moved())
