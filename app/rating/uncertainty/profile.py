"""Profile-likelihood intervals of scores, for votes without a prior and without weights."""

import math

import numpy as np
from scipy.special import ndtri

from app.rating.arrays import Floats, Indices
from app.rating.errors import NotConvergedError, VotesError
from app.rating.fit.likelihood import Curvature, Likelihood
from app.rating.fit.result import FitResult
from app.rating.fit.unit import Unit
from app.rating.threads import one_blas_thread
from app.rating.uncertainty.covariance import Covariance
from app.rating.votes.cells import Cells
from app.rating.votes.compact import pool_annotators

MOST_MODELS = 200  # whose 2 × 200 ends take about 2,000 refits
CONVERGED = 1e-9  # squared Newton decrement: the error of a deviance
CLOSE = 1e-4  # error of an end, in standard errors
MOST_STEPS = 50  # of a refit
MOST_REFITS = 50  # of the search for an end
MOST_HALVINGS = 20
NO_END = "a profile interval has no end, because the likelihood hardly falls that way; other intervals have ends"


@one_blas_thread()
def profile_scores(
    cells: Cells, fit: FitResult, component: Indices, unit: Unit, spread: Covariance, confidence: float
) -> tuple[Floats, Floats]:
    """Return how far the interval of each score reaches down and up from it, {ψ : 2(ℓ̂ − ℓ_p(ψ)) ≤ χ²₁ quantile}.

    ψ is a score less the mean of all, in natural units of the mean annotator who counts; an anchor changes nothing of
    it. ℓ_p(ψ) is the maximum of ℓ over the other scores and the abilities, with Σ_k w_k θ_k = Σ_k w_k, w the weights of
    the unit.

    Parameters
    ----------
    cells, fit : the votes as the fit counted them, and the maximum of their likelihood
    component : of each model
    unit : without weights where the abilities are known (m-ELO)
    spread : the inverse information, for the starts

    Returns
    -------
    Two arrays of shape (n_models,), natural units.

    Raises
    ------
    VotesError
        More than 200 models, or votes that do not link all models.
    NotConvergedError
        A refit, or the search for an end, failed. Where hardly anything contradicts an annotator, that ability may grow
        and carry the unit, so that the likelihood never falls so far: 5 of 200 arenas of 20 annotators with 60 votes.

    Notes
    -----
    The signed root of the deviance is nearly linear in ψ, so the secant method needs three to five refits an end. A
    refit is Newton's method with a score fixed: about four passes over the votes and O(n_models³).

    References
    ----------
    Venzon and Moolgavkar (1988); R's `confint` for generalised linear models.
    """
    models = len(fit.R)
    if models > MOST_MODELS:
        raise VotesError(
            f"profile intervals are for at most {MOST_MODELS} models; the votes rate {models:,}", "too-many"
        )
    if len(np.unique(component)) > 1:
        raise VotesError("profile intervals need votes that link all models: rate each group apart", "shape")
    search = _Profile(cells, fit, unit, spread.scores)
    level = float(ndtri(0.5 + confidence / 2.0))
    ends = [[search.find_end(model, side * level) for model in range(models)] for side in (-1.0, 1.0)]
    return -np.array(ends[0]), np.array(ends[1])


class _Profile:
    """A likelihood and its maximum, in published units."""

    def __init__(self, cells: Cells, fit: FitResult, unit: Unit, covariance: Floats) -> None:
        self.abilities = bool(unit.weight.any())
        self.likelihood = Likelihood(cells if self.abilities else pool_annotators(cells), None)
        self.R = fit.R * unit.of_models
        self.theta = fit.theta / unit.of_annotators if self.abilities else np.ones(1)
        self.weight = unit.weight
        self.covariance, self.best = covariance, self.likelihood.log_likelihood(self.R, self.theta)

    def find_end(self, model: int, level: float) -> float:
        """Return how far the score may move until the signed root of its deviance is `level`."""
        error = math.sqrt(self.covariance[model, model])
        column = self.covariance[:, model] / error**2
        before, root_before, moved = 0.0, 0.0, level * error
        R, theta = self.R, self.theta
        for _ in range(MOST_REFITS):
            R, theta, log_likelihood = self._refit(R + (moved - (R - self.R)[model]) * column, theta, model)
            root = math.copysign(math.sqrt(max(2.0 * (self.best - log_likelihood), 0.0)), moved)
            if root == root_before:
                break
            step = (level - root) * (moved - before) / (root - root_before)
            if abs(step) <= CLOSE * error:
                return moved + step
            before, root_before, moved = moved, root, moved + step
        raise NotConvergedError(NO_END, self.R, self.theta)

    def _refit(self, R: Floats, theta: Floats, model: int) -> tuple[Floats, Floats, float]:
        """Maximise ℓ with this model's score fixed."""
        point = self.likelihood.expand(R, theta)
        for _ in range(MOST_STEPS):
            of_scores, of_abilities = self._newton_step(point, model)
            decrement = -float(of_scores @ point.gradient_scores + of_abilities @ point.gradient_abilities)
            if abs(decrement) <= CONVERGED:
                return R, theta, -point.value
            lengths = 0.5 ** np.arange(MOST_HALVINGS)
            tried = ((R + x * of_scores, theta + x * of_abilities) for x in lengths)
            better = ((at, new) for at in tried if (new := self.likelihood.expand(*at)).value < point.value)
            (R, theta), point = next(better, ((R, theta), point))
        raise NotConvergedError(NO_END, R, theta)

    def _newton_step(self, point: Curvature, model: int) -> tuple[Floats, Floats]:
        """Return the step of scores and abilities that keeps the score, the mean of all and that of the abilities."""
        size, rows = len(point.gradient_scores), self.likelihood
        S, right = point.A, point.gradient_scores
        if self.abilities:
            along = rows.sum_rows(point.cross, self.weight / point.D)[0]
            S = S - rows.products(point.cross, 1.0 / np.sqrt(point.D)) + np.outer(along, along) / self._length(point)
            right = right - rows.sum_rows(point.cross, self._project(point, point.gradient_abilities))[0]
        fixed = np.array([np.ones(size), np.eye(size)[model]])
        bordered = np.block([[S, fixed.T], [fixed, np.zeros((2, 2))]])
        of_scores = np.linalg.solve(bordered, np.concatenate([-right, np.zeros(2)]))[:size]
        if not self.abilities:
            return of_scores, np.zeros(1)
        pull = point.gradient_abilities + rows.times_rows(point.cross, of_scores)
        return of_scores, -self._project(point, pull)

    def _length(self, point: Curvature) -> float:
        return float(np.sum(self.weight**2 / point.D))

    def _project(self, point: Curvature, gradient: Floats) -> Floats:
        """Return Q times a value per annotator, Q = D⁻¹ − D⁻¹w wᵀD⁻¹/(wᵀD⁻¹w)."""
        along = float(self.weight @ (gradient / point.D)) / self._length(point)
        projected: Floats = (gradient - self.weight * along) / point.D
        return projected
