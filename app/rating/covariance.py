from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import expit
from scipy.stats import norm, t

from app.rating.errors import NotConvergedError
from app.rating.fit import Fit
from app.rating.likelihood import Likelihood
from app.rating.newton import Arrow, Problem, shift_projector
from app.rating.results import Interval
from app.rating.scale import find_scale
from app.rating.sums import Floats, sum_by
from app.rating.threads import map_parts
from app.rating.votes import Cells

FEWEST_CLUSTERS = 20


@dataclass(frozen=True)
class Covariance:
    """Sampling covariance of a fit at the solver's scale, the unit held to the typical ability of these annotators.

    Attributes
    ----------
    scores : natural units, each component centred, shape (n_models, n_models)
    ability_se : standard error of θ_k, shape (n_annotators,); for one at the cap, as if the cap did not hold it;
        NaN for m-ELO
    kind : the interval that was made: "clustered" becomes "sandwich" below 20 annotators
    clusters : annotators with a counted vote
    """

    scores: Floats
    ability_se: Floats
    kind: Interval
    clusters: int

    def critical_value(self, confidence: float) -> float:
        """Quantile for a two-sided interval: t with clusters − 1 degrees of freedom if clustered, else normal."""
        tail = 0.5 + confidence / 2.0
        return float(t.ppf(tail, self.clusters - 1) if self.kind == "clustered" else norm.ppf(tail))


def covariance(
    cells: Cells,
    fit: Fit,
    component: NDArray[np.int64],
    *,
    kind: Interval,
    prior_sd: float | None,
    abilities: bool,
) -> Covariance:
    """Covariance of scores with abilities profiled out, and abilities' standard errors.

    Parameters
    ----------
    cells, component : of the fit
    kind : "clustered" (sandwich, clusters are annotators, factor G/(G − 1)), "sandwich" (votes independent) or
        "information" (inverse observed information: the model taken at its word)
    prior_sd : of the fit
    abilities : False for m-ELO, whose abilities are known to be 1

    Raises
    ------
    NotConvergedError
        The observed information is not positive definite: the fit stands at a saddle point.

    Notes
    -----
    Bread: the Schur complement of the observed information, abilities at the cap held. Meat: the scores' gradient of
    each cluster or vote after its ability's share is taken out. Both stay on the constraint that the typical ability
    is 1. Derivations: docs/math.md, "Uncertainty".

    References
    ----------
    White (1982); Cameron and Miller (2015), §II (clusters, CR1 and t with G − 1).
    """
    clusters = len(np.unique(cells.annotator))
    if kind == "clustered" and clusters < FEWEST_CLUSTERS:
        kind = "sandwich"
    work = _Work(cells, fit, component, prior_sd, abilities=abilities)
    if kind == "information":
        inner = work.bread
    else:
        meat = work.meat_by_annotator() * clusters / (clusters - 1) if kind == "clustered" else work.meat_by_vote()
        inner = work.bread @ meat @ work.bread
    if not abilities:
        return Covariance(inner, np.full(cells.n_annotators, np.nan), kind, clusters)
    return Covariance(inner, work.ability_se(inner), kind, clusters)


class _Work:
    """What the kinds of covariance share: the arrow at the optimum and the inverted reduced Hessian."""

    def __init__(
        self, cells: Cells, fit: Fit, component: NDArray[np.int64], prior_sd: float | None, *, abilities: bool
    ) -> None:
        self.cells, self.R, self.theta = cells, fit.R, fit.theta
        self.likelihood = Likelihood(cells, prior_sd if abilities else None)
        point = self.likelihood.expand(fit.R, fit.theta, exact=True)
        held = fit.at_cap if abilities else np.ones(cells.n_annotators, dtype=bool)
        problem = Problem(self.likelihood, component, find_scale(cells) if abilities else None)
        # fit.theta may be in any gauge: the constraint is on θ relative to its typical value
        self.arrow = Arrow(problem, point, fit.theta, held, exact=True)
        self.D, self.cross = point.D, point.cross
        shifts = shift_projector(component)
        typical = float(np.mean(np.diag(point.A)))
        try:
            factor = cho_factor(self.arrow.S + typical * shifts, lower=True)
        except LinAlgError:
            raise NotConvergedError("the fit stands at a saddle point of the likelihood", fit.R, fit.theta) from None
        bread = cho_solve(factor, np.eye(len(shifts)))
        self.bread: Floats = bread - shifts / typical

    def meat_by_annotator(self) -> Floats:
        """Σ_k u_k u_kᵀ, u_k annotator k's gradient of the scores (that of θ_k is 0, or held)."""
        weight = self.theta[self.cells.annotator] * self._residual()
        return self.likelihood.rows.products(weight, np.ones(self.cells.n_annotators))

    def meat_by_vote(self) -> Floats:
        """Σ_votes u_v u_vᵀ with u_v = (W − p)(θ(e_a − e_b) − d B_k/D_k)."""
        m, ability = self._squared_residual(), self.theta[self.cells.annotator]
        outer = self.likelihood.laplacian(m * ability**2)
        if not self.arrow.inverse_D.any():
            return outer
        arrow, rows, one = self.arrow, self.likelihood.rows, np.ones(self.cells.n_annotators)
        mixed, quadratic = self._shares_by_vote(m)
        crossed = rows.products(mixed, one, self.cross, arrow.inverse_D)
        outer += rows.products(self.cross, arrow.inverse_D * np.sqrt(quadratic)) - crossed - crossed.T
        # what Q adds to D⁻¹ for the constraint: of rank one in every scale group
        t, scale = arrow.v_over_D, arrow.scale
        for group in range(len(arrow.z)):
            t_group = t if scale is None else np.where(scale.annotators == group, t, 0.0)
            pull = self.likelihood.by_model(mixed, t_group)
            pull -= self.likelihood.by_model(self.cross, quadratic * t_group * arrow.inverse_D)
            along = np.outer(pull, arrow.z[group])
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
        """Sum over votes of (W − p)²: times θd for each cell, times d² for each annotator."""
        d = self._difference()
        quadratic = sum_by(self.cells.annotator, m * d * d, self.cells.n_annotators)
        return m * self.theta[self.cells.annotator] * d, quadratic

    def _difference(self) -> Floats:
        difference: Floats = self.R[self.cells.model_a] - self.R[self.cells.model_b]
        return difference

    def _probability(self) -> Floats:
        return expit(self.theta[self.cells.annotator] * self._difference())

    def _residual(self) -> Floats:
        return self.cells.s - self.cells.n * self._probability()

    def _squared_residual(self) -> Floats:
        """Σ over a cell's votes of (W − p)²."""
        c, p = self.cells, self._probability()
        won, lost = c.s - c.ties / 2.0, c.n - c.s - c.ties / 2.0
        return won * (1.0 - p) ** 2 + c.ties * (0.5 - p) ** 2 + lost * p**2
