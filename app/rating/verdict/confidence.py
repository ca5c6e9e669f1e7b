"""How sure the order of a component is: the joint distribution of its scores, and the votes that a verdict takes."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.special import expit

from app.rating.arrays import Floats, Indices, Mask
from app.rating.compiled import compiled
from app.rating.settings import MOST_MODELS, MOST_RANKS, VerdictRule
from app.rating.threads import one_blas_thread
from app.rating.uncertainty.bounds import unscored_bounds
from app.rating.uncertainty.centre import centred_scores
from app.rating.uncertainty.covariance import contrast_errors
from app.rating.uncertainty.freedom import widen, widenings
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.forecasts import DEEP, PATHS, SEED, STEPS, find_quantiles, more_votes
from app.rating.verdict.order import (
    LEAST,
    TUNED_TO,
    Confidence,
    JointScores,
    Unscored,
    equality_cost,
    order_cost,
    unscored_level,
)
from app.rating.verdict.rating import Rating

LEAST_WORTH = 0.1  # below it a vote would have been worth more than a hundred times what the model says
DRAWS = 10_000
BLOCK = 500  # draws at once: of 500 models 2 MB
USUAL = 2.0  # standard errors at which normal errors are as wide as those of t
EQUAL = 1e-6  # Elo points: scores that agree to these share the ranks of a draw


def join_scores(rating: Rating, component: int = 0) -> JointScores | None:
    """Return the scores of a component with their joint errors; None without errors or with one score.

    Component 0 is the one with the most votes. Models without a score or without a rank are left out.
    """
    if rating.covariance is None:
        return None
    models = rating.small.models
    kept = rating.identified & ~rating.models.provisional & (rating.components.label == component)
    here = np.flatnonzero(kept[models])
    if len(here) < 2:  # noqa: PLR2004  one score has no difference
        return None
    score = centred_scores(rating)[models[here]]
    here, score = here[np.argsort(-score, kind="stable")], -np.sort(-score, kind="stable")
    errors = ELO_PER_NATURAL * contrast_errors(rating.covariance.order, here[:, None], here)
    return JointScores(models[here], score, errors, rating.covariance.freedom[here])


@dataclass(frozen=True)
class Growth:
    """The joint covariance after m more votes, Σ(m) = U diag(1/(1 + m λ)) Uᵀ.

    Attributes
    ----------
    basis : U in Elo points, shape (n, n − 1)
    rate : λ of each column, per vote, at least 0, shape (n − 1,)
    votes : that gave the scores
    """

    basis: Floats
    rate: Floats
    votes: float

    def left(self, more_votes: float) -> Floats:
        """Return the share of each column's variance that is left after so many more votes, shape (n − 1,)."""
        share: Floats = 1.0 / (1.0 + more_votes * self.rate)
        return share

    def errors(self, more_votes: float, models: Mask | None = None) -> Floats:
        """Return the standard errors of S_i − S_j after so many more votes, shape (n, n), or of these models alone."""
        root = (self.basis if models is None else self.basis[models]) * np.sqrt(self.left(more_votes))
        every = np.arange(len(root))
        return contrast_errors(root @ root.T, every[:, None], every)


def find_growth(
    joint: JointScores, votes: Floats, design: Floats | None = None, *, total: float | None = None
) -> Growth:
    """Return how Σ shrinks: Σ(m) = (Σ⁻¹ + m T⁻¹ Λ(π) T⁻¹)⁻¹ across the shifts, with T P⁻¹ T = Σ.

    Λ(π) = Σ_pairs π_ij p(1 − p) (e_i − e_j)(e_i − e_j)ᵀ is the information of a vote on a pair drawn from π, and P that
    of the votes so far.

    Parameters
    ----------
    votes : counted votes between the models, symmetric, shape (n, n)
    design : π, the probability with which the next battle is of each pair, symmetric, each pair at both places, shape
        (n, n); by default pairs are chosen as they have been so far
    total : votes that gave the scores, at least 1; by default those between the models

    Notes
    -----
    T, symmetric and positive, is what makes votes worth less, or more, than the model says: abilities, ties, tastes of
    annotators, the unit. Where they make no difference it is the identity, and it is taken as that where P is so small
    that other votes gave Σ: through models without a rank, or of other categories. Pairs chosen as they have been give
    Σ(m) = Σ/(1 + m/total). Annotators and prompts are taken to come as the votes do.
    """
    n, total = len(joint.score), max(float(votes.sum()) / 2.0 if total is None else total, 1.0)
    across = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]  # of the shifts
    covariance = across.T @ joint.covariance @ across
    root = square_root(covariance)
    if design is None:
        return Growth(across @ root, np.full(n - 1, 1.0 / total), total)
    natural = joint.gaps / ELO_PER_NATURAL
    worth = expit(natural) * expit(-natural)
    past, future = (_information(worth * pairs, across) for pairs in (votes, design / (design.sum() / 2.0)))
    seen = _inverse_transport(past, covariance) @ root
    rate, vectors = eigh(seen.T @ future @ seen)
    return Growth(across @ root @ vectors, np.maximum(rate, 0.0), total)


def count_votes(rating: Rating, joint: JointScores) -> tuple[Floats, float]:
    """Return the counted votes between the models of `joint`, symmetric, shape (n, n), and the number of all on them.

    The latter has those against other models too.
    """
    place = np.full(rating.cells.n_models, -1)
    place[joint.models] = np.arange(len(joint.models))
    a, b, n = place[rating.pairs.model_a], place[rating.pairs.model_b], rating.pairs.n
    both, votes = (a >= 0) & (b >= 0), np.zeros((len(joint.models),) * 2)
    np.add.at(votes, (a[both], b[both]), n[both])
    return votes + votes.T, float(n[(a >= 0) | (b >= 0)].sum())


def _information(weight: Floats, across: Floats) -> Floats:
    """Return Σ_pairs weight_ij (e_i − e_j)(e_i − e_j)ᵀ in the basis `across`."""
    inside: Floats = across.T @ (weight.sum(axis=1)[:, None] * across - weight @ across)
    return inside


def _inverse_transport(information: Floats, covariance: Floats) -> Floats:
    """Return T⁻¹ of the symmetric T ≥ 0 with T information⁻¹ T = covariance: T = P^½ (P^−½ Σ P^−½)^½ P^½.

    Of T's eigenvalues those below `LEAST_WORTH` are 1: the votes there did not give the covariance.
    """
    values, vectors = eigh(information)
    values = np.maximum(values, LEAST * (1.0 + values.mean()))
    half, inverse_half = ((vectors * each) @ vectors.T for each in (np.sqrt(values), values**-0.5))
    inner_values, inner_vectors = eigh(inverse_half @ covariance @ inverse_half)
    inner = (inner_vectors * np.sqrt(np.maximum(inner_values, 0.0))) @ inner_vectors.T
    worth, directions = eigh(half @ inner @ half / ELO_PER_NATURAL)
    inverse: Floats = (directions / np.where(worth < LEAST_WORTH, 1.0, worth)) @ directions.T
    return inverse / ELO_PER_NATURAL


def rank_probabilities(joint: JointScores, most: int, *, draws: int = DRAWS) -> Floats:
    """Return P(model i is among the best k), k = 1 … most, under S ~ N(Ŝ, Σ), shape (n, most).

    Parameters
    ----------
    most : at most the number of models
    draws : even; the standard error of a probability p is at most √(p(1 − p)/draws)

    Notes
    -----
    Σ is the joint covariance, so that errors that two models share do not count. A score's errors are widened as its
    interval is by few degrees of freedom. Draws come in pairs Ŝ ± e, always the same ones: a refit of the same votes
    gives the same numbers. Models that are equal without error, as where every vote is a tie, share the ranks. With a
    flat prior this is the posterior of the ranks. It is for one look, and not valid when looked at again and again: a
    verdict comes from `app.rating.verdict.order`. O(draws · n²).

    References
    ----------
    Marshall and Spiegelhalter, Reliability of league tables, BMJ 1998, on ranks by simulation.
    """
    n = len(joint.score)
    wide = widen(np.full(n, USUAL), joint.freedom) / USUAL
    root = square_root(joint.covariance * np.outer(wide, wide) + EQUAL**2 * np.eye(n))
    generator, counts = np.random.default_rng(SEED), np.zeros(n * most)
    for _ in range(0, draws, 2 * BLOCK):
        errors = generator.standard_normal((BLOCK, root.shape[1])) @ root.T
        drawn = np.concatenate([joint.score + errors, joint.score - errors])
        best = _best(drawn, most)
        counts += np.bincount((best * most + np.arange(most)).ravel(), minlength=n * most)
    total = -(-draws // (2 * BLOCK)) * 2 * BLOCK
    within: Floats = np.cumsum(counts.reshape(n, most), axis=1) / total
    return np.minimum(within, 1.0)


def square_root(covariance: Floats) -> Floats:
    """Return X with X Xᵀ the covariance, its eigenvalues at least 0; shape (n, n)."""
    values, vectors = np.linalg.eigh(covariance)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return root


def _best(drawn: Floats, most: int) -> np.ndarray:
    """Return the columns of each row's highest values, best first, shape (rows, most)."""
    if most < drawn.shape[1]:
        best = np.argpartition(-drawn, most - 1, axis=1)[:, :most]
        order = np.argsort(-np.take_along_axis(drawn, best, axis=1), axis=1)
        return np.take_along_axis(best, order, axis=1)
    return np.argsort(-drawn, axis=1)


def forecast_verdicts(
    joint: JointScores, growth: Growth, most: int, rule: VerdictRule, *,
    contenders: Mask | None = None, paths: int = PATHS,
) -> Floats:  # fmt: skip
    """Forecast how many more votes make the verdict on the best k "decided" or "equal", for k = 1 … most.

    Parameters
    ----------
    most : largest k, at most n − 1
    contenders : the models that may come among the best `most`, shape (n,); the others are not looked at, which saves
        time with many models. By default all

    Returns
    -------
    array, shape (most, 3)
        The 10 %, 50 % and 90 % points of the number of votes; ∞ beyond 50 times the votes so far.

    Notes
    -----
    What the leaderboard will say after m more votes is, as seen from now, Ŝ(m) ~ N(Ŝ, Σ − Σ(m)), with independent
    increments. Paths are drawn from it, and each is looked at as a refit would look: the first m with a verdict counts.
    So a path holds both that the truth is not known, and that the scores will move on their way to it. Degrees of
    freedom grow as the votes do. O(paths · STEPS · n²).

    References
    ----------
    Spiegelhalter, Freedman and Blackburn, Monitoring clinical trials: conditional or predictive power?, Controlled
    Clinical Trials 1986.
    """
    ahead = more_votes(growth.votes)
    inside = np.ones(len(joint.score), dtype=np.bool_) if contenders is None else contenders
    here, basis, columns = joint.score[inside], growth.basis[inside], len(growth.rate)
    generator, known, at = np.random.default_rng(SEED), np.zeros(columns), np.zeros((paths, columns))
    scores, errors = np.empty((STEPS, paths, len(here))), np.empty((STEPS, len(here), len(here)))
    freedom = joint.contrast_freedom[np.ix_(inside, inside)]
    for step, votes in enumerate(ahead):
        fixed = 1.0 - growth.left(votes)
        at += np.sqrt(np.maximum(fixed - known, 0.0)) * generator.standard_normal(at.shape)
        known = fixed
        wide = widenings(DEEP, freedom * (1.0 + votes / growth.votes))
        scores[step], errors[step] = here + at @ basis.T, wide * growth.errors(votes, inside)
    first = np.full((most, paths), STEPS, dtype=np.int64)
    order = np.argsort(-scores, axis=2)
    n = len(joint.score)
    of_order = np.array([order_cost(rule, k, n) for k in range(1, most + 1)])
    find_first_settled(scores, order, errors, TUNED_TO, of_order, equality_cost(rule, n), rule.margin, first)
    return find_quantiles(first, ahead)


@compiled
def find_first_settled(
    scores: Floats, order: Indices, errors: Floats, tuned_to: float, of_order: Floats, of_equality: float,
    margin: float, first: Indices,
) -> None:  # fmt: skip
    """Set first[k − 1, path] to the first step at which each of the best k is above, or as good as, each other model.

    Parameters
    ----------
    scores, order : of every model at every step of every path, and its models best first, shape (steps, paths, n)
    errors : of the differences at every step, shape (steps, n, n)
    tuned_to, margin : of the criterion (`app.rating.verdict.order`)
    of_order, of_equality : the costs of the two statements; of_order for each k, shape (most,)
    first : the number of steps where there is none, shape (most, paths)
    """
    steps, paths, n = scores.shape
    for path in range(paths):
        for k in range(1, first.shape[0] + 1):
            for step in range(steps):
                score, ranked, error = scores[step, path], order[step, path], errors[step]
                settled = True
                for i in range(k - 1, -1, -1):  # those next to the border first: most often they are not settled
                    for j in range(k, n):
                        a, b = ranked[i], ranked[j]
                        gap, v = score[a] - score[b], error[a, b] ** 2
                        share = v / tuned_to**2
                        growth = math.log(1.0 + 1.0 / share) if share > 0.0 else math.inf
                        above = gap * gap > v * (1.0 + share) * (growth + of_order[k - 1])
                        if not above:
                            half = math.sqrt(v * (1.0 + share) * (growth + of_equality))
                            settled = gap + half <= margin
                        if not settled:
                            break
                    if not settled:
                        break
                if settled:
                    first[k - 1, path] = step
                    break


def measure_confidence(
    rating: Rating, rule: VerdictRule, design: Floats | None = None, component: int = 0
) -> Confidence | None:
    """Return how sure the order of a component is, 0 for the largest. Provisional models are left out.

    None without intervals, and with fewer than 2 or more than 500 ranked models with a score.

    Parameters
    ----------
    design : probability that the next battle is of each pair, symmetric, shape (n_models, n_models); by default as
        battles were chosen so far, as where no battle is of the component
    """
    joint = join_scores(rating, component)
    if joint is None or len(joint.score) > MOST_MODELS:
        return None
    n = len(joint.score)
    votes, total = count_votes(rating, joint)
    here = None if design is None else design[np.ix_(joint.models, joint.models)]
    with one_blas_thread():
        design = here if here is not None and here.any() else None
        growth = find_growth(joint, votes, design, total=total)
        most = min(MOST_RANKS, n)
        within = rank_probabilities(joint, most)
        contenders = (within[:, -1] > 0.0) | (np.arange(n) <= most)
        forecasts = forecast_verdicts(joint, growth, min(most, n - 1), rule, contenders=contenders)
        doubled = growth.errors(growth.votes)
    unscored = _bound_unscored(rating, rule, most, n, component)
    return Confidence(joint, doubled, within, forecasts, growth.votes, unscored, rule)


def _bound_unscored(rating: Rating, rule: VerdictRule, most: int, n: int, component: int) -> Unscored:
    """Bound the models of a component that have no score, at every look together.

    The probability under a score s that a model lost all its battles is a test martingale's inverse: 1/P starts at 1,
    stays 1 on average while battles come, and so ever reaches 1/α with probability α. The exact bound of a model that
    only lost is therefore valid at every look as it is.
    """
    here, provisional = rating.components.label == component, rating.models.provisional
    rest, later = here & ~rating.identified & ~provisional, int((here & provisional).sum())
    number = int(rest.sum())
    if number == 0:
        return Unscored(provisional=later)
    level = unscored_level(rule, min(most, n - 1), n + number + later)
    lower, upper = unscored_bounds(rating, 1.0 - level)
    lost = np.isneginf(lower[rest])
    return Unscored(number, float(upper[rest].max()) if lost.all() else math.inf, later)
