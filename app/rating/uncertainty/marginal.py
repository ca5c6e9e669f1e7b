"""The errors of a fit in which abilities are integrated out, as they are published."""

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats
from app.rating.fit.kernels import squared_residuals
from app.rating.model.covariance import find_covariance, shift_to_centre
from app.rating.model.expansion import Expansion
from app.rating.model.scores import MarginalFit
from app.rating.settings import Interval
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
    """Return Σ r² v v′ over the votes, v = w h (e_a − e_b) + d c_k what a unit of a vote's residual r adds to u_k.

    c_k is what a unit of dℓ_k/dθ moves u_k by, because the ability's posterior moves.
    """
    cells, fit = expansion.cells, expansion.fit
    k, d = cells.annotator, fit.R[cells.model_a] - fit.R[cells.model_b]
    x = fit.ability[k] * d
    p = expit(x)
    squares = squared_residuals(cells, x) if kind == "sandwich" else fit.dispersion * cells.n * p * (1.0 - p)
    size, pull = len(fit.R), expansion.weight * expansion.pull[k]
    meat = np.zeros((size, size))
    for first, last, moved in expansion.each_moved():
        here = slice(*cells.starts[[first, last]])
        own = k[here] - first
        along, square = np.zeros((last - first, size)), np.bincount(own, squares[here] * d[here] ** 2, last - first)
        amount = squares[here] * pull[here] * d[here]
        np.add.at(along, (own, cells.model_a[here]), amount)
        np.add.at(along, (own, cells.model_b[here]), -amount)
        crossed = along.T @ moved
        meat += crossed + crossed.T + (moved * square[:, None]).T @ moved
    amount = squares * pull**2
    for i, j, sign in ((0, 0, 1.0), (1, 1, 1.0), (0, 1, -1.0), (1, 0, -1.0)):
        ends = cells.model_a, cells.model_b
        np.add.at(meat, (ends[i], ends[j]), sign * amount)
    return meat
