"""The fit of votes with features, from the fit of the same votes without them."""

from dataclasses import dataclass, replace

import numpy as np

from app.rating.arrays import Floats, Indices, Mask
from app.rating.fit.am_elo import finish
from app.rating.fit.arrow import Observed, observe
from app.rating.fit.bias import WIDE, extrapolate, shift_scores
from app.rating.fit.features import ON_THE_WAY, ROUGHLY, FeatureLikelihood, features_of
from app.rating.fit.lean_bias import add_own_bias
from app.rating.fit.lean_spread import fit_spread, of_votes_alone
from app.rating.fit.own_terms import invert
from app.rating.fit.partitions import Partitions
from app.rating.fit.result import FitResult
from app.rating.fit.scale import find_scale
from app.rating.fit.sqp import minimise
from app.rating.fit.weights import LEAST_MEDIAN, Weighted, scale_votes, weigh_abilities
from app.rating.threads import map_parts
from app.rating.votes.cells import Cells

FIRST_SD = 0.3  # of the leans, log-odds, until their spread is known
LEAST_SD, MOST_SD = 0.02, 3.0
SPREAD_ROUNDS, SPREAD_CONVERGED = 10, 0.01  # at most; relative change that ends them
HISTORY = 20.0  # votes from which an annotator has leans
NO_LEAN = 1e6  # precision of the leans of the others
ASKED = 1_000  # annotators that a spread is estimated from at most
ROUGH = 0.01  # squared length, for each parameter, of the last step of the fit that spreads are estimated at
FINE = 1e-10  # of that of the fit itself, whose error is smaller still


@dataclass(frozen=True)
class StyleFit:
    """A fit of votes with features; arrays over parameters have the models' scores first, then the crowd's γ.

    Attributes
    ----------
    fit : with R = (R, γ)
    observed : at the fit
    own : each annotator's (θ, b), less its bias, shape (n_annotators, 1 + n_features)
    information : the negative Hessian of each annotator's own terms there
    likelihood : of the unweighted votes
    spread : standard deviation of b over the crowd, log-odds, shape (n_features,)
    """

    fit: FitResult
    observed: Observed
    own: Floats
    information: Floats
    likelihood: FeatureLikelihood
    spread: Floats


def fit_style(
    cells: Cells, votes: Cells, plain: FitResult, component: Indices, *, cap: float | None, bias_correction: bool
) -> StyleFit:
    """Maximise ℓ(R, γ, θ, b) under the priors N(1, sd²) of θ_k and N(0, sd_j²) of b_kj, sd_j estimated.

    Parameters
    ----------
    cells, votes : with features, weighted and unweighted
    plain : the fit of the same votes without features, where the search begins
    component : of each model, shape (n_models,)

    Raises
    ------
    NotConvergedError, NoCommonRankingError
    """
    size, sd = features_of(cells).shape[1], plain.prior_sd or 1.0
    label = np.concatenate([component, np.full(size, -1)])
    bound = np.inf if cap is None else cap
    R, theta = np.concatenate([plain.R, np.zeros(size)]), np.minimum(plain.theta, bound)
    weighted, phi = plain.weighted, _dispersion(plain)
    spread, leans = np.full(size, FIRST_SD), np.zeros((cells.n_annotators, size))
    for last in (False, True):
        precision, scale = _lean_precision(votes, spread, phi), find_scale(cells)
        with Partitions.of(cells, label, scale, prior_sd=sd, cap=cap, lean_precision=precision) as partitions:
            partitions.begin(theta)
            optimum = minimise(partitions, R, enough=(FINE if last else ROUGH) * partitions.unknowns)
            theta = partitions.abilities()
        R, likelihood = optimum.R, FeatureLikelihood(cells, sd, precision)
        likelihood.leans = leans
        if not last:
            own = np.column_stack([theta, leans])
            likelihood.own(R, own, fixed=True)
            leans, spread = own[:, 1:].copy(), estimate_lean_spread(likelihood, R, own, votes, phi)
            cells, weighted = _weigh_again(cells, weighted, theta)
    fit, point = finish(optimum, theta, likelihood, bound)
    fit = replace(fit, prior_sd=sd, prior=plain.prior, weighted=weighted)
    observed = observe(cells, fit, label, prior_sd=sd, point=point)
    return _correct(fit, observed, likelihood, votes, spread, bound, bias_correction=bias_correction)


def _weigh_again(cells: Cells, weighted: Weighted | None, theta: Floats) -> tuple[Cells, Weighted | None]:
    """Weigh votes by abilities beside leans, as `app.rating.fit.weights` does by those without.

    A lean of one's own on top of the crowd's looks like a low ability where it is not known: these votes would weigh
    more than those of annotators whose leans make up for the crowd's, and γ would come out too large.
    """
    if weighted is None or weighted.by_ability.min(initial=1.0) >= 1.0:
        return cells, weighted and replace(weighted, cells=cells)
    by_ability = weigh_abilities(theta / max(float(np.median(theta)), LEAST_MEDIAN))
    again = (by_ability / weighted.by_ability)[cells.annotator]
    cells = replace(cells, n=again * cells.n, s=again * cells.s, ties=again * cells.ties)
    return cells, Weighted(cells, by_ability)


def estimate_lean_spread(likelihood: FeatureLikelihood, R: Floats, own: Floats, votes: Cells, phi: float) -> Floats:
    """Estimate the standard deviation of each lean over the crowd, at given scores and γ.

    From what the votes of each annotator alone say near the crowd's own distribution: its prior is taken off, and found
    again. (Under a prior of 1, features that no annotator minds had a spread of .2 with 30 votes each.) What they say
    is the mean of the likelihood, b − ½ (V ∂log det H)_b to the first order, H the Hessian of (θ_k, b_k) and V its
    inverse.

    Parameters
    ----------
    R : scores and γ
    own : (θ, b) of each annotator there, shape (n_annotators, 1 + n_features)
    votes : unweighted
    phi : dispersion of a vote
    """
    asked, size = votes.votes_by_annotator() >= HISTORY, own.shape[1] - 1
    asked &= np.cumsum(asked) % (1 + int(asked.sum()) // ASKED) == 0
    if not asked.any():
        return np.full(size, LEAST_SD)
    few, at, spread = votes.where(asked[votes.annotator]), own.copy(), np.full(size, FIRST_SD)
    for _ in range(SPREAD_ROUNDS):
        before, precision = spread, np.tile(phi / spread**2, (len(own), 1))
        asking = FeatureLikelihood(few, likelihood.precision**-0.5, precision)
        V = invert(asking.own(R, at, fixed=False))
        b, variance = at - 0.5 * np.einsum("kij,kj->ki", V, asking.skewness(R, at, V)), np.einsum("kii->ki", V)
        alone = [
            of_votes_alone(b[asked, j], variance[asked, j], 0.0, precision[asked, j - 1])[1:]
            for j in range(1, size + 1)
        ]
        spread = np.array([fit_spread(value, phi * of_value, most_outliers=0.0).sd for value, of_value in alone])
        spread = np.clip(spread, LEAST_SD, MOST_SD)
        if np.abs(spread - before).max() < SPREAD_CONVERGED * before.max():
            break
    return spread


def _correct(
    fit: FitResult, observed: Observed, likelihood: FeatureLikelihood, votes: Cells, spread: Floats, cap: float,
    *, bias_correction: bool,
) -> StyleFit:  # fmt: skip
    """Take the first-order bias out of scores, γ and each annotator's own (θ, b), as `app.rating.fit.bias` does."""
    sd, precision, R = fit.prior_sd or 1.0, likelihood.lean_precision, fit.R
    at = np.column_stack([fit.theta, likelihood.leans])
    if bias_correction:
        H = likelihood.own(R, at, fixed=True)
        gradient, _ = _own_bias(likelihood, R, at, _inverse(H, fit.held), spread)
        R = R - shift_scores(observed, gradient)
    trusted = None if votes.trust is None else scale_votes(votes, votes.trust, np.ones(votes.n_annotators))
    wide = FeatureLikelihood(votes if trusted is None else trusted.cells, sd, precision)
    alone = at.copy()
    H = wide.own(R, alone, fixed=False, precision=WIDE**-2, near=ROUGHLY)
    V = invert(H)
    bias = _own_bias(wide, R, alone, V, spread)[1] if bias_correction else np.zeros_like(at)
    able = np.column_stack([np.ones(len(at)), alone[:, 1:]])
    D = 1.0 / invert(wide.own(R, able, fixed=True, precision=sd**-2, near=ON_THE_WAY))[:, 0, 0]
    own = extrapolate((alone - bias)[:, 0], V[:, 0, 0], D, sd)
    whole = FeatureLikelihood(votes, sd, precision)
    H = _find_own(whole, R, at, spread, cap, bias_correction=bias_correction)
    at[fit.undecided, 0] = min(1.0, cap)
    corrected = (R, at[:, 0].copy()) if bias_correction else None
    return StyleFit(replace(fit, corrected=corrected, own=own), observed, at, H, whole, spread)


def shadow_style(found: StyleFit, votes: Cells, *, cap: float | None, bias_correction: bool) -> StyleFit:
    """Return the fit with (θ, b) of annotators outside it in place of its own, at its scores, γ and priors."""
    at = np.tile(np.eye(found.own.shape[1])[0], (votes.n_annotators, 1))
    precision = _lean_precision(votes, found.spread, _dispersion(found.fit))
    likelihood, bound = FeatureLikelihood(votes, found.fit.prior_sd, precision), np.inf if cap is None else cap
    H = _find_own(likelihood, found.fit.scores, at, found.spread, bound, bias_correction=bias_correction)
    return replace(found, own=at, information=H, likelihood=likelihood)


def _find_own(
    likelihood: FeatureLikelihood, R: Floats, at: Floats, spread: Floats, cap: float, *, bias_correction: bool
) -> Floats:
    """Move (θ, b) from `at` to the maximum, less its bias, and return the negative Hessians there."""
    H = likelihood.own(R, at, fixed=False, near=ROUGHLY)
    if bias_correction:
        at -= _own_bias(likelihood, R, at, invert(H), spread)[1]
    at[:, 0] = np.minimum(at[:, 0], cap)
    likelihood.leans = at[:, 1:]
    return H


def _lean_precision(votes: Cells, spread: Floats, phi: float) -> Floats:
    """Return the precision of the leans' priors, shape (n_annotators, n_features): short histories have none."""
    history = votes.votes_by_annotator() >= HISTORY
    return np.where(history[:, None], phi / spread**2, NO_LEAN)


def _own_bias(likelihood: FeatureLikelihood, R: Floats, at: Floats, V: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """Return the mean gradient by scores and γ, and the bias of each annotator's (θ, b)."""
    c, d, beta = likelihood.cells, likelihood.distances(R), np.zeros_like(at)

    def accumulate(part: tuple[int, int]) -> Floats:
        gradient = np.zeros(len(R))
        add_own_bias(*part, c.arrays, d, likelihood.z, at, V, likelihood.lean_precision, spread**2, beta, gradient)
        return gradient

    first, *others = map_parts(accumulate, likelihood.rows.parts)
    total: Floats = sum(others, first)
    return total, beta


def _inverse(H: Floats, held: Mask) -> Floats:
    """Return the inverse of each annotator's matrix; 0 for abilities that are held."""
    V = invert(H)
    if held.any():
        V[held] = 0.0
        V[held, 1:, 1:] = invert(H[held, 1:, 1:])
    return V


def _dispersion(plain: FitResult) -> float:
    return 1.0 if plain.prior is None else plain.prior.dispersion
