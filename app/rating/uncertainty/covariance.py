"""Covariances of scores, and those of a fit in which abilities are integrated out, as they are published."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, Indices
from app.rating.model.copies import Answers, Copies, find_copies
from app.rating.model.covariance import find_covariance, shift_to_centre
from app.rating.model.crowd import Clusters
from app.rating.model.expansion import Expansion
from app.rating.model.score_kernels import LARGEST_SHARE
from app.rating.model.scores import MarginalFit
from app.rating.model.start import PRECISION
from app.rating.settings import Interval
from app.rating.uncertainty.freedom import contrast_freedom
from app.rating.votes.cells import Cells

TINY = 1e-150  # its square is not 0


@dataclass(frozen=True)
class Covariance:
    """Sampling covariance of published scores and abilities.

    Attributes
    ----------
    scores : natural units of the mean annotator, each component centred, shape (n_models, n_models)
    order : the same without the annotators' pulls on the unit, which stretch all scores alike and change no order
    ability_se : standard error of the published ability, shape (n_annotators,); NaN where abilities are known
    kind : of the interval; "clustered" becomes "sandwich" with a single annotator
    clusters : annotators with a counted vote
    freedom : degrees of freedom of each model's variance, shape (n_models,); ∞ unless clustered
    judges : annotators who inform about each model, shape (n_models,); counted where clustered, else `clusters`
    copies : near-copies, each group one cluster; None where they were not looked for
    """

    scores: Floats
    order: Floats
    ability_se: Floats
    kind: Interval
    clusters: int
    freedom: Floats
    judges: Indices
    copies: Copies | None = None

    def contrast_freedom(self, i: Indices, j: Indices, *, order: bool = False) -> Floats:
        """Return the degrees of freedom of R_i − R_j."""
        return contrast_freedom(np.diag(self.order if order else self.scores), self.freedom, i, j)


def contrast_errors(covariance: Floats, i: Indices, j: Indices) -> Floats:
    """Return the standard errors of R_i − R_j, in the broadcast shape of i and j."""
    variance = np.diag(covariance)
    errors: Floats = np.sqrt(np.maximum(variance[i] + variance[j] - 2.0 * covariance[i, j], 0.0))
    return errors


def squared_residuals(cells: Cells, x: Floats) -> Floats:
    """Return Σ (W − p)² over the votes of each cell, p = σ(x), x of shape (n_cells,)."""
    p = expit(x)
    squared: Floats = cells.wins_a * (1.0 - p) ** 2 + cells.ties * (0.5 - p) ** 2 + cells.wins_b * p**2
    return squared


def sum_by_vote(
    cells: Cells, R: Floats, squares: Floats, pull: Floats, each_moved: Iterable[tuple[int, int, Floats]]
) -> Floats:
    """Return Σ r² v v′ over the votes, v = pull (e_a − e_b) + d c_k what a unit of a vote's residual r adds.

    Parameters
    ----------
    squares : Σ r² of each cell, shape (n_cells,)
    pull : shape (n_cells,)
    each_moved : first, last + 1, and rows c_k of some annotators: what a unit of dℓ_k/dθ adds, as the ability moves
    """
    d, size = R[cells.model_a] - R[cells.model_b], len(R)
    meat = np.zeros((size, size))
    for first, last, moved in each_moved:
        here = slice(*cells.starts[[first, last]])
        own = cells.annotator[here] - first
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
