"""The errors of a fit in which abilities are integrated out, as they are published."""

from dataclasses import replace

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats
from app.rating.model.copies import Answers, Copies, find_copies
from app.rating.model.covariance import find_covariance, shift_to_centre
from app.rating.model.crowd import Clusters
from app.rating.model.expansion import Expansion
from app.rating.model.score_kernels import LARGEST_SHARE
from app.rating.model.scores import MarginalFit
from app.rating.model.start import PRECISION
from app.rating.settings import Interval
from app.rating.uncertainty.covariance import Covariance, squared_residuals, sum_by_vote
from app.rating.votes.cells import Cells

TINY = 1e-300


def marginal_covariance(cells: Cells, fit: MarginalFit, kind: Interval, influence_limit: float | None) -> Covariance:
    """Return the covariance of the scores, and of each ability the standard deviation of its posterior.

    Clustered, near-copies of one annotator are one cluster.

    Parameters
    ----------
    kind : "clustered" (annotators are a sample), "sandwich" (the same annotators vote again: votes are independent) or
        "information" (the same, with the variance that the model gives a vote)
    """
    annotators, judges = cells.n_annotators, fit.clusters.judges.astype(np.int64)
    if kind == "clustered" and annotators == 1:
        kind = "sandwich"  # nothing says how annotators differ
    if kind == "clustered":
        copies = find_copies(Answers.of(cells, fit.R))
        if copies.groups:
            annotators -= copies.annotators - copies.groups
            fit = replace(fit, clusters=_join_copies(Expansion(cells, fit, influence_limit), copies))
        found = find_covariance(fit)
        return Covariance(found.scores, found.scores, fit.ability_sd, kind, annotators, found.freedom, judges, copies)
    size, bread = len(fit.R), shift_to_centre(fit)[0] @ np.linalg.inv(fit.equations.jacobian)
    scores = bread @ _sum_by_vote(Expansion(cells, fit, influence_limit), kind) @ bread.T
    known, all_of_them = np.full(size, np.inf), np.full(size, annotators)
    return Covariance(scores, scores, fit.ability_sd, kind, annotators, known, all_of_them)


def _join_copies(expansion: Expansion, copies: Copies) -> Clusters:
    """Return the clusters of a fit with near-copies as one: what they say adds up before it is squared."""
    fit, number = expansion.fit, np.bincount(copies.cluster)
    known = np.maximum(np.diag(fit.equations.information) - PRECISION, TINY)
    meat, shares = fit.clusters.meat.copy(), fit.clusters.shares.copy()

    def add(u: Floats, share: Floats, sign: float) -> None:
        scaled = u / np.sqrt(1.0 - np.minimum(share, LARGEST_SHARE))
        meat[:] += sign * np.outer(scaled, scaled)
        shares[:] += sign * share**2

    for group in np.flatnonzero(number > 1):
        total = np.zeros((2, len(fit.R)))
        for k in np.flatnonzero(copies.cluster == group).tolist():
            own = np.stack([expansion.own(k, k + 1).u[0], expansion.information(k) / known])
            add(own[0], own[1], -1.0)
            total += own
        add(total[0], total[1], 1.0)
    return replace(fit.clusters, meat=meat, shares=shares)


def _sum_by_vote(expansion: Expansion, kind: Interval) -> Floats:
    """Return the sum over the votes: a unit of a vote's residual adds w h (e_a − e_b) + d c_k to u_k."""
    cells, fit = expansion.cells, expansion.fit
    k = cells.annotator
    x = fit.ability[k] * (fit.R[cells.model_a] - fit.R[cells.model_b])
    squares = squared_residuals(cells, x)
    if kind == "information":
        squares = fit.dispersion * cells.n * expit(x) * expit(-x)
    return sum_by_vote(cells, fit.R, squares, expansion.weight * expansion.pull[k], expansion.each_moved())
