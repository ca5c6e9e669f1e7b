"""The judges' own leaderboard: every judge with a lean of its own, errors by the battles that they saw."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from app.rating.arrays import Floats, Mask
from app.rating.errors import VotesError
from app.rating.fit.arrow import Block, shift_projector, typical_information
from app.rating.fit.m_elo import minimise_scores
from app.rating.judges.ballots import Ballots
from app.rating.judges.leaning import (
    LeaningLikelihood,
    Profiled,
    by_annotator_and_model,
    laplacian_of,
    tell_leans,
)
from app.rating.settings import LoopSettings
from app.rating.uncertainty.covariance import NORMAL, TINY, Covariance
from app.rating.uncertainty.estimate import fit_without_errors
from app.rating.uncertainty.results import Estimate
from app.rating.verdict.rating import Rating, publish
from app.rating.votes.compact import Compact, compact
from app.rating.votes.sided_cells import SidedCells


@dataclass(frozen=True)
class JudgesBoard:
    """The leaderboard of some judges.

    Attributes
    ----------
    rating : of the models
    lean, lean_se : log odds for the left, and its error over battles; NaN for a judge whose votes do not tell it, shape
        (n_annotators,)
    taste_sd : spread of a judge's own opinion of a model, log odds; NaN for one judge
    """

    rating: Rating
    lean: Floats
    lean_se: Floats
    taste_sd: float


def rate_judges(ballots: Ballots, *, confidence: float = 0.95, base: float = 1000.0) -> JudgesBoard:
    """Maximise ℓ(R, λ) with P(left wins) = σ(R_left − R_right + λ_k): m-ELO, and a lean of every judge.

    Abilities are 1: of few judges it is open which of them to believe, and the likelihood would believe the one that
    agrees best with itself.

    Notes
    -----
    The scores are those of the mean judge; these are a sample. Their covariance has the error of the battles, in
    which all judges saw the same answers (clusters are battles), and that of the judges' tastes, opinions of their own
    u_ki ~ N(0, τ²) of each model: τ² is what the judges' gradients vary by beyond the battles' error. One judge says
    nothing of τ², so its intervals are for this judge on other battles.

    Raises
    ------
    VotesError
        No vote is left.
    NotConvergedError
    """
    settings = LoopSettings(method="m-elo", min_votes=0, interval="clustered", confidence=confidence, base=base)
    fitted = fit_leans(ballots, settings)
    errors, small = _Errors(ballots, fitted), fitted.found.small
    taste = errors.taste_variance()
    lean, lean_se = np.full((2, len(ballots.votes.annotators)), np.nan)
    lean[small.annotators] = np.where(fitted.told, fitted.point.lean, np.nan)
    lean_se[small.annotators] = np.where(fitted.told, errors.lean_se, np.nan)
    rating = publish(replace(fitted.found, covariance=errors.covariance(taste)))
    return JudgesBoard(rating, lean, lean_se, float(np.sqrt(taste)))


class LeanFit(NamedTuple):
    """Scores with leans.

    Attributes
    ----------
    found : the estimate, without errors
    sided : the votes between its models, in the indices of `found.small`
    told : judges whose lean the votes tell, in these indices too
    point : the derivatives at the fit
    """

    found: Estimate
    sided: SidedCells
    told: Mask
    point: Profiled


def fit_leans(ballots: Ballots, settings: LoopSettings) -> LeanFit:
    """Fit as `rate_judges`, without errors."""
    if len(ballots.battle) == 0:
        raise VotesError("no vote is by a judge", "no-votes")
    found = fit_without_errors(ballots.cells(), settings)
    sided = ballots.sided()
    sided = sided.where(found.identified[sided.cells.model_a] & found.identified[sided.cells.model_b])
    small = compact(sided.cells, found.identified)
    sided, component = SidedCells(small.cells, sided.side), found.components.label[small.models]
    told = tell_leans(sided)
    fit, point = minimise_scores(LeaningLikelihood(sided, told), component, found.fit.R, np.ones(len(told)))
    return LeanFit(replace(found, fit=replace(found.fit, R=fit.R)), sided, told, point)


class _Errors:
    """Sums over battles of what each judge's votes add to the gradient, leans eliminated.

    Attributes
    ----------
    inverse : S⁺ of the profile, shape (n_models, n_models)
    laplacians : L_k, each judge's part of S
    gradients : g_k, each judge's part of the gradient at the fit, which is 0 in sum
    own : G_kᵀG_k over the battles; with_all : G_kᵀG, G the sum over judges; meat : GᵀG
    lean_se : of each judge's lean
    """

    def __init__(self, ballots: Ballots, fitted: LeanFit) -> None:
        point, small, R = fitted.point, fitted.found.small, fitted.found.fit.R
        self.component = fitted.found.components.label[small.models]
        judges, shifts, typical = len(small.annotators), shift_projector(self.component), typical_information(point.A)
        self.inverse = Block(point.A + typical * shifts).solve(np.eye(len(R))) - shifts / max(typical, TINY)
        parts = [self._gradients(ballots, small, k, R, point) for k in range(judges)]
        profile = np.hstack([np.eye(len(R)), point.follows.T])  # of the gradient by the scores and the leans
        total = csr_array(sum(parts[1:], parts[0]))
        everything = (total.T @ total).toarray()
        self.meat = profile @ everything @ profile.T
        moved = point.follows @ self.inverse @ profile
        moved[:, len(R) :] += np.diag(point.inverse)
        self.lean_se = np.sqrt(np.maximum(np.einsum("ki,ij,kj->k", moved, everything, moved), 0.0))
        self.own = [profile @ (one.T @ one).toarray() @ profile.T for one in parts]
        self.with_all = [profile @ (one.T @ total).toarray() @ profile.T for one in parts]
        self.gradients = [profile @ one.sum(axis=0) for one in parts]
        B, starts = by_annotator_and_model(fitted.sided, point.cross), fitted.sided.cells.starts
        self.laplacians = [
            laplacian_of(fitted.sided, point.weight, slice(int(starts[k]), int(starts[k + 1])))
            + np.outer(B[k], point.follows[k])
            for k in range(judges)
        ]

    @staticmethod
    def _gradients(ballots: Ballots, small: Compact, k: int, R: Floats, point: Profiled) -> csr_array:
        """Return judge k's gradient of ℓ by scores and leans, by battle, shape (n_battles, n_models + n_judges)."""
        v, place = ballots.votes, np.full(len(ballots.votes.models), -1)
        place[small.models] = np.arange(len(small.models))
        here = (v.annotator == small.annotators[k]) & (place[v.model_a] >= 0) & (place[v.model_b] >= 0)
        left, right, battle = place[v.model_a[here]], place[v.model_b[here]], ballots.battle[here]
        x = R[left] - R[right] + point.lean[k]
        rest = ballots.weight[here] * (v.outcome[here] - 1.0 / (1.0 + np.exp(-x)))
        columns = np.concatenate([left, right, np.full(len(left), len(R) + k)])
        entries = np.concatenate([rest, -rest, rest])
        shape = int(ballots.battle.max()) + 1, len(R) + len(small.annotators)
        return csr_array((entries, (np.tile(battle, 3), columns)), shape=shape)

    def taste_variance(self) -> float:
        """Return τ², by moments: Σ_k |g_k|² less what battles make of it, over what tastes of variance 1 would."""
        if len(self.own) == 1:
            return float("nan")
        excess, expected = 0.0, 0.0
        squares = sum(L @ L for L in self.laplacians)
        for g, L, own, with_all in zip(self.gradients, self.laplacians, self.own, self.with_all, strict=True):
            through = L @ self.inverse
            excess += g @ g - np.trace(own) + 2.0 * np.trace(through @ with_all.T)
            excess -= np.trace(through @ self.meat @ through.T)
            expected += np.trace(L @ L) - 2.0 * np.trace(through @ L @ L) + np.trace(through @ squares @ through.T)
        return max(float(excess / expected), 0.0) if expected > 0.0 else 0.0

    def covariance(self, taste: float) -> Covariance:
        """Return the covariance of the scores, and the degrees of freedom that the judges leave for τ²."""
        size, judges = len(self.inverse), len(self.own)
        battles = self.inverse @ self.meat @ self.inverse
        tastes = np.zeros_like(battles)
        if np.isfinite(taste):
            tastes = taste * self.inverse @ sum(L @ L for L in self.laplacians) @ self.inverse
        scores = battles + tastes
        share = np.diag(tastes) / np.maximum(np.diag(scores), TINY)
        known = max((judges - 1) * (size - len(np.unique(self.component))), 1)
        freedom = np.minimum(known / np.maximum(share, 1e-9) ** 2, NORMAL)
        return Covariance(scores, scores, np.full(judges, np.nan), "clustered", judges, freedom, np.full(size, judges))
