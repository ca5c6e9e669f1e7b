from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri, stdtrit

from app.rating.data.arrays import Floats, Indices
from app.rating.data.compact import pool_annotators
from app.rating.data.sums import sum_by
from app.rating.data.threads import map_parts
from app.rating.data.votes import Cells
from app.rating.inference.leverage import leverage_adjustment
from app.rating.settings import Interval
from app.rating.solver.fit import Fit
from app.rating.solver.observed import Observed, observe
from app.rating.solver.residuals import squared_residuals

FEWEST_CLUSTERS = 20


@dataclass(frozen=True)
class Covariance:
    """Sampling covariance of a fit at the solver's scale; the unit is the typical ability of these annotators.

    Attributes
    ----------
    scores : natural units, each component centred, shape (n_models, n_models)
    ability_se : standard error of θ_k, shape (n_annotators,), computed without the cap for abilities at it; NaN where
        abilities are known
    kind : of the interval; "clustered" becomes "sandwich" below 20 annotators
    clusters : annotators with a counted vote
    """

    scores: Floats
    ability_se: Floats
    kind: Interval
    clusters: int

    @property
    def variance(self) -> Floats:
        """Variance of each score, shape (n_models,)."""
        return np.maximum(np.diag(self.scores), 0.0)

    def critical_value(self, confidence: float) -> float:
        """Return the two-sided quantile: of t with clusters − 1 degrees of freedom if clustered, else normal."""
        tail = 0.5 + confidence / 2.0
        return float(stdtrit(self.clusters - 1, tail) if self.kind == "clustered" else ndtri(tail))


def covariance(
    cells: Cells,
    fit: Fit,
    component: Indices,
    *,
    kind: Interval,
    prior_sd: float | None,
    abilities: bool,
    observed: Observed | None = None,
) -> Covariance:
    """Return the covariance of the scores with abilities profiled out, and the abilities' standard errors.

    Parameters
    ----------
    cells, component : of the fit
    kind : "clustered" (sandwich, clusters are annotators, factor G/(G − 1)), "sandwich" (votes independent) or
        "information" (inverse observed information: right if the model is)
    prior_sd : of the fit
    abilities : False where abilities are known (m-ELO, slices)
    observed : the information at the fit; computed by default

    Raises
    ------
    NotConvergedError
        The observed information is not positive definite: the fit is at a saddle point.

    Notes
    -----
    Bread: the Schur complement of the observed information, abilities at the cap held. Meat: the gradient by the scores
    of each cluster or vote, less the share of its ability, plus an adjustment where few clusters inform about a model
    (`app.rating.inference.leverage`). Both stay on the constraint that the typical ability is 1. Derivations:
    docs/math.md, "Uncertainty".

    References
    ----------
    White (1982); Cameron and Miller (2015), §II (clusters, CR1 and t with G − 1).
    """
    annotators = cells.n_annotators
    clusters = int(np.count_nonzero(np.bincount(cells.annotator)))
    if kind == "clustered" and clusters < FEWEST_CLUSTERS:
        kind = "sandwich"
    if not abilities and kind != "clustered" and np.all(fit.theta == 1.0):
        cells, fit = pool_annotators(cells), replace(fit, theta=np.ones(1))  # nothing else depends on the annotators
        observed = None
    if observed is None:
        observed = observe(cells, fit, component, prior_sd=prior_sd, abilities=abilities)
    work = _Work(cells, fit, observed)
    if kind == "information":
        inner = work.bread
    else:
        meat = work.meat_by_annotator(clusters) if kind == "clustered" else work.meat_by_vote()
        inner = work.bread @ meat @ work.bread
    ability_se = work.ability_se(inner) if abilities else np.full(annotators, np.nan)
    return Covariance(inner, ability_se, kind, clusters)


class _Work:
    """The quantities that the kinds of covariance share: the arrow and the inverse of the reduced Hessian."""

    def __init__(self, cells: Cells, fit: Fit, observed: Observed) -> None:
        self.cells, self.R, self.theta = cells, fit.R, fit.theta
        self.likelihood, self.arrow = observed.likelihood, observed.arrow
        self.D, self.cross = observed.point.D, observed.point.cross
        self.bread = observed.block.inverse()
        self.information = np.diag(observed.point.A)

    def meat_by_annotator(self, clusters: int) -> Floats:
        """Return G/(G − 1) Σ_k u_k u_kᵀ and the leverage adjustment; u_k is annotator k's gradient by the scores."""
        contributions = self.likelihood.score_contributions(self.R, self.theta)
        meat = (
            self.likelihood.rows.products(contributions, np.ones(self.cells.n_annotators)) * clusters / (clusters - 1)
        )
        adjustment = self._adjustment(by_vote=False)
        return meat + self._by_vote(adjustment) if adjustment.any() else meat

    def meat_by_vote(self) -> Floats:
        """Return Σ_votes u_v u_vᵀ with u_v = (W − p)(θ(e_a − e_b) − d B_k/D_k), and the leverage adjustment."""
        return self._by_vote(self._squared_residual() + self._adjustment(by_vote=True))

    def _adjustment(self, *, by_vote: bool) -> Floats:
        return leverage_adjustment(self.likelihood, self.R, self.theta, self.information, by_vote=by_vote)

    def _by_vote(self, m: Floats) -> Floats:
        """Return Σ_cells m u uᵀ with u = θ(e_a − e_b) − d B_k/D_k."""
        ability = self.theta[self.cells.annotator]
        outer = self.likelihood.laplacian(m * ability**2)
        if not self.arrow.inverse_D.any():
            return outer
        arrow, rows, one = self.arrow, self.likelihood.rows, np.ones(self.cells.n_annotators)
        mixed, quadratic = self._shares_by_vote(m)
        crossed = rows.products(mixed, one, self.cross, arrow.inverse_D)
        outer += rows.products(self.cross, arrow.inverse_D * np.sqrt(quadratic)) - crossed - crossed.T
        # the constraint's part of Q, of rank one in every scale group
        t, scale = arrow.v_over_D, arrow.scale
        for group in range(len(arrow.z)):
            t_group = t if scale is None else np.where(scale.annotators == group, t, 0.0)
            mean = self.likelihood.by_model(mixed, t_group)
            mean -= self.likelihood.by_model(self.cross, quadratic * t_group * arrow.inverse_D)
            along = np.outer(mean, arrow.z[group])
            outer += along + along.T + np.outer(arrow.z[group], arrow.z[group]) * float(quadratic @ t_group**2)
        return outer

    def ability_se(self, inner: Floats) -> Floats:
        """Return the standard error of θ_k relative to the typical ability."""
        arrow, scale = self.arrow, self.arrow.scale
        by_scores = np.empty(self.cells.n_annotators)

        def fill(part: tuple[int, int]) -> None:
            for (first, last), rows in self.likelihood.rows.chunks(part, self.cross, arrow.inverse_D):
                by_scores[first:last] = np.einsum("ij,ij->i", rows @ inner, rows)

        map_parts(fill, self.likelihood.rows.parts)
        variance = by_scores + np.where(arrow.inverse_D > 0, arrow.inverse_D, 1.0 / np.maximum(self.D, 1e-300))
        if scale is not None and len(arrow.z):
            across = arrow.z @ inner
            t = arrow.v_over_D
            for group in range(scale.number):
                mine = scale.annotators == group
                along = arrow.inverse_D * self.likelihood.times_rows(self.cross, across[group])
                change = -2.0 * t * along + t**2 * float(across[group] @ arrow.z[group])
                variance += np.where(mine, change - t**2 / max(arrow.size[group], 1e-300), 0.0)
        se: Floats = np.sqrt(np.maximum(variance, 0.0))
        return se

    def _shares_by_vote(self, m: Floats) -> tuple[Floats, Floats]:
        """Return m θ d of each cell, and Σ m d² of each annotator, m a value per cell."""
        d = self._difference()
        quadratic = sum_by(self.cells.annotator, m * d * d, self.cells.n_annotators)
        return m * self.theta[self.cells.annotator] * d, quadratic

    def _difference(self) -> Floats:
        difference: Floats = self.R[self.cells.model_a] - self.R[self.cells.model_b]
        return difference

    def _squared_residual(self) -> Floats:
        return squared_residuals(self.cells, self.theta[self.cells.annotator] * self._difference())
