"""What few attackers do to a board, from the fit without them: a Newton step, and a look at where it led."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from app.rating.data.arrays import Floats, Mask
from app.rating.data.threads import one_blas_thread
from app.rating.data.votes import Cells
from app.rating.inference.estimate import Estimate
from app.rating.settings import LoopSettings
from app.rating.solver.arrow import Arrow, find_multiplier
from app.rating.solver.likelihood import Curvature, Likelihood
from app.rating.solver.observed import Observed
from app.rating.solver.profile_abilities import profile_abilities
from app.rating.solver.second_order import mean_score_gradient

FEW = 1 / 50  # of the annotators: more of them change what the typical annotator is
DOUBT = 0.05  # of what moved a model towards or past another, within which the fit itself must tell who is above


class FewAttackers:
    """Says whether attackers lift a model, where that is beyond doubt, without fitting all votes again.

    The system that the fit without them ended with, their own part added, gives the step to the optimum with them. The
    gradient there, one pass over all votes, gives a second, which also says how good the first one was. The correction
    for bias is taken to be what it was, but for their own part.
    """

    def __init__(self, result: Estimate, observed: Observed, arrow: Arrow, settings: LoopSettings) -> None:
        self._result, self._observed, self._arrow = result, observed, arrow
        self._cap = np.inf if settings.ability_cap is None else settings.ability_cap
        self._corrected = settings.bias_correction
        models = len(arrow.S)
        self._shift = np.full((models, models), float(np.mean(np.diag(arrow.S))) / models)
        self._bias = arrow.S @ (result.solution.fit.R - result.solution.R)

    @classmethod
    def of(cls, result: Estimate, settings: LoopSettings) -> "FewAttackers | None":
        """Return it for a fit; None where more than a step is to be foreseen.

        That is where attackers could give a model its score or be excluded, and where the fit has no single scale.
        """
        observed = result.solution.observed
        arrow = None if observed is None else observed.arrow
        alike = result.identified.all() and result.components.number == 1 and not result.solution.fit.undecided.any()
        if settings.exclude or settings.prior_sd == "estimated" or not alike or not isinstance(arrow, Arrow):
            return None
        if observed is None or arrow.scale is None or len(arrow.size) != 1:
            return None
        return cls(result, observed, arrow, settings)

    def lift(self, model: int, attackers: Cells) -> bool | None:
        """Whether the model's rank improves with these votes, by annotators of their own; None if that is in doubt."""
        if attackers.n_annotators > FEW * len(self._result.small.annotators):
            return None
        try:
            with one_blas_thread():
                after, last = self._scores(attackers)
        except LinAlgError:  # with their part added the step leads to no maximum
            return None
        before: Floats = self._result.solution.R
        distance, moved = after - after[model], np.abs(after - after[model] - before + before[model])
        doubt = DOUBT * moved + np.abs(last - last[model])
        rank = 1 + int(np.sum(before > before[model]))
        others: Mask = np.arange(len(after)) != model
        best = 1 + int(np.sum(others & (distance > doubt)))
        worst = 1 + int(np.sum(others & (distance >= -doubt)))
        return True if worst < rank else False if best >= rank else None

    def _scores(self, attackers: Cells) -> tuple[Floats, Floats]:
        """Return the scores with the attackers, bias corrected, and the last step to them; shape (n_models,) each."""
        fit, observed, arrow = self._result.solution.fit, self._observed, self._arrow
        theirs = Likelihood(attackers, self._result.solution.prior_sd)
        ability = self._own(theirs, fit.R, np.ones(attackers.n_annotators))
        point = theirs.expand(fit.R, ability, exact=True)
        inverse_D = np.where(ability < self._cap, 1.0 / point.D, 0.0)
        S = arrow.S + point.A - theirs.rows.products(point.cross, np.sqrt(inverse_D))
        factor = cho_factor(S + self._shift, lower=True)

        first = -cho_solve(factor, point.gradient_scores)
        R = fit.R + first
        cross = observed.point.cross
        theta = fit.theta - arrow.project(observed.likelihood.times_rows(cross, first))
        theta = np.minimum(theta, self._cap)
        honest = observed.likelihood.expand(R, theta, exact=False)
        pull = arrow.project(honest.gradient_abilities + self._along(honest, theta))
        point = theirs.expand(R, self._own(theirs, R, ability), exact=False)
        left = honest.gradient_scores + point.gradient_scores - observed.likelihood.by_model(cross, pull)
        last = -cho_solve(factor, left)
        bias = self._bias
        if self._corrected:
            bias = bias + mean_score_gradient(theirs, fit.R, ability, inverse_D)
        return R + last - cho_solve(factor, bias), last

    def _own(self, theirs: Likelihood, R: Floats, start: Floats) -> Floats:
        """Attackers' abilities at some scores, shape (n_attackers,)."""
        found = profile_abilities(theirs.rows, R, start, precision=theirs.precision, near=1e-4)
        return np.minimum(found.theta, self._cap)

    def _along(self, point: Curvature, theta: Floats) -> Floats:
        """Return what the constraint on the typical ability adds to everybody's gradient, shape (n_annotators,)."""
        scale = self._arrow.scale
        if scale is None:
            return np.zeros(len(theta))
        held = self._arrow.inverse_D == 0.0
        along: Floats = find_multiplier(scale, point, theta, held)[scale.annotators] * scale.gradient(theta)
        return along
