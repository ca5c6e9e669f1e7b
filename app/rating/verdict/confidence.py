"""How sure the order of a leaderboard is, and how many more votes a verdict takes."""

import math

import numpy as np

from app.rating.arrays import Floats, Indices, Mask
from app.rating.compiled import compiled
from app.rating.settings import MOST_MODELS, MOST_RANKS, VerdictRule
from app.rating.threads import one_blas_thread
from app.rating.uncertainty.bounds import unscored_bounds
from app.rating.uncertainty.freedom import widenings
from app.rating.verdict.forecasts import DEEP, PATHS, SEED, STEPS, find_quantiles, more_votes
from app.rating.verdict.joint import (
    Growth,
    count_votes,
    find_growth,
    join_scores,
    rank_probabilities,
)
from app.rating.verdict.order import (
    TUNED_TO,
    Confidence,
    JointScores,
    Unscored,
    equality_cost,
    order_cost,
    unscored_level,
)
from app.rating.verdict.rating import Rating


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
