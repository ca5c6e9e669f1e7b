"""Scores by the marginal equations, in which every annotator's ability is integrated out."""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve

from app.rating.arrays import Floats, Indices
from app.rating.errors import NotConvergedError
from app.rating.exchange import place_among, total
from app.rating.model.crowd import Clusters, Contributions, Crowd, Directions
from app.rating.model.crowds import Crowds
from app.rating.model.law import ASSUMED_SPREAD, SETTLED, TYPES, Found, Law, find_law, hold_law
from app.rating.model.start import PRECISION, balance, disperse, fit_bradley_terry
from app.rating.threads import one_blas_thread
from app.rating.votes.cells import Cells, pool_annotators
from app.rating.votes.graph import find_components

MOST_ITERATIONS = 60
CONVERGED = 2e-8  # what the last step is to leave of a score, natural units
LAST, SHORT = 2e-4, 1e-6  # steps that may be the last one, that are it
THERE = 1e-8  # squared standard errors from the solution, within which rounding may decide what is better
NEAR = 1e-3  # step below which the nodes of the step before serve, so that the end hangs on no path
FAR = 0.3  # step from which the sample serves
ROUGH = 1e-4  # change of a logarithm that ends the search for the law after longer steps
LONGEST = 1.0  # step of a score
MOST_RATE = 0.3  # of a step to the one before, where Broyden's update is used
MOST_HALVINGS = 8
NEARLY, CLOSE_BY = 1e-4, 0.02  # squared standard errors, and step, where the last search may end that gets no further
TAKEN = ("known", "known_stretched", "weighted_by_law", "plain_by_law")  # of `Contributions`, not in a draft
MOST_FOLLOWERS = 1.0 / 3.0
STRETCH = 1.15  # of the first scores, twice: over these three a parabola tells the unit
SAMPLE = 100_000  # cells, about: from twice as many, a part of the annotators tells the unit
FIRST_SETTLED = 0.05  # change of a logarithm that ends the search for the law at each of them
LEAST_POWER, MOST_POWER = -1.0, 4.0  # of it


@dataclass(frozen=True)
class Equations:
    """The equations of the scores at a point.

    Attributes
    ----------
    value : Σ_k u_k − R/σ², with each component's stretch decided by the plain votes; 0 at the solution
    jacobian : minus its derivative by R at a fixed law, not symmetric
    profiled : minus its derivative where the law follows the scores
    information : Σ n E[h θ p (1 − p)] (e_a − e_b)(e_a − e_b)′ + 1/σ²: positive definite
    response : derivative of the law's logarithms by R, shape (4, n_models)
    """

    value: Floats
    jacobian: Floats
    profiled: Floats
    information: Floats
    response: Floats


@dataclass(frozen=True)
class SearchStart:
    """Where a search begins: another fit's scores, law, and modes of the abilities, shape (n_annotators,)."""

    R: Floats
    law: Law
    mode: Floats


@dataclass(frozen=True)
class MarginalFit:
    """A solution of the marginal equations.

    Attributes
    ----------
    R : scores, natural units of the average honest annotator, each component centred, shape (n_models,)
    label : component of each model, −1 without a vote, shape (n_models,)
    law : of the crowd
    dispersion : variance of a vote relative to p (1 − p); below 1 where there are ties
    ability, ability_sd : posterior mean and standard deviation, NaN without a vote, shape (n_annotators,)
    types : posterior probability of each of `TYPES`, shape (n_annotators, 4)
    log_likelihood : Σ_k log ∫ L_k dG, divided by the dispersion
    equations : at the solution
    directions : in which the plain votes decided, all 0 where they could not
    clusters : what the annotators add to the errors
    iterations : of the solver
    start : for a fit of nearly the same votes
    """

    R: Floats
    label: Indices
    law: Law
    dispersion: float
    ability: Floats
    ability_sd: Floats
    types: Floats
    log_likelihood: float
    equations: Equations
    directions: Directions
    clusters: Clusters
    iterations: int
    start: SearchStart


@one_blas_thread()
def fit_scores(
    cells: Cells,
    *,
    influence_limit: float | None = 1.25,
    spread: float = ASSUMED_SPREAD,
    start: SearchStart | None = None,
) -> MarginalFit:
    """Solve Σ_k E[Σ_c w_c h(θ_k) (s_c − n_c σ(θ_k d_c)) (e_a − e_b) | votes of k] = R/σ² for the scores R.

    E is over the posterior of θ_k under the crowd's law, which is estimated with the scores. h(θ) bounds what a vote of
    an able annotator moves, w_c what many votes of one annotator on a model move: neither depends on the outcomes, so
    each term has the mean 0 at the true scores. The stretch of each component's scores is decided by the same equation
    with h(θ) = θ and w = 1, the gradient of the marginal likelihood: there the law's form matters least.

    Parameters
    ----------
    cells : votes of the annotators that count; each counts as often as its `trust` says
    influence_limit : of `app.rating.model.weights`
    spread : of honest abilities that is assumed before any vote is seen, as that of four annotators
    start : where to begin; default the Bradley-Terry scores of balanced votes, in which no annotator has more than
        about one vote on a model, so that attackers who flood a model do not decide where the search begins

    Raises
    ------
    NotConvergedError

    Notes
    -----
    A follower follows the ranking of the balanced votes, whatever the scores: were it that of the scores, posteriors
    would jump where two models change places.

    References
    ----------
    Bock and Aitkin, Psychometrika 1981; Louis, JRSS B 1982.
    """
    trusted, sample = cells.trusted(), None
    pairs = pool_annotators(trusted)
    label = find_components(pairs).label
    plain = fit_bradley_terry(pairs)
    dispersion, ranking = disperse(pairs, plain), fit_bradley_terry(balance(trusted), begin=plain)
    if start is None and (number := total(len(cells.n))) >= 2 * SAMPLE:
        before, _ = place_among(cells.n_annotators)
        some = cells.where((before + cells.annotator) % (number // SAMPLE) == 0)
        with Crowds(some, influence_limit, 1.0 / dispersion, ranking) as crowds:
            search = Search(crowds, label, dispersion)
            R, law = search.stretch(ranking, Law.assumed(spread))
            sample = search.survey(R, law, number / total(len(some.n)))
        start = SearchStart(R, law, np.ones(cells.n_annotators))
    with Crowds(cells, influence_limit, 1.0 / dispersion, ranking, None if start is None else start.mode) as crowds:
        search = Search(crowds, label, dispersion, sample)
        if start is None:
            return search.find(*search.stretch(ranking, Law.assumed(spread)))
        return search.find(start.R.astype(np.float64), start.law)


@dataclass(frozen=True)
class Point:
    """Where the search is.

    Attributes
    ----------
    value : log-likelihood and log priors, times the dispersion: the plain equations are its gradient
    log_likelihood : of the votes
    away : value′ information⁻¹ value of the equations: about how far the solution is, in squared standard errors
    """

    R: Floats
    law: Law
    equations: Equations
    value: float
    log_likelihood: float
    away: float

    def followed(self, step: Floats) -> Law:
        """Return the law after a step of the scores."""
        return self.law.moved(np.clip(self.equations.response @ step, -1.0, 1.0))

    def better_than(self, other: "Point") -> bool:
        """Whether the search may go on from here."""
        return self.away < THERE or self.value > other.value or self.away <= other.away


class Search:
    """The search for the scores.

    Parameters
    ----------
    sample : what a part of the annotators say that abilities and law take from the information, times so much that it
        stands for all: it serves for long steps, of which the next ones make good what it lacks

    Attributes
    ----------
    close : squared standard errors from the solution, below which a step is the last one
    stretching : whether the plain votes decide each component's stretch
    assuming : whether the law stays as it is
    narrowest : of `find_law`
    """

    close, stretching, assuming, narrowest = 0.0, True, False, 0.0

    def __init__(
        self, crowds: Crowds, label: Indices, dispersion: float, sample: dict[str, Floats] | None = None
    ) -> None:
        self.crowds, self.label, self.dispersion, self.iterations = crowds, label, dispersion, 0
        self.sample = sample

    def find(self, R: Floats, law: Law) -> MarginalFit:
        """Solve the equations from a point; where that fails, with the bounded votes deciding the stretch too.

        A few annotators far from any law, such as some who always vote against the scores of a niche, can ask for a
        stretch that moves the niche away from the other models, without end. At last the law stays as it is before any
        vote is seen: so few votes do not tell it.

        Where a third of the annotators would be followers, no one is: then the models are far apart, and those who
        agree on that are the crowd. The search begins again.

        Raises
        ------
        NotConvergedError
        """
        found = self._find(R, law)
        followers = np.concatenate(
            [each.types[:, TYPES.index("follower")] for each in self.crowds.each(Crowd.abilities)]
        )
        followed, annotators = total(np.array([followers.sum(), len(followers)]))
        if followed > MOST_FOLLOWERS * annotators:
            self.crowds.each(Crowd.leave_followers_out)
            found = self._find(R, law)
        return self.conclude(found)

    def stretch(self, R: Floats, law: Law) -> tuple[Floats, Law]:
        """Bring Bradley-Terry scores about to the unit, and the law with them.

        They are too close together: to them annotators who vote at random are like all others.
        """
        self.crowds.each(Crowd.look, R, law.spread)
        self.crowds.each(Crowd.fill, R)
        values = []
        for factor in (1.0, STRETCH, STRETCH):
            self.crowds.each(Crowd.stretch, factor)
            found = find_law(law, self.crowds.weigh, settled=FIRST_SETTLED)
            law = found.law
            values.append(found.value)
        curve = 2.0 * values[1] - values[0] - values[2]
        if curve <= 0.0:
            return R, law
        power = 1.0 + (values[2] - values[0]) / (2.0 * curve)
        return R * STRETCH ** min(max(power, LEAST_POWER), MOST_POWER), law

    def survey(self, R: Floats, law: Law, times: float) -> dict[str, Floats]:
        """Return so many times what abilities and law take from the information, by the names of `Contributions`."""
        self.crowds.each(Crowd.look, R, law.spread)
        self.crowds.each(Crowd.fill, R)
        self.crowds.weigh(law)
        sums = self.crowds.total(Crowd.contribute, self.directions(R), law)
        return {name: times * getattr(sums, name) for name in TAKEN}

    def _find(self, R: Floats, law: Law) -> Point:
        begin = self.at(R, law, look=True)
        with suppress(NotConvergedError):
            return self.solve(begin)
        self.stretching = False
        with suppress(NotConvergedError):
            return self.solve(self.at(begin.R, begin.law, look=True))
        self.assuming = True
        return self.solve(self.at(begin.R, law, look=True))

    def directions(self, R: Floats) -> Directions:
        """Return the directions in which the plain votes decide."""
        found = Directions.of(R, self.label)
        return found if self.stretching else replace(found, along=np.zeros_like(found.along))

    def at(self, R: Floats, law: Law, *, look: bool) -> Point:
        """Estimate the law at these scores, and set up the equations."""
        crowds, directions = self.crowds, self.directions(R)
        if look:
            crowds.each(Crowd.look, R, law.spread)
        crowds.each(Crowd.fill, R)
        find = (
            hold_law
            if self.assuming
            else partial(find_law, settled=ROUGH if look else SETTLED, narrowest=self.narrowest)
        )
        found = find(law, crowds.weigh)
        value = self.dispersion * found.value - 0.5 * PRECISION * float(R @ R)
        if self.sample is None:
            sums = crowds.total(Crowd.contribute, directions, found.law)
        else:
            sums = replace(crowds.total(Crowd.draft, directions, found.law), **self.sample)
        equations = combine(sums, R, directions, found, self.dispersion)
        away = float(equations.value @ cho_solve(cho_factor(equations.information), equations.value))
        return Point(R, found.law, equations, value, found.posterior.value, away)

    def solve(self, at: Point) -> Point:
        """Solve the equations by Newton's method with backtracking.

        The Jacobian is not exact, so that near the solution a step is about the same small part of the one before:
        Broyden's update of the inverse takes that part away.

        Raises
        ------
        NotConvergedError
        """
        before: Floats | None = None
        alike = False
        for _ in range(MOST_ITERATIONS):
            self.iterations += 1
            step = _solve(at.equations)
            longest = float(np.abs(step).max(initial=0.0))
            rate = 1.0 if before is None else min(longest / float(np.abs(before).max()), 1.0)
            if before is not None and alike and longest < NEAR and rate < MOST_RATE:
                step /= 1.0 - float(before @ step) / float(before @ before)
            last = longest < SHORT or (longest < LAST and longest * rate**2 < CONVERGED) or at.away < self.close
            if last and self.sample is None:
                return replace(at, R=at.R + step, law=at.followed(step))
            step *= min(1.0, LONGEST / longest)
            alike = self.sample is None
            if longest < FAR:
                self.sample = None
            there, before = self.at(at.R + step, at.followed(step), look=longest > NEAR), step
            if not there.better_than(at):
                at = self.at(at.R, at.law, look=longest > NEAR)
                better, before = self.halve(at), None
                if better is None:
                    break
                there = better
            at = there
        left = _solve(at.equations)
        if self.assuming and at.away < NEARLY and float(np.abs(left).max(initial=0.0)) < CLOSE_BY:
            return at
        raise self.failed(at, left)

    def halve(self, at: Point) -> Point | None:
        """Shorten the step from a point until it leads to a better one, at the same nodes: others have other sums."""
        step = _solve(at.equations)
        step *= min(1.0, LONGEST / float(np.abs(step).max()))
        for _ in range(MOST_HALVINGS):
            there = self.at(at.R + step, at.followed(step), look=False)
            if there.better_than(at):
                return there
            step /= 2.0
        return None

    def failed(self, at: Point, step: Floats) -> NotConvergedError:
        """Return the error of a search that ends before it converges."""
        detail = f"the scores still moved by {np.abs(step).max(initial=0.0):.1e} after {self.iterations} iterations"
        abilities = np.concatenate([each.mean for each in self.crowds.each(Crowd.abilities)])
        return NotConvergedError(detail, at.R, abilities)

    def known(self, equations: Equations) -> Floats:
        """Return the information on every score, abilities known."""
        return np.maximum(np.diag(equations.information) - PRECISION, 1e-300)

    def conclude(self, at: Point) -> MarginalFit:
        """Return the fit at a solution, with what the annotators add to its errors."""
        directions = self.directions(at.R)
        clusters = self.crowds.total(Crowd.cluster, directions, self.known(at.equations))
        mean, sd, types, mode = (
            np.concatenate(column) for column in zip(*self.crowds.each(Crowd.abilities, followers=True), strict=True)
        )
        return MarginalFit(
            at.R, self.label, at.law, self.dispersion, mean, sd, types, at.log_likelihood, at.equations, directions,
            clusters, self.iterations, SearchStart(at.R, at.law, mode),
        )  # fmt: skip


def combine(found: Contributions, R: Floats, directions: Directions, law: Found, dispersion: float) -> Equations:
    """Put the equations together: those of the weighted votes, but for each component's stretch that of the plain ones.

    With t the vector along a component's centred scores, x = u − R/σ² and y the same of the plain votes, the value is
    x + Σ t t′(y − x).
    """
    along, size = directions.along, len(R)
    prior = PRECISION * np.eye(size)
    weighted, plain = found.weighted - PRECISION * R, found.plain - PRECISION * R
    of_weighted = found.information - found.known + prior
    missing = along.T @ (plain - weighted)
    value = weighted + along @ missing
    inside = directions.inside()
    length = directions.length
    amount = inside.T @ np.abs(found.stretched)  # γ belongs to every component, about as it has votes
    own = inside + (directions.label < 0)[:, None] * amount / max(float(amount.sum()), 1e-300)
    of_plain = own * found.stretched[:, None] - found.known_stretched + PRECISION * along
    jacobian = of_weighted + along @ (of_plain - of_weighted.T @ along).T
    difference = inside * (plain - weighted)[:, None]
    centred = difference - inside * (difference.sum(axis=0) / np.maximum(inside.sum(axis=0), 1.0))
    turn = missing / length  # how the directions turn with the scores
    jacobian -= np.diag(inside @ turn) - (inside * (turn / np.maximum(inside.sum(axis=0), 1.0))) @ inside.T
    jacobian -= along @ (centred / length).T - 2.0 * (along * turn) @ along.T
    response = law.inverse @ found.plain_by_law.T
    by_law = found.weighted_by_law + along @ (along.T @ (dispersion * found.plain_by_law - found.weighted_by_law))
    return Equations(value, jacobian, jacobian - by_law @ response, found.information + prior, response)


def _solve(equations: Equations) -> Floats:
    """Return the Newton step; where no Jacobian is positive, that of expectation-maximisation."""
    for jacobian in (equations.profiled, equations.jacobian):
        try:
            cho_factor((jacobian + jacobian.T) / 2.0)
        except LinAlgError:
            continue
        step: Floats = solve(jacobian, equations.value)
        return step
    step = cho_solve(cho_factor(equations.information), equations.value)
    return step  # noqa: RET504  of a known type
