import math
from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats
from app.rating.settings import DecisionRule
from app.rating.threads import one_blas_thread
from app.rating.uncertainty.bounds import unscored_bounds
from app.rating.uncertainty.rating import Rating
from app.rating.verdict.forecast import forecast_decisions
from app.rating.verdict.joint import JointScores, count_pairs_of, find_growth, join_scores, rank_probabilities
from app.rating.verdict.order import Decision, Unscored, decide, unscored_level

MOST_MODELS = 500
MOST_RANKS = 50


@dataclass(frozen=True)
class Confidence:
    """How sure the order of the ranked models of a leaderboard's largest component is.

    Attributes
    ----------
    joint : the scores, best first, and their joint errors
    doubled : standard errors of the differences after as many votes again, shape (n, n)
    within : P(model is among the best k), k = 1 … 50 or n, shape (n, most)
    forecasts : more votes until the best k are decided or practically equal, k = 1 … 50 or n − 1: the 10 %, 50 % and
        90 % points, shape (most, 3)
    votes : between these models
    unscored : the other models of the component: those without a score, and provisional ones
    rule : what the forecasts ask for
    """

    joint: JointScores
    doubled: Floats
    within: Floats
    forecasts: Floats
    votes: float
    unscored: Unscored
    rule: DecisionRule

    def decide(self, k: int) -> Decision:
        """Say whether the best k are decided.

        Raises
        ------
        ValueError
            k is not below the number of models with a score.
        """
        return decide(self.joint, k, self.rule, self.unscored)


def measure_confidence(rating: Rating, rule: DecisionRule, design: Floats | None = None) -> Confidence | None:
    """Return how sure the order of the largest component is. Provisional models are left out.

    None without intervals, and with fewer than 2 or more than 500 ranked models with a score.

    Parameters
    ----------
    design : probability that the next battle is of each pair, symmetric, shape (n_models, n_models); by default as
        battles were chosen so far
    """
    joint = join_scores(rating)
    if joint is None or len(joint.score) > MOST_MODELS:
        return None
    n = len(joint.score)
    votes = count_pairs_of(rating, joint)
    with one_blas_thread():
        growth = find_growth(joint, votes, None if design is None else design[np.ix_(joint.models, joint.models)])
        most = min(MOST_RANKS, n)
        within = rank_probabilities(joint, most)
        contenders = (within[:, -1] > 0.0) | (np.arange(n) <= most)
        forecasts = forecast_decisions(joint, growth, min(most, n - 1), rule, contenders=contenders)
        doubled = growth.errors(growth.votes)
    return Confidence(joint, doubled, within, forecasts, growth.votes, _bound_unscored(rating, rule, most, n), rule)


def _bound_unscored(rating: Rating, rule: DecisionRule, most: int, n: int) -> Unscored:
    """Bound the models of the largest component that have no score, at every look together.

    The probability under a score s that a model lost all its battles is a test martingale's inverse: 1/P starts at 1,
    stays 1 on average while battles come, and so ever reaches 1/α with probability α. The exact bound of a model that
    only lost is therefore valid at every look as it is.
    """
    here, provisional = rating.components.label == 0, rating.models.provisional
    rest, later = here & ~rating.identified & ~provisional, int((here & provisional).sum())
    number = int(rest.sum())
    if number == 0:
        return Unscored(provisional=later)
    level = unscored_level(rule, min(most, n - 1), n + number + later)
    lower, upper = unscored_bounds(rating, 1.0 - level)
    lost = np.isneginf(lower[rest])
    return Unscored(number, float(upper[rest].max()) if lost.all() else math.inf, later)
