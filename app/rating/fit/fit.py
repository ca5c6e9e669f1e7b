from collections.abc import Callable, Iterator

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.errors import (
    NoCommonRankingError,
    NoFiniteMaximumError,
    NoFiniteScoreError,
    NotConvergedError,
    SaddlePointError,
    counted,
)
from app.rating.fit.abilities import profile_abilities
from app.rating.fit.arrow import Problem
from app.rating.fit.likelihood import Curvature, Likelihood, laplacian
from app.rating.fit.newton import minimise_scores
from app.rating.fit.partition import Partition
from app.rating.fit.partitions import Partitions
from app.rating.fit.result import FitResult
from app.rating.fit.rows import CellRows, count_following
from app.rating.fit.scale import find_scale, typical_ability
from app.rating.fit.sqp import Optimum, minimise
from app.rating.votes.cells import Cells
from app.rating.votes.compact import pool_annotators
from app.rating.votes.graph import find_components, find_identified, strong_classes

CERTAIN = 2.0  # standard errors from 0, beyond which the sign of an ability is certain
FIRST_UPDATES = 3  # Newton steps on each ability alone, from 1
FURTHEST_START = 1.5  # no ability starts further from 0 than this
# times the typical ability: in a million votes that do not all agree θd stays below 14, so the typical annotators would
# prefer the better one of such models in 50.4 % of votes at most
OUTGROWN = 1e3
FEW = 20  # annotators, below which the likelihood often has several maxima, or equal ones
BELIEVED = 5.0  # votes that one counts, of an annotator who is believed more
AS_GOOD = 1e-6  # difference in log-likelihood that rounding may make
APART = 1e-3  # natural units between two different maxima


def fit_m_elo(cells: Cells, component: Indices, start: Floats | None = None) -> FitResult:
    """Maximise ℓ(R) = Σ_cells s·log σ(R_a − R_b) + (n − s)·log σ(R_b − R_a): Bradley-Terry.

    Parameters
    ----------
    cells : every model connected to every other of its component through wins in both directions
    component : component of each model, shape (n_models,)
    start : R to start from; default 0, which is also used where the search from `start` fails

    Returns
    -------
    FitResult
        with θ = 1; unique up to the shift that centring each component removes.

    Raises
    ------
    NoFiniteScoreError
        A model is not so connected: the maximum lies at infinity.
    NotConvergedError

    Notes
    -----
    Concave; works on the pair table, O(n_models²) memory and O(n_models³) per iteration, about 5 to 10 iterations.

    References
    ----------
    Liu et al., Am-ELO, ICML 2025, eq. 4; Bradley and Terry (1952).
    """
    pairs = pool_annotators(cells)
    strong = strong_classes(pairs, np.ones(1))
    if len(np.unique(strong)) > len(np.unique(component)):
        largest = find_identified(pairs, find_components(pairs), np.ones(1))
        raise NoFiniteScoreError(np.flatnonzero(~largest))
    if start is not None and np.isfinite(start).all():
        try:
            return fit_m_elo_unchecked(cells, component, start)
        except NotConvergedError:
            pass  # the likelihood is flat so far out
    return fit_m_elo_unchecked(cells, component)


def fit_m_elo_unchecked(cells: Cells, component: Indices, start: Floats | None = None) -> FitResult:
    """Maximise as `fit_m_elo`; where the maximum lies at infinity, stop far out, as a start for other fits."""
    R = np.zeros(cells.n_models) if start is None else start
    pooled = minimise_scores(Likelihood(pool_annotators(cells), None), component, R, np.ones(1))
    theta, no_annotator = np.ones(cells.n_annotators), np.zeros(cells.n_annotators, dtype=bool)
    return FitResult(pooled.R, theta, no_annotator, pooled.log_likelihood, pooled.iterations, no_annotator)


def fit_am_elo(
    cells: Cells,
    component: Indices,
    *,
    prior_sd: float | None = 1.0,
    ability_cap: float | None = 1.75,
    start: tuple[Floats, Floats] | None = None,
) -> FitResult:
    """Maximise ℓ(R, θ) − Σ_k (θ_k − 1)²/(2 sd²) with P = σ(θ_k (R_a − R_b)), θ_k ≤ cap and typical θ = 1.

    Parameters
    ----------
    cells : as for `fit_m_elo`
    component : component of each model, shape (n_models,)
    prior_sd : None is the paper's estimator (plain maximum likelihood)
    ability_cap : in units of the typical ability, greater than 1; None for none
    start : (R, θ); default m-ELO and the abilities at its scores. With a prior and fewer than 20 annotators the highest
        of several maxima is taken, from starts that believe each annotator more in turn

    Returns
    -------
    FitResult
        The typical θ (a smooth median, `app.rating.fit.scale`) is 1 in every group of models and annotators that votes
        connect. Without a prior that is only a choice of gauge, with one it is part of the estimator. The published
        unit is another (`app.rating.fit.scale`).

    Raises
    ------
    ValueError
        A cap without a prior: nothing would set the scale.
    NoFiniteMaximumError
        Without a prior only: the abilities of `annotators` (indices) have no finite maximum. Either all their votes
        follow (or oppose) the ranking, or they grow beyond 1,000 times the typical ability, because the votes put that
        at 0.
    NoCommonRankingError
        No scale makes the typical ability 1, or half of the annotators certainly oppose the ranking.
    NotConvergedError
        `SaddlePointError` where two of the maxima are as good.

    Notes
    -----
    The objective is bi-concave, not jointly concave: the result is the stationary point that the search reaches from
    the start; docs/math.md compares it with random starts. One pass over the cells per iteration.

    References
    ----------
    Liu et al., Am-ELO, ICML 2025, eqs. 5 to 7, Algorithm 2.
    """
    if prior_sd is None and ability_cap is not None:
        raise ValueError("an ability cap needs a prior: without one nothing sets the scale of abilities")
    likelihood = Likelihood(cells, prior_sd)
    with Partitions.of(cells, component, find_scale(cells), prior_sd=prior_sd, cap=ability_cap) as partitions:
        climb = Climb(likelihood, partitions, ability_cap)
        if start is not None:
            partitions.begin(start[1])
            return climb.finish(climb.search(start[0]))
        return climb.finish(climb.search_from_all(_starts(cells, partitions, prior_sd)))


def _starts(cells: Cells, partitions: Partitions, prior_sd: float | None) -> Iterator[Floats]:
    """Yield the scores to start from.

    The first are m-ELO's with every annotator weighing about one vote on each model. With equal votes, annotators who
    vote most often on a model decide its score. A ring that floods one model's battles then looks reliable, and am-ELO
    reaches a lower maximum (docs/math.md, "The solver"). Few annotators may have several maxima, because it is open
    which of them to believe: for each of them there is a start that does.
    """
    yield fit_m_elo_unchecked(partitions.balanced_pairs(), partitions.component).R
    if prior_sd is None or not 1 < cells.n_annotators < FEW:
        return
    for annotator in range(cells.n_annotators):
        weight = np.where(cells.annotator == annotator, BELIEVED, 1.0)
        yield fit_m_elo_unchecked(pool_annotators(cells, weight), partitions.component).R


def _choose(likelihood: Likelihood, fits: list[FitResult]) -> FitResult:
    """Return the highest maximum.

    Raises
    ------
    SaddlePointError
        Another one is as good: the votes do not decide.
    """
    values = [likelihood.prior(fit.theta) - fit.log_likelihood for fit in fits]
    best = fits[int(np.argmin(values))]
    for fit, value in zip(fits, values, strict=True):
        apart = fit.R - best.R
        furthest = apart[np.argmax(np.abs(apart))]
        if value < min(values) + AS_GOOD and abs(furthest) > APART:
            raise SaddlePointError((fit.R + best.R) / 2.0, (fit.theta + best.theta) / 2.0, apart / furthest)
    return best


class Climb:
    """The search for a maximum from where the abilities in the partitions are."""

    def __init__(self, likelihood: Likelihood, partitions: Partitions, ability_cap: float | None) -> None:
        self.likelihood, self.partitions = likelihood, partitions
        self.plain, self.cap = likelihood.precision == 0.0, np.inf if ability_cap is None else ability_cap

    def search(self, R: Floats, known: Callable[[Floats, Floats], bool] | None = None) -> Optimum:
        """Search from these scores, by `minimise`. A failure is explained where the votes explain it."""
        try:
            return minimise(self.partitions, R, known)
        except NotConvergedError as failure:
            rows, precision = self.likelihood.rows, self.likelihood.precision
            if self.plain:
                _refuse_unbounded(rows, failure.R)
            own = profile_abilities(rows, failure.R, failure.theta, precision=precision).theta
            typical_ability(np.minimum(own, self.cap))
            raise

    def search_from_all(self, starts: Iterator[Floats]) -> Optimum:
        """Search from all these scores, with the abilities that they suggest, and go to the highest maximum."""
        fits, failures = list[FitResult](), list[NotConvergedError | NoCommonRankingError]()
        several = list(starts)
        for R in several:
            self.partitions.each(Partition.update_abilities, R, steps=FIRST_UPDATES, furthest=FURTHEST_START)
            if len(several) == 1:
                return self.search(R)
            try:
                fits.append(self.finish(self.search(R)))
            except (NotConvergedError, NoCommonRankingError) as failure:
                failures.append(failure)
        if not fits:
            raise failures[0]
        best = _choose(self.likelihood, fits)
        self.partitions.begin(best.theta)
        return Optimum(best.R, best.iterations)

    def finish(self, optimum: Optimum) -> FitResult:
        """Return the result with its derivatives, and refuse one that is none."""
        theta, point = self.partitions.abilities(), self._expand(optimum.R)
        if self.plain:
            _refuse_unbounded(self.likelihood.rows, optimum.R)
            _refuse_outgrown(theta)
        else:
            _refuse_opposed(theta, point)
        log_likelihood = self.likelihood.prior(theta) - point.value
        end = Problem(self.likelihood, self.partitions.component, self.partitions.scale), point
        undecided = np.zeros(len(theta), dtype=bool)
        return FitResult(optimum.R, theta, theta >= self.cap, log_likelihood, optimum.iterations, undecided, end)

    def _expand(self, R: Floats) -> Curvature:
        """Return the derivatives by the observed Hessian; those of abilities and cells come from the partitions."""
        no_multiplier = np.zeros(self.partitions.scale.number)
        point = self.partitions.total(Partition.expand, R, no_multiplier, exact=True)
        derivatives = zip(*self.partitions.each(Partition.derivatives), strict=True)
        gradient, D, cross = (np.concatenate(each) for each in derivatives)
        A = laplacian(point.stiffness, self.partitions.n_models)
        return Curvature(point.value, point.gradient, gradient, A, cross, D)


def _refuse_unbounded(rows: CellRows, R: Floats) -> None:
    """Raise where all votes of an annotator follow, or all oppose, the ranking: no finite ability is best."""
    along, against = count_following(rows, R)
    for counter, word in ((against, "follow"), (along, "oppose")):
        unbounded = np.flatnonzero(counter == 0)
        if len(unbounded):
            raise NoFiniteMaximumError(unbounded, word)


def _refuse_opposed(theta: Floats, point: Curvature) -> None:
    """Raise where half of the annotators certainly oppose the ranking, though the constraint may hide it.

    An annotator's own ability is that of their votes and prior alone, one Newton step from the fit at its scores. The
    constraint draws it towards 1, where the typical one must be.
    """
    own = theta - point.gradient_abilities / point.D
    opposed = int(np.count_nonzero(own * np.sqrt(point.D) < -CERTAIN))
    if opposed and opposed >= len(own) / 2.0:
        against = f"{opposed:,} of {counted(len(own), 'annotator')}"
        raise NoCommonRankingError(f"{against} vote against the ranking: the annotators have no common ranking")


def _refuse_outgrown(theta: Floats) -> None:
    """Raise where abilities are so many times the typical one, 1, that it cannot set the scale."""
    outgrown = np.flatnonzero(np.abs(theta) > OUTGROWN)
    if len(outgrown):
        raise NoFiniteMaximumError(outgrown, "outgrow")
