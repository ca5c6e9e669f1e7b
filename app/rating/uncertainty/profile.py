"""Profile-likelihood intervals of scores, for votes without a prior and without weights."""

import math

import numpy as np
from scipy.special import ndtri

from app.rating.arrays import Floats, Indices, Mask
from app.rating.errors import NotConvergedError, VotesError
from app.rating.fitted import FitResult
from app.rating.plain.information import Information, link_groups
from app.rating.plain.likelihood import Derivatives, Likelihood
from app.rating.plain.unit import unit_weights
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
    cells: Cells, fit: FitResult, component: Indices, counts: Mask | None, spread: Covariance, confidence: float
) -> tuple[Floats, Floats]:
    """Return how far the interval of each score reaches down and up from it, {ψ : 2(ℓ̂ − ℓ_p(ψ)) ≤ χ²₁ quantile}.

    ψ is a score less the mean of all, in natural units of the mean annotator who counts; an anchor changes nothing of
    it. ℓ_p(ψ) is the maximum of ℓ over the other scores and the abilities, the mean of those who count 1.

    Parameters
    ----------
    cells, fit : the votes, and the maximum of their likelihood
    component : of each model
    counts : annotators whose mean ability is 1, shape (n_annotators,); None where abilities are known (m-ELO)
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
    abilities = counts is not None
    theta = fit.theta if abilities else np.ones(1)
    search = _Profile(cells if abilities else pool_annotators(cells), fit.R, theta, counts, spread.scores)
    level = float(ndtri(0.5 + confidence / 2.0))
    ends = [[search.find_end(model, side * level) for model in range(models)] for side in (-1.0, 1.0)]
    return -np.array(ends[0]), np.array(ends[1])


class _Profile:
    """A likelihood and its maximum."""

    def __init__(self, cells: Cells, R: Floats, theta: Floats, counts: Mask | None, covariance: Floats) -> None:
        self.likelihood, self.groups = Likelihood(cells), link_groups(cells, np.zeros(cells.n_models, dtype=np.int64))
        self.weight = None if counts is None else unit_weights(self.groups, counts)
        self.R, self.theta, self.covariance = R, theta, covariance
        self.best = -self.likelihood.value(R, theta)

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

    def _newton_step(self, point: Derivatives, model: int) -> tuple[Floats, Floats]:
        """Return the step of scores and abilities that keeps the score, the mean of all and that of the abilities."""
        size, likelihood = len(point.R), self.likelihood
        found = Information.at(likelihood, point, self.groups, np.zeros((size, size)), self.weight)
        moved = found.project(point.gradient_abilities)
        right = point.gradient_scores - likelihood.by_model(point.cross * moved[likelihood.cells.annotator])
        fixed = np.array([np.ones(size), np.eye(size)[model]])
        bordered = np.block([[found.S, fixed.T], [fixed, np.zeros((2, 2))]])
        try:
            of_scores = np.linalg.solve(bordered, np.concatenate([-right, np.zeros(2)]))[:size]
        except np.linalg.LinAlgError:
            raise NotConvergedError(NO_END, point.R, point.theta) from None
        return of_scores, -found.project(point.gradient_abilities + likelihood.times(point.cross, of_scores))
