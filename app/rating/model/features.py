"""Scores of votes with features: γ the crowd's taste, b each annotator's own leans, integrated out beside abilities.

P(a wins) = σ(θ_k (R_a − R_b + γ·z) + b_k·z), z what the answer of a has more than that of b. The leans b_kj ~ N(0, σ_j²)
are integrated by Laplace's approximation at every node of θ_k, their spread σ_j is estimated with the crowd's law, and
γ is one more block of the scores: the search of `app.rating.model.scores` solves for (R, γ).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.model.covariance import ScoreCovariance, find_covariance
from app.rating.model.crowd import BLOCK, Clusters, Contributions, Crowd, Directions, no_contributions
from app.rating.model.feature_kernels import (
    OF_ABILITY,
    SLOTS,
    climb_abilities_and_leans,
    fill_feature_likelihoods,
    find_feature_contributions,
)
from app.rating.model.kernels import FOLLOWER, LARGEST_SHARE, share_information
from app.rating.model.law import Law
from app.rating.model.scores import Crowds, Equations, MarginalFit, Point, Search
from app.rating.model.start import disperse, fit_bradley_terry
from app.rating.threads import one_blas_thread
from app.rating.votes.cells import Cells
from app.rating.votes.compact import pool_annotators
from app.rating.votes.graph import find_components

FIRST_SPREAD = 0.3  # of the leans, log-odds, until the votes say more
LEAST_SPREAD, MOST_SPREAD = 0.02, 3.0
SPREAD_STEPS, SPREAD_CONVERGED = 50, 1e-9  # at most; change of a variance that ends them
FASTEST = 0.96  # ratio of two steps of the spread from which the rest is summed, at most
KNOWN = 1e-6  # information below which an annotator's votes say nothing of a lean


@dataclass(frozen=True)
class Leans:
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
def fit_features(cells: Cells, *, influence_limit: float | None = 1.25, start: Floats | None = None) -> FeatureFit:
    """Solve the equations of `fit_scores` for the scores and γ together, abilities and leans integrated out.

    Parameters
    ----------
    cells : with features
    start : R of the same votes without features, where the search begins

    Raises
    ------
    NotConvergedError
    """
    count, pairs = features_of(cells).shape[1], pool_annotators(cells)
    R = fit_bradley_terry(pairs)
    label, dispersion = find_components(pairs).label, disperse(pairs, R)
    crowds = Crowds(cells, influence_limit, 1.0 / dispersion, FeatureCrowd)
    search = _FeatureSearch(crowds, np.append(label, np.full(count, -1)), dispersion)
    fit = search.find(np.append(R if start is None else start, np.zeros(count)))
    covariance = find_covariance(fit)
    return FeatureFit(fit, covariance, search.spread, _find_leans(crowds, fit, covariance))


@one_blas_thread()
def find_shadows(found: FeatureFit, cells: Cells) -> Leans:
    """Return the leans of annotators outside a fit, at its scores, γ and laws."""
    fit, crowds = found.fit, Crowds(cells, None, 1.0 / found.fit.dispersion, FeatureCrowd)
    directions = Directions.of(fit.R, fit.label)
    for crowd in crowds.parts:
        crowd.spread = found.spread
        crowd.look(fit.R, fit.law.spread)
        crowd.fill(fit.R)
        crowd.weigh(fit.law, settle=True)
        crowd.contribute(fit.R, directions, 1.0, full=True)
    return _find_leans(crowds, fit, found.covariance)


def _find_leans(crowds: Crowds, fit: MarginalFit, covariance: ScoreCovariance) -> Leans:
    directions = Directions.of(fit.R, fit.label)
    found = crowds.join(lambda crowd: crowd.lean(fit.R, directions, covariance.scores))
    return Leans(*found.transpose(1, 0, 2))


def features_of(cells: Cells) -> Floats:
    """Return the features of votes that have some, shape (n_cells, n_features)."""
    if cells.features is None:
        raise ValueError("the votes have no features")
    return cells.features


class FeatureCrowd(Crowd):
    """Annotators with leans, and their votes with features; where `Crowd` has scores R, this has (R, γ).

    Attributes
    ----------
    spread : σ of the leans in force, shape (n_features,)
    known_of_features : information of each annotator's votes about γ, abilities and leans unknown, shape
        (n_annotators, n_features)
    moments : E[b], E[b²] and E[θ b], as `contribute` found them last, shape (n_annotators, 3, n_features)
    """

    def __init__(self, cells: Cells, weight: Floats, temper: float) -> None:
        super().__init__(cells, weight, temper)
        z = np.ascontiguousarray(features_of(cells))
        count, number = z.shape[1], cells.n_annotators
        self._featured = (*self._votes, z)
        self._at, self._along = np.zeros((number, 1 + count)), np.zeros((number, count))
        self._at[:, 0] = 1.0
        self._leans, self.spread = np.zeros((number, count, SLOTS)), np.full(count, FIRST_SPREAD)
        self.known_of_features = np.zeros((number, count))
        self.moments, self._answers = np.zeros((number, 3, count)), np.zeros((number, count, OF_ABILITY + count))

    def look(self, R: Floats, spread: float) -> None:
        """Set the nodes around the mode of each (θ, b), and the leans at them on the line of their modes."""
        climb_abilities_and_leans(
            *self._featured, R, self.temper, self.spread**-2, self._at, self._along, self._information
        )
        self.mode = self._at[:, 0].copy()
        self._set_nodes(spread)
        away = np.column_stack([np.zeros(len(self.mode)), self.nodes()]) - self.mode[:, None]
        self._leans = self._at[:, 1:, None] + self._along[:, :, None] * away[:, None, :]

    def fill(self, R: Floats) -> None:
        """Compute the likelihoods at the nodes and of the types without an ability, the leans integrated out."""
        fill_feature_likelihoods(
            *self._featured, R, self.temper, self.spread**-2, *self._nodes, self._leans, self._table, self._extra
        )
        if not self.followers:
            self._extra[:, FOLLOWER] = -np.inf

    def cluster(self, R: Floats, directions: Directions, information: Floats) -> Clusters:
        """Return what the annotators add to the errors.

        Parameters
        ----------
        information : of each model over all annotators; of γ, what is known with the leans unknown
        """
        size, models, along = len(R), self.cells.n_models, directions.along
        meat, by_vote, shares, judges = np.zeros((size, size)), np.zeros((size, size)), np.zeros(size), np.zeros(size)
        (pulled, square), c, z = self.mean_of_pulls(), self.cells, self._featured[-1]
        odds = np.sqrt(pulled)[c.annotator] * (R[c.model_a] - R[c.model_b] + z @ R[models:])
        odds += (self.moments[c.annotator, 0] * z).sum(axis=1)
        for first, last, rows in self._blocks(
            R, np.zeros(size), 1.0, no_contributions(size, along.shape[1]), full=True
        ):
            share = np.zeros((last - first, size))
            share_information(
                first, last, *self._votes[:4], self.weight, odds, self.temper, pulled, square,
                information[:models], share, by_vote,
            )  # fmt: skip
            share[:, models:] = self.known_of_features[first:last] / information[models:]
            own = rows[0] + ((rows[1] - rows[0]) @ along @ along.T)
            own /= np.sqrt(1.0 - np.clip(share, 0.0, LARGEST_SHARE))
            meat += own.T @ own
            shares += (share**2).sum(axis=0)
            judges += (share > 0.0).sum(axis=0)
        return Clusters(meat, by_vote, shares, judges)

    def lean(self, R: Floats, directions: Directions, errors: Floats) -> Floats:
        """Return own, own_sd, lean and lean_sd of `Leans`, shape (n_annotators, 4, n_features).

        Scores and γ that move by δ move E[b_k] by the covariance of b_k and dℓ_k/d(R, γ) times δ.

        Parameters
        ----------
        errors : covariance of (R, γ)
        """
        size, models = len(R), self.cells.n_models
        gamma, ability, square = R[models:], self.ability(), self.square()
        own, second, cross = self.moments.transpose(1, 0, 2)
        variance, of_ability = second - own**2, np.maximum(square - ability**2, 0.0)
        found = np.stack([own, variance, ability[:, None] * gamma + own, variance], axis=1)
        found[:, 3] += gamma**2 * of_ability[:, None] + 2.0 * gamma * (cross - ability[:, None] * own)
        nothing = no_contributions(size, directions.along.shape[1])
        for first, last, rows in self._blocks(R, np.zeros(size), 1.0, nothing, full=True):
            of_votes = rows[1 + len(rows) // 2 :].transpose(1, 0, 2)
            moved = self._answers[first:last] @ of_votes
            found[first:last, 1] += ((moved @ errors) * moved).sum(axis=2)
            moved += gamma[:, None] * (np.sqrt(of_ability[first:last, None]) * of_votes[:, 0])[:, None, :]
            moved[:, :, models:] += ability[first:last, None, None] * np.eye(len(gamma))
            found[first:last, 3] += ((moved @ errors) * moved).sum(axis=2)
        found[:, [1, 3]] = np.sqrt(np.maximum(found[:, [1, 3]], 0.0))
        found[self.silent()] = np.nan
        return found

    def _blocks(
        self, R: Floats, stretch: Floats, strength: float, found: Contributions, *, full: bool
    ) -> Iterator[tuple[int, int, Floats]]:
        """Yield what some annotators at a time contribute, as `Crowd._blocks`, with rows for the leans too."""
        count = len(self.spread)
        rows = np.empty((2 + 2 * (OF_ABILITY + count) if full else 2, BLOCK, len(R)))
        for first in range(0, self.cells.n_annotators, BLOCK):
            last = min(first + BLOCK, self.cells.n_annotators)
            some = rows[:, : last - first]
            some.fill(0.0)
            find_feature_contributions(
                first, last, *self._featured, self.weight, R, self.temper, self.spread**-2, *self._nodes,
                self.posterior, self.types, self._leans, strength, full, stretch, found.information, found.stretched,
                some, self.moments, self._answers, self.known_of_features,
            )  # fmt: skip
            yield first, last, some


class _FeatureSearch(Search):
    """The search for scores and γ, with the spread of the leans."""

    def __init__(self, crowds: Crowds, label: Indices, dispersion: float) -> None:
        super().__init__(crowds, label, dispersion)
        self.spread = np.asarray(crowds.parts[0].spread)
        self._move = np.full(len(self.spread), np.inf)

    def at(self, R: Floats, law: Law, strength: float, *, look: bool, full: bool) -> Point:
        """Set up the equations with the last spread, and estimate the next one: every other step is extrapolated."""
        point = super().at(R, law, strength, look=look, full=full)
        moments = self.crowds.join(lambda crowd: crowd.moments[~crowd.silent()])
        known = self.crowds.join(lambda crowd: crowd.known_of_features[~crowd.silent()])
        share = np.clip(known / known.sum(axis=0), 0.0, LARGEST_SHARE)
        move = np.log(find_spread(moments[:, 0], moments[:, 1], share, self.spread) / self.spread)
        ratio = np.clip(move / self._move, 0.0, FASTEST)
        self._move = np.where(ratio > 0.0, np.inf, np.where(move == 0.0, np.inf, move))
        self.spread = np.clip(self.spread * np.exp(move / (1.0 - ratio)), LEAST_SPREAD, MOST_SPREAD)
        self.crowds.each(lambda crowd: setattr(crowd, "spread", self.spread))
        return point

    def known(self, equations: Equations) -> Floats:
        """Return the information on every score, and on γ with the leans unknown."""
        known, count = super().known(equations), len(self.spread)
        known[-count:] = self.crowds.total(lambda crowd: crowd.known_of_features.sum(axis=0))
        return known


def find_spread(mean: Floats, second: Floats, share: Floats, spread: Floats) -> Floats:
    """Return the σ_j that maximise the marginal likelihood times σ_j, with what the posteriors under the last ones say.

    An annotator's votes alone say of b_j about N(mean, variance), the posterior less its prior. By Fisher's identity
    the slope at the last σ is exact, so that the fixed point is that of expectation-maximisation, in fewer steps. The
    factor σ_j keeps few annotators from showing no spread by chance; γ, which follows the annotators, hides a share of
    what each is away from it, as the mean does in the variance of a sample.

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
        slope = ((square * weight - 1.0) * weight).sum(axis=0) + 1.0 / t
        step = slope / ((weight**2).sum(axis=0) + 1.0 / t**2)
        before, t = t, np.clip(np.maximum(t + step, t / 4.0), LEAST_SPREAD**2, MOST_SPREAD**2)
        if np.abs(t - before).max(initial=0.0) < SPREAD_CONVERGED:
            break
    found: Floats = np.sqrt(t)
    return found
