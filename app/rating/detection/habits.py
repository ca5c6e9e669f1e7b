"""Every annotator's ability, readiness to tie and lean to a side, at fixed scores."""

from dataclasses import dataclass, replace

import numpy as np

from app.rating.arrays import Floats, Indices, Mask
from app.rating.detection.habits_kernels import add_tastes
from app.rating.fit.lean_spread import NO_SPREAD, Spread, fit_spread, of_votes_alone
from app.rating.fit.own_terms import OwnPrior, invert, maximise_own
from app.rating.fit.rows import CellRows
from app.rating.threads import map_parts
from app.rating.votes.sided_cells import SidedCells

ABILITY, LEAN, TIES = range(3)
WIDE = np.array([1.0, 1.0, 1.5])  # standard deviations of the priors that the spreads are estimated with
ABILITY_SD = 1.0  # of the prior, times the typical ability: weak, as the fit's own
LEAST_TYPICAL = 0.1  # the fit refuses crowds with a lower typical ability
ROUNDS = 2  # of estimating the spreads, after which they move by less than their errors
LEAST_SD = np.array([0.0, 0.02, 0.1])  # of a habit over the crowd
WORTH = 3.0  # log-likelihood that leans must gain to be used, for the two numbers that describe them
NEAR = 1e-3  # length of the last step of the search, whose error is about its square
TINY = 1e-12  # avoids a division by 0 where the votes say nothing of the ability


@dataclass(frozen=True)
class Habits:
    """Arrays of shape (n_annotators,), NaN for annotators without a vote between scored models.

    Attributes
    ----------
    ability, ability_se : adjusted ability, and its standard error, tastes included; 1 is the typical annotator's until
        the mean of those who count is the unit (`in_units_of`)
    tie_log, tie_se : log of the tie propensity ν, and its standard error; −∞ and 0 where the crowd has no tie
    lean, lean_se : log odds that the side adds, positive for the left; 0 and 0 where leans are not used
    log_lean : log ∫ L(λ) N(λ) dλ / L(λ_k), N the crowd's leans, by Laplace's approximation; 0 where leans are not used
    typical : the unit of abilities, natural units
    ties, leans : the crowd's distributions of the two
    taste_sd : standard deviation of tastes, an own opinion of each model, in log odds; 0 where they are not used
    caution : factor on the variance of each ability because of tastes, at least 1
    """

    ability: Floats
    ability_se: Floats
    tie_log: Floats
    tie_se: Floats
    lean: Floats
    lean_se: Floats
    log_lean: Floats
    typical: float
    ties: Spread
    leans: Spread
    taste_sd: float
    caution: Floats

    def in_units_of(self, counts: Mask) -> "Habits":
        """Return the habits in units of the mean of these annotators, `counts` of shape (n_annotators,)."""
        known = counts & np.isfinite(self.ability)
        mean = max(float(self.ability[known].mean()), LEAST_TYPICAL) if known.any() else 1.0
        return replace(
            self, ability=self.ability / mean, ability_se=self.ability_se / mean, typical=self.typical * mean
        )


def estimate_habits(sided: SidedCells, R: Floats) -> Habits:
    """Maximise each annotator's ℓ_k(a, log ν, λ | R) plus log priors whose spreads the crowd decides.

    A vote with the left model d better is won, tied, lost with weights e^y : ν : e^−y, y = (a d + λ)/2 (Davidson 1970;
    Davidson and Beaver 1977 for the side). a has the weak prior N(m, m²), m the typical ability; log ν and λ have
    normal priors whose means and spreads are estimated. λ is 0 unless leans gain 3 of log-likelihood.

    Parameters
    ----------
    sided : votes of the annotators to judge, between scored models
    R : natural units, shape (n_models,); only models in the cells are read

    Notes
    -----
    Concave for every annotator; Newton's method with halved steps. Spreads by two rounds of empirical Bayes, in which
    outliers do not count. Crowds without a tie, or without sides, have no ν, or λ. O(n_cells × 12).
    """
    search = _Search(sided, np.nan_to_num(R))
    for _ in range(ROUNDS):
        search.solve()
        search.update_priors()
    search.solve()
    return search.result()


class _Search:
    """The habits so far, and the priors in force: means and standard deviations of ability, log ν and λ."""

    def __init__(self, sided: SidedCells, R: Floats) -> None:
        cells = sided.cells
        self.rows, self.R, self.ties = CellRows(cells), R, bool(cells.ties.any())
        self.models, self.votes = (cells.model_a, cells.model_b), (cells.wins_a, cells.ties, cells.wins_b, sided.side)
        self.d = R[cells.model_a] - R[cells.model_b]
        self.known: Mask = np.diff(self.rows.starts) > 0
        share = float(np.clip(cells.ties.sum() / max(cells.n_votes, 1.0), 0.001, 0.9))
        self.centre = np.array([1.0, 0.0, np.log(2.0 * share / (1.0 - share))])
        self.precision = np.tile(WIDE**-2, (cells.n_annotators, 1))
        self.free = np.array([True, sided.known, self.ties])
        self.crowd = [NO_SPREAD] * 3
        self.at = np.tile(self.centre, (cells.n_annotators, 1))
        self.inverse = np.zeros((cells.n_annotators, 3, 3))

    @property
    def typical(self) -> float:
        """Median ability."""
        own = self.at[self.known, ABILITY]
        return max(float(np.median(own)), LEAST_TYPICAL) if len(own) else 1.0

    def solve(self) -> None:
        """Find every annotator's maximum under the priors, and the inverse of the Hessian there."""
        free, z = np.flatnonzero(self.free), self.votes[-1][:, None][:, : int(self.free[LEAN])]
        at, precision = (np.take(each, free, axis=1) for each in (self.at, self.precision))
        prior = OwnPrior(self.centre[free], precision)
        H = maximise_own(self.rows, self.d, z, prior, at, near=0.0, short=NEAR)
        self.at[:, free] = at
        self.inverse = np.zeros_like(self.inverse)
        self.inverse[:, free[:, None], free] = invert(H)

    def update_priors(self) -> None:
        """Estimate the means and spreads over the crowd anew; stop using leans that gain too little."""
        self.centre[ABILITY], self.precision[:, ABILITY] = self.typical, (ABILITY_SD * self.typical) ** -2
        for habit in (TIES, LEAN):
            if not self.free[habit]:
                continue
            _, value, variance = self._of_votes_alone(habit)
            found = fit_spread(value, variance)
            found = replace(found, sd=max(found.sd, LEAST_SD[habit]))
            if habit == LEAN and found.gain < WORTH:
                self.crowd[LEAN], self.free[LEAN], self.at[:, LEAN] = NO_SPREAD, False, 0.0
                continue
            self.crowd[habit], self.centre[habit] = found, found.mean
            self.precision[:, habit] = found.sd**-2

    def _of_votes_alone(self, habit: int) -> tuple[Indices, Floats, Floats]:
        variance = self.inverse[:, habit, habit]
        return of_votes_alone(self.at[:, habit], variance, self.centre[habit], self.precision[:, habit])

    def _find_tastes(self) -> tuple[float, Floats]:
        """Return the variance of tastes, and what each annotator's ability varies by them as a multiple of it."""
        sums = np.zeros((4, len(self.at)))
        map_parts(
            lambda part: add_tastes(
                *part, self.rows.starts, *self.models, *self.votes, self.R, self.ties, self.at, self.inverse, *sums
            ),
            self.rows.parts,
        )
        excess, exposure, noise, pull = sums
        return find_taste_variance(excess, exposure, noise), pull

    def result(self) -> Habits:
        """Return the habits in published units, with tastes."""
        taste, pull = self._find_tastes()
        variance, blank = np.einsum("kii->ki", self.inverse), np.where(self.known, 1.0, np.nan)
        caution = 1.0 + taste * np.divide(pull, variance[:, ABILITY], where=self.known, out=np.zeros(len(pull)))
        se, log_lean = np.sqrt(variance), np.zeros(len(blank))
        if self.free[LEAN]:
            some, value, own = self._of_votes_alone(LEAN)
            log_lean[some] = self.crowd[LEAN].log_evidence(value, own) + 0.5 * (self.at[some, LEAN] - value) ** 2 / own
        return Habits(
            ability=self.at[:, ABILITY] / self.typical * blank,
            ability_se=se[:, ABILITY] * np.sqrt(caution) / self.typical * blank,
            tie_log=(self.at[:, TIES] if self.ties else np.full(len(blank), -np.inf)) * blank,
            tie_se=se[:, TIES] * blank,
            lean=self.at[:, LEAN] * blank,
            lean_se=se[:, LEAN] * blank,
            log_lean=log_lean,
            typical=self.typical,
            ties=self.crowd[TIES],
            leans=self.crowd[LEAN],
            taste_sd=float(np.sqrt(taste)),
            caution=caution,
        )


CERTAIN = 2.0  # standard errors from 0 from which tastes are used
OF_MEDIAN = 1.2533  # standard error of a median, in those of a mean


def find_taste_variance(excess: Floats, exposure: Floats, noise: Floats) -> float:
    """Return the weighted median of excess/exposure, 0 where it is not two standard errors above 0.

    A median, because a few annotators who favour a model have much excess too. The weights are 1/√(error² + the median
    error²), so that no annotator has more than 1.4 times the weight of the median one, however many votes.

    Parameters
    ----------
    excess, exposure, noise : of each annotator, from `add_tastes`, shape (n_annotators,)
    """
    some = exposure > 0.0
    if not some.any():
        return 0.0
    ratio, error = excess[some] / exposure[some], np.sqrt(noise[some]) / exposure[some]
    weight = 1.0 / np.sqrt(error**2 + np.median(error) ** 2)
    order = np.argsort(ratio, kind="stable")
    place = int(np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2.0))
    median = float(ratio[order][min(place, len(order) - 1)])
    se = OF_MEDIAN * float(np.sqrt(weight**2 @ error**2)) / float(weight.sum())
    return median if median > CERTAIN * se else 0.0
