"""Leaderboards of categories of the votes, partially pooled: each is drawn to the others where its votes are few."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.rating.arrays import Floats, Ints
from app.rating.errors import VotesError
from app.rating.model.abilities import TINY, find_abilities
from app.rating.model.law import TYPES
from app.rating.model.weights import weigh_votes
from app.rating.plain.likelihood import Likelihood
from app.rating.plain.m_elo import maximise_scores, shift_projector
from app.rating.threads import one_blas_thread
from app.rating.uncertainty.pooling import PooledFit, PooledLikelihood, fit_categories
from app.rating.uncertainty.prompts import positive_part
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.rating import Rating, compose
from app.rating.votes.cells import Cells, renumber, stack_cells

HONEST = TYPES.index("honest")
STEEPNESS = 1.25  # a vote of an able annotator pulls as |θ|^−¼
STEPS, STILL = 6, 1e-3  # of abilities and scores of all votes; change of a score that ends them, natural units
LARGEST = 1 << 25
"""Numbers in a table of categories and pairs of models: 256 MiB, a few times."""


@dataclass(frozen=True)
class Categories:
    """The scores of a rating's models in each category.

    Attributes
    ----------
    whole : the rating of all votes, which holds the abilities
    cells : its counted votes in each category, with its indices
    fits : at three values of τ; of the models of `whole.small`, natural units
    pilot : scores of all votes at known abilities, from which those of the categories are told apart, natural units
    known : covariance of the scores of all votes at known abilities
    units : covariance of the logarithms of the categories' units, beside that of all votes, shape (n_categories,) × 2
    """

    whole: Rating
    cells: Sequence[Cells]
    fits: Sequence[PooledFit]
    pilot: Floats
    known: Floats
    units: Floats

    @property
    def tau(self) -> float:
        """The standard deviation of a model's scores over the categories, median of its posterior, Elo points."""
        return ELO_PER_NATURAL * self.fits[1].tau

    def rating(self, category: int) -> Rating:
        """Return the leaderboard of a category."""
        return self.mix(np.eye(len(self.cells))[category], self.cells[category])

    def mix(self, share: Floats, cells: Cells) -> Rating:
        """Return the leaderboard of Σ_c share_c S_ic, with the counts of these votes.

        Parameters
        ----------
        share : of each category, with the sum 1, shape (n_categories,)
        """
        whole, across = self.whole, self._across()
        moved, errors = self._posterior(share)
        fit = replace(whole.fit, R=across @ (whole.fit.R + moved))
        spread = whole.covariance
        if spread is not None:
            scores, order = (
                across @ (errors + positive_part(each - self.known)) @ across for each in (spread.scores, spread.order)
            )
            spread = replace(spread, scores=scores, order=order, by_prompt=None)
        return compose(whole, cells, fit, spread)

    def weigh(self, share: Floats) -> Rating:
        """Return the leaderboard of Σ_c share_c S_ic, with the counts of all votes; the shares have the sum 1."""
        return self.mix(share, self.whole.cells)

    def differences(self, category: int) -> tuple[Floats, Floats]:
        """Return by how much each model's score is higher in a category than in all votes, and its error, Elo points.

        Returns
        -------
        difference, se : shape (n_models,); NaN for models without a score
        """
        votes = np.array([cells.n_votes for cells in self.cells])
        own = np.eye(len(self.cells))[category]
        across, found = self._across(), np.full((2, self.whole.cells.n_models), np.nan)
        _, errors = self._posterior(own - votes / votes.sum())
        found[0, self.whole.small.models] = across @ self._posterior(own)[0]
        found[1, self.whole.small.models] = np.sqrt(np.maximum(np.diag(across @ errors @ across), 0.0))
        return ELO_PER_NATURAL * found[0], ELO_PER_NATURAL * found[1]

    def _posterior(self, share: Floats) -> tuple[Floats, Floats]:
        """Return the mean of Σ_c share_c (R_c − R) and the covariance of Σ_c share_c R_c, abilities known."""
        before, after = self.pilot, self.whole.fit.R
        stretch = float(before @ after) / max(float(before @ before), 1e-12)  # known abilities make scores too wide
        means = [share @ (each.R - before) for each in self.fits]
        mean = np.mean(means, axis=0)
        parts = [
            each.covariance(share) + np.outer(m - mean, m - mean) for each, m in zip(self.fits, means, strict=True)
        ]
        scaled = share[:, None] * (self._across() @ self.fits[1].R.T).T
        return stretch * mean, stretch**2 * (np.mean(parts, axis=0) + scaled.T @ self.units @ scaled)

    def _across(self) -> Floats:
        """Return the projector that takes the mean out of every component."""
        shifts = shift_projector(self.whole.components.label[self.whole.small.models])
        across: Floats = np.eye(len(shifts)) - shifts
        return across


@one_blas_thread()
def pool_categories(whole: Rating, categories: Sequence[Cells]) -> Categories:
    """Fit S_ic ~ N(S_i, τ²) beginning at a rating, τ integrated over its posterior.

    Parameters
    ----------
    categories : the rating's votes, in at least two parts with its indices; votes that it did not count are left out

    Raises
    ------
    VotesError
        Too many models, for so many categories, or none with a score.
    NotConvergedError

    Notes
    -----
    A category's covariance is that of the posterior, with one dispersion for all categories, as much higher as votes on
    the same prompts raise the variance of all votes' scores; what the error of the
    rating's own scores, clustered by annotator and with the error of abilities and unit, has beyond that of known
    abilities; and the error of the category's own unit, the mean ability of its annotators. A model without a vote in a
    category has about the score of all votes, with the error of τ beside. O(n_categories · n_models³) and a pass over
    the votes an iteration, some fifty of them.
    """
    small, fit = whole.small, whole.fit
    size = len(small.models)
    if not 0 < size**2 * len(categories) <= LARGEST:
        raise VotesError(f"{size} model(s) with a score are too many or too few for {len(categories)} categories")
    theta, component = fit.theta, whole.components.label[small.models]
    weight = _weigh(whole)
    everything, parts = replace(small.cells, trust=weight).trusted(), [_weighed(whole, x, weight) for x in categories]
    precision = 0.0 if whole.marginal is None else whole.marginal.law.spread**-2
    whole_likelihood, pilot, follow = Likelihood(everything), fit.R, _follow(whole, parts)
    for _ in range(STEPS):  # found as the categories' are: those that do not differ have the scores of all votes
        theta, before = follow(np.tile(pilot, (len(parts), 1)), theta), pilot
        pilot = maximise_scores(whole_likelihood, theta, component, pilot)[0]
        if np.abs(pilot - before).max() < STILL:
            break
    by_prompt = 0.0 if whole.covariance is None else whole.covariance.prompt_share
    likelihood = PooledLikelihood(parts, theta, component, precision, 1.0 / max(1.0 - by_prompt, TINY))
    fits = fit_categories(likelihood, pilot, follow)
    shifts = shift_projector(component)
    information = whole_likelihood.expand(pilot, theta).A / likelihood.dispersion
    known = np.linalg.inv(information + shifts) - shifts
    counted = [cells.where((whole.cells.votes_by_annotator() > 0)[cells.annotator]) for cells in categories]
    by_annotator = np.array([cells.votes_by_annotator() for cells in parts])
    shares = (
        by_annotator / np.maximum(by_annotator.sum(axis=1, keepdims=True), 1.0)
        - by_annotator.sum(axis=0) / by_annotator.sum()
    )
    spread = (likelihood.theta - likelihood.theta.mean()) ** 2
    if whole.marginal is not None:  # others scatter by their errors too
        spread += likelihood.dispersion * likelihood.ability_variances(likelihood.points(fits[1].R))
    return Categories(whole, counted, fits, pilot, known, (shares * spread) @ shares.T)


def _weigh(whole: Rating) -> Floats:
    """Return the weight of a vote of each cell of the rating's fit, shape (n_cells,).

    Votes count as far as their annotator is honest by all votes: scores of a category that only coins judged could be
    such that they seem honest.
    """
    cells, limit = whole.small.cells, whole.settings.influence_limit
    if whole.marginal is None:
        return np.ones(len(cells.n))
    weight: Floats = weigh_votes(cells, limit) * (1.0 if cells.trust is None else cells.trust)
    if limit is not None:
        weight *= np.maximum(np.abs(whole.fit.theta[cells.annotator]), 1.0) ** -STEEPNESS
    honest: Floats = whole.marginal.types[:, HONEST]
    return weight * honest[cells.annotator]


def _weighed(whole: Rating, cells: Cells, weight: Floats) -> Cells:
    """Return the votes between models with a score, with the indices and the weights of the rating's fit."""
    small = whole.small
    here = renumber(cells, small.models, small.annotators)
    return replace(here, trust=weight[np.searchsorted(_keys(small.cells), _keys(here))]).trusted()


def _follow(whole: Rating, parts: Sequence[Cells]) -> Callable[[Floats, Floats], Floats]:
    """Return what finds the abilities of honest annotators at scores by category; their mean is 1."""
    marginal = whole.marginal
    if marginal is None:  # known, or maximised with the scores of all votes
        return lambda _R, theta: theta
    everything = stack_cells(parts, apart=True)
    honest = marginal.types[:, HONEST]

    def follow(R: Floats, _start: Floats) -> Floats:
        found = find_abilities(everything, R.ravel(), marginal).if_honest
        return found * float(honest.sum()) / max(float(honest @ found), TINY)

    return follow


def _keys(cells: Cells) -> Ints:
    """Return a number for each cell's annotator and pair, ascending, shape (n_cells,)."""
    keys: Ints = (cells.annotator.astype(np.int64) * cells.n_models + cells.model_a) * cells.n_models + cells.model_b
    return keys
