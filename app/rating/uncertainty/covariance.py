from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri, stdtrit

from app.rating.arrays import Floats, Indices, sum_by
from app.rating.fit.arrow import Observed, observe
from app.rating.fit.features import FeatureLikelihood
from app.rating.fit.kernels import squared_residuals
from app.rating.fit.result import FitResult
from app.rating.fit.unit import Unit, mean_unit
from app.rating.fit.weights import STEEPNESS
from app.rating.settings import Interval
from app.rating.threads import map_parts
from app.rating.uncertainty.clusters import UnitFrame, find_leverage, fix_unit, independent_amount
from app.rating.uncertainty.ranks import contrast_errors
from app.rating.votes.cells import Cells
from app.rating.votes.compact import pool_annotators

NORMAL = 1e9  # degrees of freedom from which t is the normal distribution
TINY = 1e-150  # its square is not 0


@dataclass(frozen=True)
class Covariance:
    """Sampling covariance of published scores and abilities.

    Attributes
    ----------
    scores : natural units of the mean annotator, each component centred, shape (n_models, n_models)
    order : the same without the annotators' pulls on the unit, which stretch all scores alike and change no order
    ability_se : standard error of the published ability, shape (n_annotators,), computed without the cap for abilities
        at it; NaN where abilities are known
    kind : of the interval; "clustered" becomes "sandwich" with a single annotator
    clusters : annotators with a counted vote
    freedom : degrees of freedom of each model's variance, shape (n_models,); ∞ unless clustered
    judges : annotators who inform about each model, shape (n_models,); counted where clustered, else `clusters`
    profile : how far the profile intervals reach down and up, natural units; None for the other kinds
    """

    scores: Floats
    order: Floats
    ability_se: Floats
    kind: Interval
    clusters: int
    freedom: Floats
    judges: Indices
    profile: tuple[Floats, Floats] | None = None

    @property
    def variance(self) -> Floats:
        """Variance of each score, shape (n_models,)."""
        return np.maximum(np.diag(self.scores), 0.0)

    def contrast_half_widths(self, confidence: float, i: Indices, j: Indices, *, order: bool = False) -> Floats:
        """Return half the width of the interval of R_i − R_j, or of its test against 0; i and j broadcast."""
        errors = contrast_errors(self.order if order else self.scores, i, j)
        return critical_values(self.contrast_freedom(i, j, order=order), confidence) * errors

    def contrast_freedom(self, i: Indices, j: Indices, *, order: bool = False) -> Floats:
        """Return the degrees of freedom of R_i − R_j: the mean of 1/freedom, weighted by the variances."""
        variance = np.maximum(np.diag(self.order if order else self.scores), np.finfo(float).tiny)
        share = variance / self.freedom
        inverse = (share[i] + share[j]) / (variance[i] + variance[j])
        freedom: Floats = 1.0 / np.maximum(inverse, 1.0 / NORMAL)
        return freedom


def critical_values(freedom: Floats, confidence: float) -> Floats:
    """Return the two-sided quantiles of t; with infinite freedom, of the normal distribution."""
    tail = 0.5 + confidence / 2.0
    quantile: Floats = np.where(freedom < NORMAL, stdtrit(np.minimum(freedom, NORMAL), tail), ndtri(tail))
    return quantile


def covariance(
    cells: Cells,
    fit: FitResult,
    component: Indices,
    *,
    kind: Interval,
    prior_sd: float | None,
    abilities: bool,
    observed: Observed | None = None,
    unit: Unit | None = None,
) -> Covariance:
    """Return the covariance of the published scores with abilities profiled out, and the abilities' standard errors.

    Parameters
    ----------
    cells, component : of the fit
    kind : "clustered" (annotators are a sample: clusters, and the unit is theirs), "sandwich" (the same annotators
        vote again: votes are independent), "information" (the same, if the model is right: inverse information) or
        "profile" (of the likelihood; the covariance is that of "information")
    prior_sd : of the fit
    abilities : False where abilities are known (m-ELO)
    observed : the information at the fit; computed by default
    unit : published; default the mean of all annotators, none where abilities are known

    Raises
    ------
    NotConvergedError
        The observed information is not positive definite: the fit is at a saddle point.

    Notes
    -----
    Bread: the Schur complement of the observed information on the constraint of the published unit, abilities at the
    cap held; clustered, with the weights of votes that follow the abilities. Meat: the gradient by the scores of each
    cluster or vote, less the share of its ability, scaled up where a cluster supplies much of the information on a
    model; of a cluster also its part of the unit's equation (`app.rating.uncertainty.clusters` has both). Derivations:
    docs/math/uncertainty.md, "Intervals".

    References
    ----------
    White (1982); Bell and McCaffrey (2002), on leverage; Carter, Schnepel and Steigerwald (2017), on the effective
    number of clusters.
    """
    annotators = cells.n_annotators
    clusters = int(np.count_nonzero(np.bincount(cells.annotator)))
    if kind == "clustered" and clusters == 1:
        kind = "sandwich"  # nothing says how annotators differ
    if not abilities and kind != "clustered" and np.all(fit.theta == 1.0):
        cells, fit = pool_annotators(cells), replace(fit, theta=np.ones(1))  # nothing else depends on the annotators
        observed = None
    if observed is None:
        observed = observe(cells, fit, component, prior_sd=prior_sd, abilities=abilities)
    if unit is None and observed.scale is not None:
        unit = mean_unit(fit, observed.scale, np.ones(annotators, dtype=bool))
    frame = fix_unit(observed, fit, unit)
    work = _Work(cells, fit, frame)
    spread = work.clustered() if kind == "clustered" else work.by_vote(kind, clusters)
    ability_se = np.full(annotators, np.nan)
    scores, order = spread.scores, spread.order
    if unit is not None:
        ability_se = work.ability_se(spread) / unit.of_annotators
        to_published = unit.of_models * _stretch(fit.scores, fit.R, np.diag(scores), frame)[frame.models]
        scores, order = (each * np.outer(to_published, to_published) for each in (scores, order))
    return Covariance(scores, order, ability_se, kind, clusters, spread.freedom, spread.judges)


@dataclass(frozen=True)
class _Spread:
    """Covariance of the scores in the solver's units, and of the scores with the pull on the unit (`UnitFrame.pull`).

    Attributes
    ----------
    scores : shape (n_models, n_models)
    order : the same without pulls
    with_pull : Σ_k c_k pull_k over each model's group, c_k annotator k's part in the scores, shape (n_models,)
    pull : Σ_k pull_k² of each group, shape (groups,)
    freedom, judges : of `Covariance`
    """

    scores: Floats
    order: Floats
    with_pull: Floats
    pull: Floats
    freedom: Floats
    judges: Indices


class _Work:
    """The quantities that the kinds of covariance share."""

    def __init__(self, cells: Cells, fit: FitResult, frame: UnitFrame) -> None:
        self.cells, self.fit, self.frame = cells, fit, frame
        self.R, self.theta = fit.R, fit.theta
        observed = frame.observed
        self.likelihood, self.inverse_D = observed.likelihood, observed.inverse_D
        self.D, self.cross = observed.point.D, observed.point.cross
        self.information = np.diag(observed.point.A)

    def clustered(self) -> _Spread:
        """Take every annotator as a cluster: its gradient by the scores, and its pull on the unit."""
        frame, likelihood = self.frame, self.likelihood
        lever = find_leverage(likelihood, self.R, self.theta, self.information)
        contributions = likelihood.score_contributions(self.R, self.theta)
        inverse = self._inverse(contributions)
        contributions *= lever.scale
        meat = likelihood.rows.products(contributions, np.ones(self.cells.n_annotators))
        members = np.bincount(frame.annotators, minlength=len(frame.size)).astype(np.float64)
        spared = np.sqrt(members / np.maximum(members - 1.0, 1.0))  # what the unit takes away of each pull
        pull = frame.pull * spared[frame.annotators]
        square = sum_by(frame.annotators, pull**2, len(frame.size))
        mixed, of_unit = inverse @ likelihood.by_model(contributions, pull), inverse @ frame.z
        with_pull = mixed + of_unit * square[frame.models]
        order = inverse @ meat @ inverse.T
        pulls = np.outer(mixed, of_unit) + np.outer(of_unit, with_pull)
        together = frame.models[:, None] == frame.models
        by_annotator = np.diag(order + pulls).copy()
        if lever.amount.any():
            order += inverse @ self._by_vote(lever.amount) @ inverse.T
        order, scores = np.where(together, order, 0.0), np.where(together, order + pulls, 0.0)
        unit_variance = of_unit**2 * square[frame.models]
        freedom = degrees_of_freedom(
            np.diag(scores), by_annotator, unit_variance, lever.effective, members[frame.models]
        )
        return _Spread(scores, order, with_pull, square, freedom, lever.judges)

    def _inverse(self, contributions: Floats) -> Floats:
        """Return S⁺, where the weights of votes follow the abilities, and these the scores.

        Scores that move by δR move θ_k by −B_k·δR/D_k, and the weight of annotator k's votes, |θ_k|^−1.25 where it is
        below 1, with it. So the derivative of the scores' gradient has also −1.25 Σ_k u_k B_kᵀ/(θ_k D_k).
        """
        weighted, inverse = self.fit.weighted, self.frame.inverse
        if weighted is None or not self.inverse_D.any():
            return inverse
        followed = np.where(weighted.by_ability < 1.0, -STEEPNESS / np.where(self.theta == 0.0, 1.0, self.theta), 0.0)
        return self.frame.inverse_with(
            self.likelihood.rows.products(contributions, followed, self.cross, self.inverse_D)
        )

    def by_vote(self, kind: Interval, clusters: int) -> _Spread:
        """Take the annotators as given: every vote is a cluster, or the model is right."""
        inner = self.frame.inverse
        if kind == "sandwich":
            amount = squared_residuals(self.cells, self.theta[self.cells.annotator] * self._difference())
            amount += independent_amount(self.cells, self.R, self.theta, self.information)
            inner = inner @ self._by_vote(amount) @ inner
        models = self.cells.n_models
        nothing, known = np.zeros(models), np.full(models, np.inf)
        return _Spread(inner, inner, nothing, np.zeros(len(self.frame.size)), known, np.full(models, clusters))

    def _by_vote(self, m: Floats) -> Floats:
        """Return Σ_cells m u uᵀ with u = θ(e_a − e_b) − d (BᵀQ)_k."""
        if isinstance(self.likelihood, FeatureLikelihood):
            return self.likelihood.sum_by_vote(self.R, self.theta, m)
        outer = self.likelihood.laplacian(m * self.theta[self.cells.annotator] ** 2)
        if not self.inverse_D.any():
            return outer
        frame, rows, one = self.frame, self.likelihood.rows, np.ones(self.cells.n_annotators)
        mixed, quadratic = self._shares_by_vote(m)
        crossed = rows.products(mixed, one, self.cross, self.inverse_D)
        outer += rows.products(self.cross, self.inverse_D * np.sqrt(quadratic)) - crossed - crossed.T
        # the constraint's part of Q, of rank one in every scale group
        mean = self.likelihood.by_model(mixed, frame.share)
        mean -= self.likelihood.by_model(self.cross, quadratic * frame.share * self.inverse_D)
        square = sum_by(frame.annotators, quadratic * frame.share**2, len(frame.size))
        along = np.outer(mean + 0.5 * frame.z * square[frame.models], frame.z)
        outer += np.where(frame.models[:, None] == frame.models, along + along.T, 0.0)
        return outer

    def ability_se(self, spread: _Spread) -> Floats:
        """Return the standard error of θ_k relative to the mean ability, in the solver's units.

        θ_k changes by r_k·c + τ_k·pull where the scores change by c, r_k = −(B_k − v_k z)/D_k, τ_k = −v_k/(D_k vᵀD⁻¹v).
        """
        frame, likelihood, by_scores = self.frame, self.likelihood, np.empty(self.cells.n_annotators)

        def fill(part: tuple[int, int]) -> None:
            for (first, last), rows in likelihood.rows.chunks(part, self.cross, self.inverse_D):
                by_scores[first:last] = np.einsum("ij,ij->i", rows @ spread.scores, rows)

        map_parts(fill, likelihood.rows.parts)
        t, group, size = frame.share, frame.annotators, frame.size
        across = spread.scores @ frame.z
        along_z, along_pull = (
            self.inverse_D * likelihood.times_rows(self.cross, each) for each in (across, spread.with_pull)
        )
        of_z, of_both = (sum_by(frame.models, frame.z * x, len(size))[group] for x in (across, spread.with_pull))
        variance = by_scores - 2.0 * t * along_z + t**2 * of_z
        tau = -t / size[group]
        variance += 2.0 * tau * (t * of_both - along_pull) + tau**2 * spread.pull[group]
        variance += np.where(self.inverse_D > 0, self.inverse_D, 1.0 / np.maximum(self.D, TINY)) + t * tau
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


def _stretch(R: Floats, fitted: Floats, variance: Floats, frame: UnitFrame) -> Floats:
    """Return by how much the correction for bias stretches the scores of each group, and with them their errors.

    Scores that are 0 within their errors say nothing of it: the factor is then near 1.
    """
    along, square, noise = (sum_by(frame.models, x, len(frame.size)) for x in (fitted * R, fitted**2, variance))
    everything = np.maximum(square + noise, TINY)
    stretch: Floats = 1.0 + (along - square) / everything
    return stretch


def degrees_of_freedom(
    total: Floats, by_annotator: Floats, of_unit: Floats, effective: Floats, members: Floats
) -> Floats:
    """Return the degrees of freedom of each model's variance, shape (n_models,).

    Of the variance between annotators a part is the unit's, from all of a group, the rest from a model's effective
    number of annotators; both are known to that number less 1. Votes taken as independent add a variance that is known.
    """
    total = np.maximum(total, TINY)
    between = np.maximum(by_annotator, total / NORMAL)  # rounding can take a small share below 0
    unit = np.clip(of_unit / between, 0.0, 1.0)
    share = (1.0 - unit) ** 2 / effective + unit * (2.0 - unit) / members
    freedom: Floats = np.maximum(1.0 / share - 1.0, 1.0) * (total / between) ** 2
    return freedom
