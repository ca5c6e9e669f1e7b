"""Scores from a slice of the votes, with the abilities that all votes gave."""

from dataclasses import dataclass, replace

import numpy as np

from app.rating.arrays import Floats, Indices, Mask, sum_by
from app.rating.errors import VotesError
from app.rating.fit.am_elo import CERTAIN
from app.rating.fit.arrow import observe
from app.rating.fit.bias import ability_spread, correct_held
from app.rating.fit.likelihood import Likelihood
from app.rating.fit.m_elo import minimise_scores
from app.rating.fit.result import FitResult
from app.rating.fit.scale import one_group
from app.rating.fit.unit import solvers_unit
from app.rating.fit.weights import weigh_abilities, weigh_votes
from app.rating.settings import LoopSettings
from app.rating.threads import one_blas_thread
from app.rating.uncertainty.covariance import Covariance, covariance
from app.rating.uncertainty.models import check_anchor
from app.rating.uncertainty.results import AnnotatorEstimates, Estimate
from app.rating.verdict.rating import Rating, publish
from app.rating.votes.cells import Cells
from app.rating.votes.compact import Compact, compact, pool_annotators
from app.rating.votes.graph import Components, find_components, find_identified


@dataclass(frozen=True)
class HeldAbilities:
    """Abilities of a fit of all votes, published units (1 is its mean annotator), shape (n_annotators,).

    Attributes
    ----------
    ability : NaN for annotators outside the fit
    inverse, spread : inverse curvature of each, and its variance at fixed scores; 0 where abilities are known or not
        corrected for bias: then a slice's scores are not corrected either
    variance : square of the published standard error; 0 where abilities are known
    weight : of the votes of each annotator before the limit of influence; None where all votes weigh 1
    doubted : cells of the fit whose votes weigh less by `Cells.trust`; None where there is none
    """

    ability: Floats
    inverse: Floats
    spread: Floats
    variance: Floats
    weight: Floats | None = None
    doubted: Cells | None = None

    def trusting(self, cells: Cells) -> Cells:
        """Return the cells with the trust that the fit of all votes gives them."""
        if self.doubted is None or self.doubted.trust is None:
            return cells
        key, of_slice = _keys(self.doubted), _keys(cells)
        place = np.minimum(np.searchsorted(key, of_slice), len(key) - 1)
        return replace(cells, trust=np.where(key[place] == of_slice, self.doubted.trust[place], 1.0))

    def annotators(self, cells: Cells) -> AnnotatorEstimates:
        """Return the abilities as results, of annotators with these votes."""
        return AnnotatorEstimates.without_rules(cells.votes_by_annotator(), self.ability, np.sqrt(self.variance))


def hold_abilities(whole: Rating, settings: LoopSettings) -> HeldAbilities:
    """Return the abilities of a fit, and their errors, for any number of slices."""
    ability, inverse, spread, variance = np.full((4, whole.cells.n_annotators), np.nan)
    annotators, fit, unit = whole.small.annotators, whole.fit, whole.annotator_unit
    ability[annotators] = fit.abilities / unit
    inverse[annotators] = spread[annotators] = variance[annotators] = 0.0
    if settings.bias_correction and whole.observed is not None:
        q, likelihood = whole.observed.ability_inverse(), whole.observed.likelihood
        inverse[annotators] = q / unit**2
        spread[annotators] = ability_spread(likelihood, fit.scores, fit.abilities, q) / unit**2
        variance[annotators] = spread[annotators]
    if whole.covariance is not None and whole.has_abilities:
        variance[annotators] = np.nan_to_num(whole.covariance.ability_se) ** 2
    weight = None
    if settings.influence_limit is not None and whole.has_abilities and fit.prior_sd is not None:
        weight = np.ones(len(ability))
        weighted = fit.weighted
        weight[annotators] = weigh_abilities(ability[annotators]) if weighted is None else weighted.by_ability
    doubted = None if whole.cells.trust is None else whole.cells.where(whole.cells.trust < 1.0)
    return HeldAbilities(ability, inverse, spread, variance, weight, doubted)


def _keys(cells: Cells) -> Indices:
    """Return a number for each cell's annotator and pair, ascending, shape (n_cells,)."""
    keys: Indices = (cells.annotator.astype(np.int64) * cells.n_models + cells.model_a) * cells.n_models + cells.model_b
    return keys


def fit_slice(cells: Cells, held: HeldAbilities, settings: LoopSettings) -> Rating:
    """Maximise ℓ(R) = Σ_cells s·x − n·log(1 + eˣ), x = a_k (R_a − R_b), over a slice's cells at fixed abilities a_k.

    Parameters
    ----------
    cells : the slice's votes: some of those that the abilities were estimated from, with the same indices. Votes of
        annotators outside that fit are left out
    held : from `hold_abilities`
    settings : interval, confidence, base and anchor are used

    Returns
    -------
    Rating
        Of the scores alone, in units of the mean annotator of all votes, so that a slice's differences compare
        with those of all votes; the mean of each component's identified models is the base, or the anchor has its
        points. A model whose votes are mostly by annotators with doubtful abilities has no score: where Σ n·Var(a_k) of
        its votes is more than half of Σ n·a_k², the error of the abilities outweighs them, and a score, which divides
        by them, could be anything.

    Raises
    ------
    VotesError
        No vote is by an annotator with an ability, or the anchor model has no score.
    NotConvergedError

    Notes
    -----
    Concave, with a finite, unique maximum for identified models: about 6 passes over the cells. The slice is corrected
    for bias where the fit of all votes is. Intervals take the abilities, and so the unit, as known; "clustered" becomes
    "sandwich" for one annotator. A slice of all votes has, uncorrected, the scores of the whole (docs/math.md,
    "Slices").
    """
    known = np.isfinite(held.ability)
    cells = held.trusting(cells.where(known[cells.annotator]))
    if len(cells.n) == 0:
        raise VotesError("no vote of the slice is by an annotator with an ability", "no-votes")
    theta = np.where(known, held.ability, 0.0)
    pairs = pool_annotators(cells)
    components = find_components(pairs)
    identified, open_ = _find_determined(cells, components, theta, held)
    check_anchor(settings, identified)
    small = compact(cells.where(identified[cells.model_a] & identified[cells.model_b]), identified)
    with one_blas_thread():
        fit, spread = _solve(small, components, held, settings)
    certain = theta**2 > CERTAIN**2 * held.variance  # only these bound a model
    bounding = np.where(certain, theta, 0.0) if open_ else theta
    found = Estimate(
        settings=settings, cells=cells, pairs=pairs, components=components, identified=identified, small=small, fit=fit,
        observed=None, covariance=spread, bounding=bounding,
        published_unit=solvers_unit(one_group(len(small.models), len(small.annotators))),
        annotators=held.annotators(cells), seconds={},
    )  # fmt: skip
    return publish(found)


def _find_determined(cells: Cells, components: Components, theta: Floats, held: HeldAbilities) -> tuple[Mask, bool]:
    """Return the models with a score, and whether doubtful abilities leave other models without one."""
    barred = np.zeros(cells.n_models, dtype=bool)
    while True:
        left = cells.where(~(barred[cells.model_a] | barred[cells.model_b])) if barred.any() else cells
        identified = find_identified(left, components, theta)
        inside = left.where(identified[left.model_a] & identified[left.model_b])
        k = inside.annotator
        beyond = inside.n * (2.0 * held.variance[k] - theta[k] ** 2)  # the error less what it leaves of the square
        total = sum_by(inside.model_a, beyond, len(identified)) + sum_by(inside.model_b, beyond, len(identified))
        if not (total > 0.0).any():
            return identified, bool(barred.any())
        barred |= total > 0.0


def _solve(
    small: Compact, components: Components, held: HeldAbilities, settings: LoopSettings
) -> tuple[FitResult, Covariance | None]:
    theta, no_annotator = held.ability[small.annotators], np.zeros(len(small.annotators), dtype=bool)
    if len(small.models) == 0:
        nothing = np.zeros(0)
        return FitResult(nothing, theta, no_annotator, 0.0, 0, no_annotator), None
    label = components.label[small.models]
    weighted = None
    if held.weight is not None and settings.influence_limit is not None:
        weighted = weigh_votes(small.cells, held.weight[small.annotators], settings.influence_limit)
    cells = small.cells if weighted is None else weighted.cells
    fit, point = minimise_scores(Likelihood(cells, None), label, np.zeros(len(small.models)), theta)
    fit = replace(fit, weighted=weighted)
    observed = observe(cells, fit, label, prior_sd=None, abilities=False, point=point)
    inverse, spread = held.inverse[small.annotators], held.spread[small.annotators]
    if inverse.any():
        fit = replace(fit, corrected=(correct_held(fit, observed, inverse=inverse, spread=spread), theta))
    if settings.interval == "none":
        return fit, None
    kind = settings.interval
    return fit, covariance(cells, fit, label, kind=kind, prior_sd=None, abilities=False, observed=observed)
