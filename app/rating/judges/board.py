"""The judges' own leaderboard: every judge with leans of its own, errors by the battles that they saw."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, hstack

from app.rating.arrays import Floats, Mask
from app.rating.errors import VotesError
from app.rating.judges.ballots import Ballots
from app.rating.judges.leaning import WIDE, OwnVotes, fit_leaning, identified_leans, own_columns, score_columns
from app.rating.judges.peoples_scores import BattleErrors
from app.rating.model.score_kernels import LARGEST_SHARE
from app.rating.plain.m_elo import shift_projector, typical
from app.rating.settings import LoopSettings
from app.rating.uncertainty.covariance import TINY, Covariance
from app.rating.uncertainty.estimate import fit_without_errors
from app.rating.uncertainty.freedom import NORMAL
from app.rating.uncertainty.prompts import PromptErrors, positive_part
from app.rating.uncertainty.results import Estimate
from app.rating.verdict.rating import Rating, publish
from app.rating.votes.cells import compact, find_places
from app.rating.votes.features import features_of


@dataclass(frozen=True)
class JudgesBoard:
    """The leaderboard of some judges.

    Attributes
    ----------
    rating : of the models
    lean, lean_se : log odds for the left and for each feature of style, and their errors over battles; NaN for a judge
        whose votes do not tell it, shape (n_annotators, 1 + n_style)
    shared : errors of the scores by battle
    """

    rating: Rating
    lean: Floats
    lean_se: Floats
    shared: BattleErrors


def rate_judges(ballots: Ballots, chosen: LoopSettings | None = None) -> JudgesBoard:
    """Maximise ℓ(R, b) with P(left wins) = σ(R_left − R_right + xᵀb_k): m-ELO, and leans of every judge.

    x is the side and, where the ballots have it, the style; a vote without measures counts with its side alone.
    Abilities are 1: of few judges it is open which of them to believe, and the likelihood would believe the one that
    agrees best with itself.

    Parameters
    ----------
    chosen : whose confidence, base, anchor and models without a rank hold; None for the defaults

    Notes
    -----
    The scores are those of the mean judge; these are a sample. Their covariance has the error of the battles, in
    which all judges saw the same answers (clusters are battles), what battles on the same prompt have in common, where
    prompts are known, and that of the judges' tastes, opinions of their own u_ki ~ N(0, τ²) of each model: τ² is what
    the judges' gradients vary by beyond the error of battles and prompts. One judge says nothing of τ², so its
    intervals are for this judge on other battles and prompts.

    Raises
    ------
    VotesError
        No vote is left, or no model has a score.
    NotConvergedError
    """
    own = chosen or LoopSettings()
    settings = LoopSettings(
        method="m-elo", min_votes=0, interval="clustered", confidence=own.confidence, base=own.base, anchor=own.anchor,
        unranked=own.unranked,
    )  # fmt: skip
    fitted = fit_leans(ballots, settings)
    errors = _Errors(ballots, fitted)
    taste, size = errors.taste_variance(), (2, len(ballots.votes.annotators), fitted.identified.shape[1])
    both = np.full(size, np.nan)
    both[:, fitted.found.small.annotators] = np.where(fitted.identified, [fitted.leans, errors.lean_se], np.nan)
    rating = publish(replace(fitted.found, covariance=errors.covariance(taste)))
    return JudgesBoard(rating, both[0], both[1], errors.shared)


class LeanFit(NamedTuple):
    """Scores with leans.

    Attributes
    ----------
    found : the estimate, without errors
    identified : leans that the votes determine, in the indices of `found.small`, shape (n_annotators, 1 + n_style)
    leans : 0 where they are not identified
    """

    found: Estimate
    identified: Mask
    leans: Floats


def fit_leans(ballots: Ballots, settings: LoopSettings) -> LeanFit:
    """Fit as `rate_judges`, without errors."""
    if len(ballots.battle) == 0:
        raise VotesError("no vote is by a judge", "no-votes")
    found = fit_without_errors(ballots.cells(), settings)
    if not found.identified.any():
        raise VotesError("the judges' votes give no model a score: each only won or only lost")
    small = compact(ballots.between(np.flatnonzero(found.identified)).featured(), found.identified)
    identified, component = identified_leans(small.cells), found.components.label[small.models]
    x = features_of(small.cells) * identified[small.cells.annotator]
    fit = fit_leaning(replace(small.cells, features=x), component, found.fit.R)
    return LeanFit(replace(found, fit=replace(found.fit, R=fit.R)), identified, fit.leans)


class _Errors:
    """Sums over battles of what each judge's votes add to the gradient, leans eliminated; over prompts for τ².

    Attributes
    ----------
    inverse : S⁺ of the profile, shape (n_models, n_models)
    laplacians : L_k, each judge's part of S
    gradients : g_k, each judge's part of the gradient at the fit, which is 0 in sum
    own : G_kᵀG_k over prompts, or battles without one; with_all : G_kᵀG, G the sum over judges; meat : GᵀG
    battles : GᵀG over battles
    prompts : what the battles of a prompt have in common; None where none is known, or each has one battle
    lean_se : of each judge's leans, shape (n_annotators, 1 + n_style)
    shared : errors of the scores by battle
    """

    def __init__(self, ballots: Ballots, fitted: LeanFit) -> None:
        small, R = fitted.found.small, fitted.found.fit.R
        self.component = fitted.found.components.label[small.models]
        kept, judges = ballots.between(small.models), len(small.annotators)
        kept = kept.where(np.isin(kept.votes.annotator, small.annotators))
        v, place = kept.votes, find_places(small.models, len(ballots.votes.models))
        judge = find_places(small.annotators, len(v.annotators))[v.annotator]
        x, leans = kept.differences() * fitted.identified[judge], fitted.leans.ravel()
        scores = score_columns(place[v.model_a], place[v.model_b], np.ones(len(judge)), len(R))
        X = csr_array(hstack([own_columns(judge, x, judges), scores]))
        every = OwnVotes(kept, X, len(leans), X @ np.append(leans, R), int(kept.battle.max()) + 1)
        S, shifts, profile = every.profile_information, shift_projector(self.component), every.profile
        size = typical(S)
        self.inverse = np.linalg.inv(S + size * shifts).astype(np.float64) - shifts / size
        self.battles = self.meat = profile @ every.noise @ profile.T
        self.shared = BattleErrors(every.by_battle, profile.T @ self.inverse)
        moved = -every.moves @ self.inverse @ profile
        moved[:, : len(leans)] += every.bread
        variance = np.einsum("ij,ij->i", moved @ every.noise, moved)
        self.prompts, group = None, group_by_prompt(kept)
        if group is not None:
            together = csr_array(group @ every.by_battle)
            self.meat = profile @ (together.T @ together).toarray() @ profile.T
            known = group @ every.sum_by_battle(values=abs(every.curved))[:, len(leans) :]
            meat, effective = find_common(together @ profile.T, known.toarray(), every.by_battle @ profile.T)
            self.prompts = PromptErrors(positive_part(self.inverse @ meat @ self.inverse), effective)
            variance = np.maximum(variance, ((together @ moved.T) ** 2).sum(axis=0))
        self.lean_se = np.sqrt(np.maximum(variance, 0.0)).reshape(fitted.leans.shape)
        self.laplacians, self.own, self.with_all, self.gradients = (list[Floats]() for _ in range(4))
        for k in range(judges):
            mine, own = judge == k, np.arange(len(profile.T)) // x.shape[1] == k
            own[len(leans) :] = False
            one = every.sum_by_battle(mine)
            information = (X[mine].T @ every.curved[mine]).toarray() + np.diag(own / WIDE**2)
            self.laplacians.append(profile @ information @ profile.T)
            one, all_of_them = (one, every.by_battle) if group is None else (csr_array(group @ one), together)
            self.own.append(profile @ (one.T @ one).toarray() @ profile.T)
            self.with_all.append(profile @ (one.T @ all_of_them).toarray() @ profile.T)
            self.gradients.append(profile @ one.sum(axis=0))

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
        battles = self.inverse @ self.battles @ self.inverse
        tastes = np.zeros_like(battles)
        if np.isfinite(taste):
            tastes = taste * self.inverse @ sum(L @ L for L in self.laplacians) @ self.inverse
        scores = battles + tastes
        share = np.diag(tastes) / np.maximum(np.diag(scores), TINY)
        known = max((judges - 1) * (size - len(np.unique(self.component))), 1)
        freedom = np.minimum(known / np.maximum(share, 1e-9) ** 2, NORMAL)
        found = Covariance(scores, scores, np.full(judges, np.nan), "clustered", judges, freedom, np.full(size, judges))
        return found.with_prompts(self.prompts)


def group_by_prompt(ballots: Ballots) -> csr_array[Any, tuple[int, int]] | None:
    """Return which battles are on each prompt, a battle without one alone, shape (n_groups, n_battles).

    None where no prompt has two battles.
    """
    if ballots.votes.prompt is None:
        return None
    prompt = np.full(int(ballots.battle.max()) + 1, -1, dtype=np.int64)
    prompt[ballots.battle] = ballots.votes.prompt
    names = np.where(prompt >= 0, prompt, -1 - np.arange(len(prompt)))
    group = np.unique(names, return_inverse=True)[1].ravel()
    if int(group.max()) + 1 == len(prompt):
        return None
    return csr_array((np.ones(len(prompt)), (group, np.arange(len(prompt)))))


def find_common(of_prompt: Floats, known: Floats, of_battle: Floats) -> tuple[Floats, Floats]:
    """Return Σ u uᵀ over prompts, scaled up by their share of the information, less that over battles.

    And the effective number of prompts behind each score.

    Parameters
    ----------
    of_prompt, of_battle : sums of gradients, shapes (n_prompts, n_models) and (n_battles, n_models)
    known : information of each prompt on each score, shape (n_prompts, n_models)
    """
    share = known / np.maximum(known.sum(axis=0), TINY)
    scaled = of_prompt / np.sqrt(1.0 - np.minimum(share, LARGEST_SHARE))
    return scaled.T @ scaled - of_battle.T @ of_battle, 1.0 / np.maximum((share**2).sum(axis=0), TINY)
