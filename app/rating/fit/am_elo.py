from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.errors import (
    NoCommonRankingError,
    NoFiniteMaximumError,
    NotConvergedError,
    SaddlePointError,
    counted,
)
from app.rating.fit.abilities import profile_abilities
from app.rating.fit.likelihood import Curvature, Likelihood
from app.rating.fit.m_elo import fit_m_elo_unchecked
from app.rating.fit.partition import Partition
from app.rating.fit.partitions import Partitions
from app.rating.fit.result import FitResult
from app.rating.fit.rows import CellRows, count_following
from app.rating.fit.scale import find_scale
from app.rating.fit.sqp import Optimum, minimise
from app.rating.fit.unit import refuse_low
from app.rating.votes.cells import Cells
from app.rating.votes.compact import pool_annotators

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
    return find_maximum(cells, component, prior_sd=prior_sd, ability_cap=ability_cap, start=start).fit


def find_maximum(
    cells: Cells,
    component: Indices,
    *,
    prior_sd: float | None,
    ability_cap: float | None,
    start: tuple[Floats, Floats] | None = None,
) -> "Maximum":
    """Fit as `fit_am_elo`; return the derivatives too."""
    if prior_sd is None and ability_cap is not None:
        raise ValueError("an ability cap needs a prior: without one nothing sets the scale of abilities")
    likelihood, cap = Likelihood(cells, prior_sd), np.inf if ability_cap is None else ability_cap
    found, failures = list[Maximum](), list[NotConvergedError | NoCommonRankingError]()
    with Partitions.of(cells, component, find_scale(cells), prior_sd=prior_sd, cap=ability_cap) as partitions:
        starts = list(_starts(cells, partitions, prior_sd)) if start is None else [start[0]]
        for R in starts:
            if start is None:
                partitions.each(Partition.update_abilities, R, steps=FIRST_UPDATES, furthest=FURTHEST_START)
            else:
                partitions.begin(start[1])
            try:
                found.append(finish(minimise(partitions, R), partitions.abilities(), likelihood, cap))
            except NoCommonRankingError as failure:
                failures.append(failure)
            except NotConvergedError as failure:
                failures.append(_explain(failure, likelihood, cap))
    if not found:
        raise failures[0]
    return _choose(likelihood, found)


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


def _explain(
    failure: NotConvergedError, likelihood: Likelihood, cap: float
) -> NotConvergedError | NoCommonRankingError:
    """Return the failure, or what the votes say of it: there is no common ranking.

    Raises
    ------
    NoFiniteMaximumError
    """
    rows, precision = likelihood.rows, likelihood.precision
    if not precision:
        _refuse_unbounded(rows, failure.R)
    own = profile_abilities(rows, failure.R, failure.theta, precision=precision).theta
    try:
        refuse_low(float(np.median(np.minimum(own, cap))))
    except NoCommonRankingError as explained:
        return explained
    return failure


def _choose(likelihood: Likelihood, found: list["Maximum"]) -> "Maximum":
    """Return the highest maximum.

    Raises
    ------
    SaddlePointError
        Another one is as good: the votes do not decide.
    """
    values = [likelihood.prior(one.fit.theta) - one.fit.log_likelihood for one in found]
    best = found[int(np.argmin(values))]
    for (fit, _), value in zip(found, values, strict=True):
        apart = fit.R - best.fit.R
        furthest = apart[np.argmax(np.abs(apart))]
        if value < min(values) + AS_GOOD and abs(furthest) > APART:
            raise SaddlePointError((fit.R + best.fit.R) / 2.0, (fit.theta + best.fit.theta) / 2.0, apart / furthest)
    return best


class Maximum(NamedTuple):
    """A fit, and the derivatives there by the observed Hessian."""

    fit: FitResult
    point: Curvature


def finish(optimum: Optimum, theta: Floats, likelihood: Likelihood, cap: float) -> Maximum:
    """Return the maximum at which a search of scores and abilities ended, and refuse one that is none."""
    point = likelihood.expand(optimum.R, theta)
    if not likelihood.precision:
        _refuse_unbounded(likelihood.rows, optimum.R)
        _refuse_outgrown(theta)
    else:
        _refuse_opposed(theta, point)
    log_likelihood = likelihood.prior(theta) - point.value
    undecided = np.zeros(len(theta), dtype=bool)
    fit = FitResult(optimum.R, theta, theta >= cap, log_likelihood, optimum.iterations, undecided)
    return Maximum(fit, point)


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
