"""Scores by category around common ones, S_ic ~ N(S_i, τ²), and what the votes say of τ."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.errors import NotConvergedError
from app.rating.plain.clusters import sum_clusters
from app.rating.plain.likelihood import Derivatives, Likelihood
from app.rating.plain.m_elo import MOST_HALVINGS, MOST_ITERATIONS, SUFFICIENT, shift_projector
from app.rating.units import ELO_PER_NATURAL
from app.rating.votes.cells import Cells

LEAST, MOST = 1.0 / ELO_PER_NATURAL, 500.0 / ELO_PER_NATURAL
"""Between which τ is sought: from one Elo point on it makes a difference."""
CLOSE = 1e-10  # decrement from which one more step converges
ROUGH = 1e-2  # the same while abilities or τ still move
FLAT = 1e-6  # decrement below which rounding hides a decrease; a step from there is exact to 0.001 points
PILOT = 50.0 / ELO_PER_NATURAL  # τ at which the dispersion is measured
ROUNDS, STEPS = 2, 6  # of τ and the abilities; of abilities and scores at one τ
LEAST_DISPERSION = 0.05
STILL = 1e-3  # root mean square of an ability's move from which it is done
PRECISION = 0.05  # of log τ at its most likely value; between the values tried its evidence is interpolated
SHARES = (1.0 / 6.0, 0.5, 5.0 / 6.0)  # the quantiles of τ that stand for its distribution


class PooledExpansion(NamedTuple):
    """−Σ ℓ_c/φ at the scores R by category, its gradient and its Hessian, the categories along the first axis."""

    R: Floats
    value: float
    g: Floats
    A: Floats


@dataclass(frozen=True)
class PooledFit:
    """The posterior of the scores by category at one τ, natural units; S has a flat prior.

    Attributes
    ----------
    tau : standard deviation of S_ic around S_i
    R : mode, shape (n_categories, n_models); without a vote in a category the mean of the categories
    W : (I + τ² A_c)⁻¹ of each category: how far it is drawn to the common scores, shape (n_categories, n_models,
        n_models)
    spread : G⁺, G = Σ A_c W_c: the covariance of the common scores, shape (n_models, n_models)
    evidence : log marginal likelihood of τ, by Laplace
    point : the votes' part of the objective near the mode
    """

    tau: float
    R: Floats
    W: Floats
    spread: Floats
    evidence: float
    point: PooledExpansion

    def covariance(self, share: Floats) -> Floats:
        """Return the covariance of Σ_c share_c R_c: τ² Σ share_c² W_c + W G⁺ Wᵀ with W = Σ share_c W_c."""
        W = np.tensordot(share, self.W, 1)
        covariance: Floats = self.tau**2 * np.tensordot(share**2, self.W, 1) + W @ self.spread @ W.T
        return covariance


class PooledLikelihood:
    """Σ_c ℓ_c(R_c)/φ − Σ_c |R_c − S|²/(2τ²), to be maximised over S and all R_c.

    Parameters
    ----------
    categories : the votes of each, with the same indices; no vote is in two
    theta : abilities, natural units, shape (n_annotators,)
    component : of each model in all votes
    precision : 1/sd² of the abilities' law
    design : by how much votes on the same prompts raise the variance

    Attributes
    ----------
    dispersion : φ, the variance of annotators' gradients relative to that of independent votes: ties lower it, tastes
        raise it
    """

    def __init__(
        self, categories: Sequence[Cells], theta: Floats, component: Indices, precision: float, design: float = 1.0
    ) -> None:
        self.likelihoods = [Likelihood(cells) for cells in categories]
        self.theta, self.precision, self._design = theta, precision, design
        self.shifts, self.dispersion = shift_projector(component), 1.0

    def fit(self, tau: float, R: Floats, *, close: float = CLOSE) -> PooledFit:
        """Maximise by Newton's method with backtracking.

        Parameters
        ----------
        R : start, shape (n_categories, n_models)
        close : decrement from which one more step is enough

        Raises
        ------
        NotConvergedError
        """
        S = R.mean(axis=0)
        value, point = self._expand(tau, S, R)
        if not np.isfinite(value):  # of a handful of votes, abilities at scores without a bound
            raise NotConvergedError("the votes do not determine the scores by category", S, self.theta)
        for _ in range(MOST_ITERATIONS):
            step, steps, decrement, found = self.step(tau, S, point)
            if decrement <= close:
                return found
            length = 1.0
            for _ in range(MOST_HALVINGS):
                new, there = self._expand(tau, S + length * step, point.R + length * steps)
                if decrement < FLAT or new <= value - SUFFICIENT * length * decrement:
                    break
                length /= 2.0
            value, point, S = new, there, S + length * step
        raise NotConvergedError("the scores by category do not converge", R[0], self.theta)

    def step(self, tau: float, S: Floats, point: PooledExpansion) -> tuple[Floats, Floats, float, PooledFit]:
        """Return Newton's step of S and of all R_c, its decrement, and the fit if it ends there.

        The R_c are eliminated: G ΔS = Σ A_c W_c (R_c − S) − W_c g_c, ΔR_c = W_c (ΔS − (R_c − S) − τ² g_c).
        """
        eye, away = np.eye(len(S)), point.R - S
        W = np.asarray(np.linalg.inv(eye + tau**2 * point.A), dtype=np.float64)
        AW = (eye - W) / tau**2
        G = AW.sum(axis=0)
        try:
            step = np.linalg.solve(G + self.shifts, (_times(AW, away) - _times(W, point.g)).sum(axis=0))
        except np.linalg.LinAlgError:
            raise NotConvergedError("the votes do not determine the scores by category", S, self.theta) from None
        steps = _times(W, step - away - tau**2 * point.g)
        left = away + steps - step
        value = point.value + np.sum(point.g * steps) + 0.5 * np.sum(steps * _times(point.A, steps))
        value += np.sum(left**2) / (2.0 * tau**2)
        decrement = -float(np.sum(point.g * steps) + np.sum(away * (steps - step)) / tau**2)
        determinants = np.linalg.slogdet(W)[1].sum() - np.linalg.slogdet(G + self.shifts)[1]
        spread = np.linalg.inv(G + self.shifts) - self.shifts
        evidence = 0.5 * float(determinants) - float(value)
        return step, steps, decrement, PooledFit(tau, point.R + steps, W, spread, evidence, point)

    def _expand(self, tau: float, S: Floats, R: Floats) -> tuple[float, PooledExpansion]:
        """Return the objective, minimised, and the votes' part of it with its derivatives."""
        points = self.points(R)
        value = sum(point.value for point in points) / self.dispersion
        g, A = (np.stack([getattr(each, name) for each in points]) for name in ("gradient_scores", "A"))
        point = PooledExpansion(R, value, g / self.dispersion, A / self.dispersion)
        return value + float(np.sum((R - S) ** 2)) / (2.0 * tau**2), point

    def measure_dispersion(self, fit: PooledFit) -> float:
        """Return φ = Σ_c tr M_c / Σ_c tr(A_c − Σ_k v_k B_ckᵀB_ck), M_c the sum over annotators of squared gradients.

        A handful of votes can say nothing of it, or less than 0.05: then it is 1.

        B_ck is the change of an annotator's gradient by the ability, of variance v_k: fitted, it makes M_c smaller.

        References
        ----------
        Rao and Scott (1981), for the mean design effect; Pauli, Racugno and Ventura (2011), for its use in posteriors.
        """
        squares, information = 0.0, 0.0
        points = self.points(fit.R)
        free = self.ability_variances(points)
        for likelihood, point in zip(self.likelihoods, points, strict=True):
            of_models = np.diag(point.A)
            contribution = likelihood.contributions(point.R, point.theta)
            strength = point.variance * point.theta[likelihood.cells.annotator] ** 2
            whole, none = of_models + fit.tau**-2, np.zeros(likelihood.cells.n_annotators)
            squares += float(np.trace(sum_clusters(likelihood.cells, contribution, strength, whole, none).meat))
            taken = free @ (likelihood.rows(point.cross) ** 2).sum(axis=1)  # by the abilities, of the information
            information += float(of_models.sum() - taken)
        known = squares > LEAST_DISPERSION * max(information, 0.0) and information > 0.0
        return self._design * (squares / information if known else 1.0)

    def ability_variances(self, points: Sequence[Derivatives]) -> Floats:
        """Return the variance of each ability at known scores, votes without dispersion, shape (n_annotators,)."""
        D = sum(point.D for point in points) + self.precision
        return np.where(D > 0.0, 1.0 / np.where(D > 0.0, D, 1.0), 0.0)

    def points(self, R: Floats) -> list[Derivatives]:
        """Return the derivatives of each category's −ℓ_c at its scores."""
        return [each.expand(x, self.theta) for each, x in zip(self.likelihoods, R, strict=True)]


def fit_categories(
    likelihood: PooledLikelihood, R: Floats, abilities: Callable[[Floats, Floats], Floats]
) -> list[PooledFit]:
    """Fit the scores by category at three values of τ, which stand for its posterior under a flat prior.

    Each of the values has a third of the probability; the flat prior ends at 500 Elo points. φ is measured first, and
    the abilities follow the scores by category: by those of all votes an annotator of a category that differs seems to
    follow the ranking less.

    Parameters
    ----------
    R : scores of all votes, shape (n_models,)
    abilities : returns them at scores by category, from a start

    Raises
    ------
    NotConvergedError

    References
    ----------
    Gelman (2006), for the prior.
    """
    fit = likelihood.fit(PILOT, np.tile(R, (len(likelihood.likelihoods), 1)), close=ROUGH)
    likelihood.dispersion = likelihood.measure_dispersion(fit)
    for _ in range(ROUNDS):
        for _ in range(STEPS):
            before, likelihood.theta = likelihood.theta, abilities(fit.R, likelihood.theta)
            fit = likelihood.fit(fit.tau, fit.R, close=ROUGH)
            if np.mean((likelihood.theta - before) ** 2) < STILL**2:
                break
        taus, fit = _find_spread(likelihood, fit)
    return [likelihood.fit(tau, fit.R, close=FLAT) for tau in taus]


def _find_spread(likelihood: PooledLikelihood, fit: PooledFit) -> tuple[list[float], PooledFit]:
    """Return three quantiles of τ, the votes' part expanded to second order, and the fit at the most likely one."""
    from scipy.interpolate import PchipInterpolator  # noqa: PLC0415  slow to import, and the service starts without it
    from scipy.optimize import minimize_scalar  # noqa: PLC0415  the same

    tried: dict[float, float] = {}
    S = fit.R.mean(axis=0)

    def refuse(u: float) -> float:
        tried[u] = likelihood.step(math.exp(u), S, fit.point)[3].evidence
        return -tried[u]

    low, high = math.log(LEAST), math.log(MOST)
    best = minimize_scalar(refuse, bounds=(low, high), method="bounded", options={"xatol": PRECISION}).x
    for u in (low, high, best - 0.7, best + 0.7, best - 0.25, best + 0.25):
        if low <= u <= high and u not in tried:
            refuse(u)
    known = sorted(tried)
    fine = np.linspace(low, high, 2000)
    evidence = PchipInterpolator(known, [tried[u] for u in known])(fine) + fine  # flat in τ, not in log τ
    below = np.cumsum(np.exp(evidence - evidence.max()))
    found = np.interp(np.multiply(SHARES, below[-1]), below, fine)
    return [math.exp(u) for u in found], likelihood.fit(math.exp(best), fit.R, close=ROUGH)


def _times(matrices: Floats, vectors: Floats) -> Floats:
    product: Floats = np.einsum("cij,cj->ci", matrices, vectors)
    return product
