"""Scores of votes with features: γ the crowd's taste, b each annotator's own leans, integrated out with abilities.

P(a wins) = σ(θ_k (R_a − R_b + γ·z) + b_k·z), z what the answer of a has more than that of b. The leans,
b_kj ~ N(0, σ_j²), are integrated by Laplace's approximation at every node of θ_k, their spread σ_j is estimated with
the crowd's law, and γ is one more block of the scores: the search of `app.rating.model.scores` solves for (R, γ).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices, sum_by
from app.rating.model.covariance import ScoreCovariance, find_covariance
from app.rating.model.crowd import BLOCK, Clusters, Contributions, Crowd, Directions, laplacian
from app.rating.model.crowds import Crowds
from app.rating.model.feature_kernels import (
    OF_ABILITY,
    Leaning,
    Told,
    climb_abilities_and_leans,
    expand_leans,
    find_feature_contributions,
    spread_lines,
)
from app.rating.model.kernels import COIN, Nodes, fill_likelihoods
from app.rating.model.law import TYPES, Law, Posterior
from app.rating.model.score_kernels import ENOUGH_SHARE, LARGEST_SHARE, Rows
from app.rating.model.scores import Equations, MarginalFit, Point, Search, SearchStart, fit_scores
from app.rating.model.start import balance, disperse, fit_bradley_terry
from app.rating.threads import one_blas_thread
from app.rating.votes.cells import Cells, pool_annotators
from app.rating.votes.features import features_of
from app.rating.votes.graph import find_components

FIRST_SPREAD = 0.3  # of the leans, log-odds, where the search begins
ASSUMED_SPREAD = 0.7  # mode of the spread's prior, which has the density σ exp(−σ²/2·0.7²)
LEAST_SPREAD, MOST_SPREAD = 0.02, 3.0
SPREAD_STEPS, SPREAD_CONVERGED = 50, 1e-9  # at most; change of a variance that ends them
CLOSE = 1e-5  # squared standard errors from the solution, of which the last step leaves a hundredth
NARROWEST = 0.8  # of the spread of abilities, in one search for the law
MOST_OF_SPREAD = 0.6  # of a change of the spread that the next estimate of it follows, as far as that is extrapolated
KNOWN = 1e-6  # information below which an annotator's votes say nothing of a lean


COIN_TYPE, FOLLOWER_TYPE = TYPES.index("coin"), TYPES.index("follower")


class Leans(NamedTuple):
    """What annotators add to γ, log-odds by one unit of a feature, shapes (n_annotators, n_features).

    Attributes
    ----------
    own, own_sd : posterior mean of b_k, and its error, that of scores and γ included
    lean, lean_sd : the same of θ_k γ + b_k
    """

    own: Floats
    own_sd: Floats
    lean: Floats
    lean_sd: Floats


@dataclass(frozen=True)
class FeatureFit:
    """A solution of the marginal equations of votes with features.

    Attributes
    ----------
    fit : with R = (R, γ); the label of γ is −1
    covariance : of (R, γ)
    spread : σ_j, log-odds, shape (n_features,)
    leans : of the annotators in the fit
    """

    fit: MarginalFit
    covariance: ScoreCovariance
    spread: Floats
    leans: Leans

    @property
    def scores(self) -> Floats:
        """R, natural units of the average honest annotator, shape (n_models,)."""
        return self.fit.R[: -len(self.spread)]

    @property
    def gamma(self) -> Floats:
        """γ, natural units, shape (n_features,)."""
        return self.fit.R[-len(self.spread) :]


@one_blas_thread()
def fit_features(cells: Cells, *, influence_limit: float | None = 1.25, start: SearchStart | None = None) -> FeatureFit:
    """Solve the equations of `fit_scores` for the scores and γ together, abilities and leans integrated out.

    Parameters
    ----------
    cells : with features
    influence_limit : as for `fit_scores`
    start : of a fit of the same votes without features; default such a fit

    Raises
    ------
    NotConvergedError
    """
    trusted = cells.trusted()
    count, pairs = features_of(cells).shape[1], pool_annotators(trusted)
    plain = fit_bradley_terry(pairs)
    dispersion, ranking = disperse(pairs, plain), fit_bradley_terry(balance(trusted), begin=plain)
    label = np.append(find_components(pairs).label, np.full(count, -1))
    begin = fit_scores(cells, influence_limit=influence_limit).start if start is None else start
    with Crowds(cells, influence_limit, 1.0 / dispersion, ranking, begin.mode, kind=FeatureCrowd) as crowds:
        search = _FeatureSearch(crowds, label, dispersion, np.full(count, FIRST_SPREAD))
        fit = search.find(np.append(begin.R, np.zeros(count)), begin.law)
        covariance = find_covariance(fit)
        return FeatureFit(fit, covariance, search.spread, _find_leans(crowds, covariance))


@one_blas_thread()
def find_shadows(found: FeatureFit, cells: Cells) -> Leans:
    """Return the leans of annotators outside a fit, at its scores, γ and laws."""
    fit = found.fit
    with Crowds(cells, None, 1.0 / fit.dispersion, found.scores, kind=FeatureCrowd) as crowds:
        crowds.each(FeatureCrowd.take_spread, found.spread)
        crowds.each(Crowd.look, fit.R, fit.law.spread)
        crowds.each(Crowd.fill, fit.R)
        crowds.weigh(fit.law)
        return _find_leans(crowds, found.covariance)


def _find_leans(crowds: Crowds, covariance: ScoreCovariance) -> Leans:
    return Leans(*np.concatenate(crowds.each(FeatureCrowd.lean, covariance.scores)).transpose(1, 0, 2))


class FeatureCrowd(Crowd):
    """Annotators with leans, and their votes with features; where `Crowd` has scores R, this has (R, γ).

    Attributes
    ----------
    spread : σ of the leans in force, shape (n_features,)
    leaning : the leans at the nodes
    told : what `contribute` found last of each annotator
    known : information of each annotator's votes about γ, abilities and leans unknown, shape (n_annotators, n_features)
    """

    def __init__(
        self, cells: Cells, weight: Floats, temper: float, ranking: Floats, mode: Floats | None = None
    ) -> None:
        super().__init__(cells, weight, temper, ranking, mode)
        self._z = np.ascontiguousarray(features_of(cells))
        number, count = cells.n_annotators, self._z.shape[1]
        self._at = np.column_stack([self.mode, np.zeros((number, count))])
        self.spread, self.known = np.full(count, FIRST_SPREAD), np.zeros((number, count))
        base, slope = np.zeros((2, number, count))
        variance, log_det, square = np.zeros((number, count, count)), np.zeros(number), np.zeros(len(cells.n))
        self.leaning = Leaning(base, slope, variance, log_det, square, np.zeros((count, 0)), np.zeros(0))
        self.told = Told(
            np.zeros((number, count, 3 + OF_ABILITY)), np.zeros((number, count)), np.zeros((number, count, count)),
            np.zeros((number, 2, 2)), np.zeros(len(cells.n)),
        )  # fmt: skip

    def take_spread(self, spread: Floats) -> None:
        """Put another spread of the leans in force."""
        self.spread = spread

    def look(self, R: Floats, spread: float) -> None:
        """Set the nodes around the mode of each (θ, b), and the line of the leans' modes at them."""
        climb_abilities_and_leans(
            self.cells.arrays, self._z, R, self.temper, self.spread**-2, self._at, self._information, self.leaning
        )
        self.mode = self._at[:, 0].copy()
        self.set_nodes(spread)
        nodes = int(self.nodes.begin[-1])
        self.leaning = self.leaning._replace(move=np.zeros((len(self.spread), nodes)), factor=np.zeros(nodes))

    def fill(self, R: Floats) -> None:
        """Compute the likelihoods at the nodes and of a coin, the leans integrated out."""
        arrays, nodes, won = self.cells.arrays, self.nodes, np.empty((len(self.mode), 2))
        self._R = R
        spread_lines(arrays, self._z, R, self.leaning, nodes, won)
        fill_likelihoods(arrays, np.zeros(self.cells.n_models), self.temper, nodes)
        expand_leans(arrays, self._z, self.temper, self.spread**-2, nodes, won, self.leaning)
        self._extra[:, COIN] = read_at_zero(nodes)

    def weigh(self, law: Law) -> Posterior:
        """Set the posteriors under a law; return their sums."""
        self._law = law
        return super().weigh(law)

    def moments(self) -> tuple[Floats, Floats, Floats]:
        """Return E[b], E[b²] and E[θ b], shape (n_annotators, n_features) each.

        Of a follower's leans the votes say nothing.
        """
        follower, (own, square, cross) = self.types[:, FOLLOWER_TYPE, None], self.told.moments.T[:3].transpose(0, 2, 1)
        return own, square + (1.0 - follower) * self.told.variance + follower * self.spread**2, cross

    def mass(self) -> Floats:
        """Return the posterior of the nodes, with that of a coin on those next to 0."""
        mass, nodes, coin = self.nodes.posterior.copy(), self.nodes, self.types[:, COIN_TYPE] / 2.0
        place = np.floor(-nodes.low / nodes.step).astype(np.int64)
        for beside in (place, place + 1):
            mass[np.clip(nodes.begin[:-1] + beside, nodes.begin[:-1], nodes.begin[1:] - 1)] += coin
        return mass

    def contribute(self, directions: Directions, law: Law) -> Contributions:  # noqa: ARG002  the last law
        """Return what the annotators say of scores and γ."""
        size, along = len(self._R), directions.along
        sums, half = self._no_sums(), OF_ABILITY + len(self.spread)
        known, known_stretched, by_law = np.zeros((size, size)), np.zeros(along.shape), np.zeros((2, size, 4))
        for first, last, rows in self._rows(directions, sums):
            of_u, of_likelihood = rows[2 : 2 + half], rows[2 + half : -1]
            own = of_likelihood.reshape(-1, size)
            known += of_u.reshape(-1, size).T @ own
            known_stretched += own.T @ (own @ along) / self.temper
            of_law, types = self.told.of_law[first:last], self.types[first:last]
            for place, some, own in ((0, of_u, rows[0]), (1, of_likelihood, self.temper * rows[1])):
                by_law[place][:, [0, 2]] -= own.T @ types[:, [1, 3]]
                by_law[place][:, [1, 3]] += some[0].T @ of_law[:, 0] + some[1].T @ of_law[:, 1]
        weighted, plain, information, stretched = sums
        information += np.tril(information, -1).T
        return Contributions(
            weighted, plain, information, known, stretched, known_stretched, by_law[0], by_law[1]
        )  # fmt: skip

    def cluster(self, directions: Directions, information: Floats) -> Clusters:
        """Return what the annotators add to the errors.

        Parameters
        ----------
        information : of each model over all annotators; of γ, what is known with abilities and leans unknown
        """
        size, models, along, c = len(self._R), self.cells.n_models, directions.along, self.cells
        meat, shares, judges, pairs = np.zeros((size, size)), np.zeros(size), np.zeros(size), np.zeros(models**2)
        for first, last, rows in self._rows(directions, self._no_sums()):
            share = rows[-1]
            share[:, models:] = self.known[first:last]
            share /= information
            own = rows[0] + ((rows[1] - rows[0]) @ along @ along.T)
            own /= np.sqrt(1.0 - np.clip(share, 0.0, LARGEST_SHARE))
            meat += own.T @ own
            shares += (share**2).sum(axis=0)
            judges += (share > 0.0).sum(axis=0)
            here = slice(int(c.starts[first]), int(c.starts[last]))
            k, a, b = c.annotator[here] - first, c.model_a[here].astype(np.int64), c.model_b[here]
            part = (np.minimum(share[k, a], share[k, b]) - ENOUGH_SHARE) / (LARGEST_SHARE - ENOUGH_SHARE)
            if (some := part > 0.0).any():
                noise = np.minimum(part[some], 1.0) * self.told.noise[here][some]
                pairs += sum_by(a[some] * models + b[some], noise, models**2)
        by_vote = np.zeros((size, size))
        by_vote[:models, :models] = laplacian(pairs.reshape(models, models))
        return Clusters(meat, by_vote, shares, judges)

    def lean(self, errors: Floats) -> Floats:
        """Return own, own_sd, lean and lean_sd of `Leans`, shape (n_annotators, 4, n_features).

        Scores and γ that move by δ move E[b_k] by the covariance of b_k and dℓ_k/d(R, γ) times δ.

        Parameters
        ----------
        errors : covariance of (R, γ)
        """
        size, models, half = len(self._R), self.cells.n_models, OF_ABILITY + len(self.spread)
        gamma, found = self._R[models:], np.zeros((self.cells.n_annotators, 4, len(self.spread)))
        nowhere = Directions(np.zeros(size, dtype=np.int64), np.zeros((size, 1)), np.ones(1))
        moved, (mean, sd, _, _) = np.zeros((2, *self.known.shape)), self.abilities()
        for first, last, rows in self._rows(nowhere, self._no_sums()):
            here, of_votes = slice(first, last), rows[2 + half : -1].transpose(1, 0, 2)
            answers = np.concatenate(
                [self.told.moments[here, :, 3:], -mean[here, None, None] * self.told.factor[here]], axis=2
            )
            moves = answers @ of_votes
            moved[0, here] = ((moves @ errors) * moves).sum(axis=2)
            moves += gamma[:, None] * (sd[here, None] * of_votes[:, 0])[:, None, :]
            moves[:, :, models:] += mean[here, None, None] * np.eye(len(gamma))
            moved[1, here] = ((moves @ errors) * moves).sum(axis=2)
        own, second, cross = self.moments()
        ability, variance = mean[:, None], second - own**2
        of_both = variance + (gamma * sd[:, None]) ** 2 + 2.0 * gamma * (cross - ability * own)
        found[:, 0], found[:, 1] = own, np.sqrt(np.maximum(variance + moved[0], 0.0))
        found[:, 2], found[:, 3] = ability * gamma + own, np.sqrt(np.maximum(of_both + moved[1], 0.0))
        found[self.silent] = np.nan
        return found

    def describe_leans(self) -> Floats:
        """Return E[b], E[b²] and `known` of annotators with votes, shape (3, n, n_features)."""
        mean, second, _ = self.moments()
        found: Floats = np.stack([mean, second, self.known])[:, ~self.silent]
        return found

    def _no_sums(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return what `find_feature_contributions` adds to."""
        size = len(self._R)
        return np.zeros(size), np.zeros(size), np.zeros((size, size)), np.zeros(size)

    def _rows(
        self, directions: Directions, sums: tuple[Floats, Floats, Floats, Floats]
    ) -> Iterator[tuple[int, int, Rows]]:
        """Yield what some annotators at a time say (`find_feature_contributions`), and keep what is known of γ."""
        size, count, models = len(self._R), len(self.spread), self.cells.n_models
        half, stretch = OF_ABILITY + count, directions.along[np.arange(size), directions.label]
        mass = self.mass()
        for first in range(0, self.cells.n_annotators, BLOCK):
            last = min(first + BLOCK, self.cells.n_annotators)
            some = np.zeros((3 + 2 * half, last - first, size), dtype=np.float32)
            find_feature_contributions(
                first, last, self.cells.arrays, self._z, self.weight, self.temper, self.spread**-2, self.nodes, mass,
                self.leaning, self._law.numbers(), stretch, sums, some, self.told,
            )  # fmt: skip
            taken = (some[2 : 2 + half, :, models:] * some[2 + half : -1, :, models:]).sum(axis=0)
            self.known[first:last] = some[-1, :, models:] - taken
            yield first, last, some


def read_at_zero(nodes: Nodes) -> Floats:
    """Return each annotator's log-likelihood of the ability 0, by the cubic through the four nearest nodes.

    Where all nodes lie on one side of 0 it is at most that of the nearest.
    """
    size, begin = np.diff(nodes.begin), nodes.begin[:-1]
    place = -nodes.low / nodes.step
    first = np.clip(np.floor(place).astype(np.int64) - 1, 0, size - 4)
    x = place - first
    cubics = (
        -(x - 1) * (x - 2) * (x - 3) / 6,
        x * (x - 2) * (x - 3) / 2,
        -x * (x - 1) * (x - 3) / 2,
        x * (x - 1) * (x - 2) / 6,
    )
    value = sum(cubic * nodes.table[begin + first + j] for j, cubic in enumerate(cubics))
    nearest = nodes.table[begin + np.clip(place, 0, size - 1).astype(np.int64)]
    found: Floats = np.where((place > 0) & (place < size - 1), value, np.minimum(value, nearest))
    return found


class _FeatureSearch(Search):
    """The search for scores and γ, with the spread of the leans."""

    close, narrowest = CLOSE, NARROWEST

    def __init__(self, crowds: Crowds, label: Indices, dispersion: float, spread: Floats) -> None:
        super().__init__(crowds, label, dispersion)
        self.spread, self._begun, self._last = spread, False, (spread, spread)

    def at(self, R: Floats, law: Law, *, look: bool) -> Point:
        """Set up the equations with the last spread of the leans, and estimate the next one.

        At the first point, where γ is 0, the law is that of the votes without features.
        """
        assuming, self.assuming = self.assuming, self.assuming or not self._begun
        point = super().at(R, law, look=look)
        self.assuming, self._begun = assuming, True
        mean, second, known = np.concatenate(self.crowds.each(FeatureCrowd.describe_leans), axis=1)
        self._known = known.sum(axis=0)
        share = np.clip(known / self._known, 0.0, LARGEST_SHARE)
        found = find_spread(mean, second, share, self.spread)
        before, answer = self._last
        away = self.spread - before
        rate = np.clip(np.divide(found - answer, away, out=np.zeros_like(away), where=away != 0.0), 0.0, MOST_OF_SPREAD)
        self._last = self.spread, found
        self.spread = np.maximum(self.spread + (found - self.spread) / (1.0 - rate), LEAST_SPREAD)
        self.crowds.each(FeatureCrowd.take_spread, self.spread)
        return point

    def known(self, equations: Equations) -> Floats:
        """Return the information on every score, and on γ with abilities and leans unknown."""
        known, count = super().known(equations), len(self.spread)
        known[-count:] = self._known
        return known


def find_spread(mean: Floats, second: Floats, share: Floats, spread: Floats) -> Floats:
    """Return the σ_j that maximise the marginal likelihood times a prior, with what the posteriors under the last say.

    An annotator's votes alone say of b_j about N(mean, variance), the posterior less its prior. By Fisher's identity
    the slope at the last σ is exact, so that the fixed point is that of expectation-maximisation, in fewer steps. The
    prior keeps few annotators from showing no spread by chance, and one annotator from any spread. γ, which follows the
    annotators, hides a share of what each is away from it, as the mean does in the variance of a sample.

    Parameters
    ----------
    mean, second : E[b_k], E[b_k²], shape (n_annotators, n_features)
    share : of each annotator in what is known of γ, same shape
    spread : under which they are, shape (n_features,)

    References
    ----------
    Chung, Rabe-Hesketh, Dorie, Gelman and Liu, Psychometrika 2013.
    """
    variance = np.maximum(second - mean**2, 1e-12)
    alone = np.maximum(1.0 / variance - spread**-2, KNOWN)
    square, noise, t = (mean / variance / alone) ** 2 / (1.0 - share), 1.0 / alone, spread**2
    for _ in range(SPREAD_STEPS):
        weight = 1.0 / (t + noise)
        slope = ((square * weight - 1.0) * weight).sum(axis=0) + 1.0 / t - 1.0 / ASSUMED_SPREAD**2
        step = slope / ((weight**2).sum(axis=0) + 1.0 / t**2)
        before, t = t, np.clip(np.maximum(t + step, t / 4.0), LEAST_SPREAD**2, MOST_SPREAD**2)
        if np.abs(t - before).max(initial=0.0) < SPREAD_CONVERGED:
            break
    found: Floats = np.sqrt(t)
    return found
