"""Which pair of models the next battle shows: one function a policy, and the table that a snapshot publishes.

Every policy returns the weights of all pairs, symmetric with zeros on the diagonal, shape (n_models, n_models).
Battles are drawn in proportion to them.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from app.rating.arrays import AnyInts, Floats, Indices
from app.rating.sampling.pair_weights import PairWeights, pair_positions, uniform_weights
from app.rating.sampling.scored_models import ScoredModels, find_newcomers
from app.rating.settings import PairPolicy, SamplingSettings, SettingError
from app.rating.threads import one_blas_thread

LARGEST = 60_000.0  # that the half-precision floats of a table can hold
BALANCED_VOTES = 10.0  # c of `balanced`
DRAWS = 4_096  # of all scores together, in `top_k`
FAR = 5.0  # standard errors
SEED = 14  # of these draws: the same scores give the same weights
TOP_K_SHARE = 0.5  # of `mixed`; docs/laboratory.md, "Which pair", compares others


def uniform(n_models: int) -> Floats:
    """Give all pairs the same weight, 1."""
    return _no_self(np.ones((n_models, n_models)))


def balanced(pair_votes: Floats) -> Floats:
    """Prefer models with few votes: 1/((n_i + c)(n_j + c)), n the votes on a model, c = 10.

    Two different models are drawn, each in proportion to 1/(n + c).

    Parameters
    ----------
    pair_votes : symmetric, shape (n_models, n_models)
    """
    need = 1.0 / (pair_votes.sum(axis=1) + BALANCED_VOTES)
    return _no_self(np.outer(need, need))


def lmarena(R: Floats, pair_votes: Floats) -> Floats:
    """Prefer pairs whose interval the next vote narrows most: √(Σ_ij/n_ij) − √(Σ_ij/(n_ij + 1)), Σ_ij = p_ij(1 − p_ij).

    n_ij counts the votes on the pair and one more, so that a pair without votes has a finite weight.

    Parameters
    ----------
    R : natural units, shape (n_models,)
    pair_votes : symmetric, shape (n_models, n_models)

    References
    ----------
    Chiang et al., Chatbot Arena, ICML 2024, §5, eq. 9.
    """
    n = pair_votes + 1.0
    return _no_self(np.sqrt(_bernoulli_variance(R)) * (1.0 / np.sqrt(n) - 1.0 / np.sqrt(n + 1.0)))


def information(R: Floats, covariance: Floats) -> Floats:
    """Prefer pairs whose next vote lowers the sum of all variances most: w‖Σ(e_i − e_j)‖²/(1 + wv), A-optimality.

    w = p_ij(1 − p_ij) is the information of a typical annotator's vote, v = (e_i − e_j)ᵀΣ(e_i − e_j) the variance of
    the difference. Where Σ is the inverse information, the weight is exactly by how much its trace falls with the vote.

    Parameters
    ----------
    R : natural units of the mean annotator, shape (n_models,)
    covariance : Σ of R, shape (n_models, n_models)

    References
    ----------
    Fedorov, Theory of Optimal Experiments (1972); Chaloner and Verdinelli, Statistical Science 10 (1995), §2.
    """
    w, v = _bernoulli_variance(R), _variance_of_differences(covariance)
    return _no_self(w * _variance_of_differences(covariance @ covariance) / (1.0 + w * v))


def top_k(R: Floats, covariance: Floats, k: int, *, draws: int = DRAWS) -> Floats:
    """Prefer pairs on which two draws from N(R, Σ) disagree who is among the first k: top-two Thompson sampling.

    The weight of a pair is the probability that the first of two independent draws has i among the first k and j not,
    and the second has j and not i: a_ij·a_ji with a_ij = P(i in, j out).

    Parameters
    ----------
    R : natural units, shape (n_models,)
    covariance : Σ of R, shape (n_models, n_models)
    k : at least 1
    draws : from which the probabilities a_ij are counted

    Returns
    -------
    float array, shape (n_models, n_models)
        All 0 where no two draws differ: the first k are decided, or there are no others.

    References
    ----------
    Russo, Simple Bayesian Algorithms for Best-Arm Identification, Operations Research 68 (2020): for the best arm, the
    same weights with k = 1.
    """
    weights = np.zeros_like(covariance)
    if k < len(R):
        contenders, inside = draw_top_k(R, covariance, k, draws=draws)
        both = (inside.T @ inside).astype(np.float64) / draws
        in_out = np.diag(both)[:, None] - both
        weights[np.ix_(contenders, contenders)] = in_out * in_out.T
    return _no_self(weights)


def draw_top_k(R: Floats, covariance: Floats, k: int, *, draws: int = DRAWS) -> tuple[Indices, NDArray[np.float32]]:
    """Draw which models are the first k, from N(R, Σ).

    Parameters
    ----------
    k : less than the number of models

    Returns
    -------
    contenders : the models that may be among the first k: R_i + 5 s_i is above the k-th largest of all R_j − 5 s_j
    inside : 1 where a contender is among the first k of a draw, else 0, shape (draws, contenders)
    """
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    surely = np.partition(R - FAR * error, -k)[-k]
    contenders = np.flatnonzero(R + FAR * error >= surely)
    values, vectors = np.linalg.eigh(covariance[np.ix_(contenders, contenders)])
    noise = np.random.default_rng(SEED).standard_normal((draws, len(contenders)), dtype=np.float32)
    root = (np.sqrt(np.maximum(values, 0.0)) * vectors).astype(np.float32)
    scores = (R[contenders] - R.mean()).astype(np.float32) + noise @ root.T
    inside = np.zeros((draws, len(contenders)), dtype=np.float32)
    np.put_along_axis(inside, np.argpartition(-scores, k - 1, axis=1)[:, :k], 1.0, axis=1)
    return contenders, inside


def mixed(R: Floats, covariance: Floats, k: int, *, top_k_share: float = TOP_K_SHARE) -> Floats:
    """Mix `top_k` with `information`, the first with this share of the battles: none once the first k are decided.

    Parameters
    ----------
    R, covariance, k : as for `top_k`
    """
    informative, top = information(R, covariance), top_k(R, covariance, k)
    if not top.any():
        return informative
    both: Floats = (1.0 - top_k_share) * informative / informative.sum() + top_k_share * top / top.sum()
    return both


Weigh = Callable[[Floats, Floats, Floats, int], Floats]
"""A policy, of R, its covariance, the votes on each pair, and k."""

POLICIES: dict[PairPolicy, Weigh] = {
    "uniform": lambda R, _covariance, _pair_votes, _k: uniform(len(R)),
    "balanced": lambda _R, _covariance, pair_votes, _k: balanced(pair_votes),
    "lmarena": lambda R, _covariance, pair_votes, _k: lmarena(R, pair_votes),
    "information": lambda R, covariance, _pair_votes, _k: information(R, covariance),
    "top_k": lambda R, covariance, _pair_votes, k: top_k(R, covariance, k),
    "mixed": lambda R, covariance, _pair_votes, k: mixed(R, covariance, k),
}


def weigh_pairs(models: ScoredModels, identities: AnyInts, settings: SamplingSettings) -> PairWeights:
    """Return P(pair) = f·uniform + (1 − f)·(b·boost + (1 − b)·policy), f the floor, b the newcomers' share.

    Parameters
    ----------
    models : at least one
    identities : of the models, shape (n_models,)

    Raises
    ------
    ValueError
        The floor is not in (0, 1], k is less than 1, or the policy is unknown.
    """
    if not 0.0 < settings.floor <= 1.0:
        raise SettingError("floor", "must be greater than 0 and at most 1")
    if settings.k < 1:
        raise SettingError("k", "must be at least 1")
    if settings.policy not in POLICIES:
        raise SettingError("policy", f"{settings.policy!r} is unknown; known are {', '.join(POLICIES)}")
    return mix_pairs(models, identities, POLICIES[settings.policy], settings.floor, settings.k)


@one_blas_thread()
def mix_pairs(models: ScoredModels, identities: AnyInts, weigh: Weigh, floor: float, k: int) -> PairWeights:
    """Return the probabilities of `weigh_pairs` for any policy."""
    if len(identities) <= 1 or not models.scored.any():
        return uniform_weights(identities)
    new = find_newcomers(models)
    pair = pair_positions(len(identities))
    chosen = _normalised(weigh(new.R, new.covariance, models.pair_votes, k)[pair])
    rest = (1.0 - new.share) * chosen
    if new.share:
        rest += new.share * _normalised(new.weights[pair])
    probability = floor / len(pair[0]) + (1.0 - floor) * rest
    weight = (probability * (LARGEST / probability.max())).astype(np.float16)
    return PairWeights(np.asarray(identities), weight, np.where(models.scored, models.R, np.nan))


def _bernoulli_variance(R: Floats) -> Floats:
    p = expit(R[:, None] - R[None, :])
    variance: Floats = p * (1.0 - p)
    return variance


def _variance_of_differences(covariance: Floats) -> Floats:
    """Return (e_i − e_j)ᵀ C (e_i − e_j) for all pairs, shape (n_models, n_models)."""
    diagonal = np.diag(covariance)
    return np.maximum(diagonal[:, None] + diagonal[None, :] - 2.0 * covariance, 0.0)


def _no_self(weights: Floats) -> Floats:
    np.fill_diagonal(weights, 0.0)
    return weights


def _normalised(weights: Floats) -> Floats:
    """Return weights with the sum 1; equal ones where all are 0."""
    total = float(weights.sum())
    return weights / total if total > 0.0 else np.full(len(weights), 1.0 / len(weights))
