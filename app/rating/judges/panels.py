"""Which judges together give the people's order."""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from app.rating.arrays import Floats, Indices
from app.rating.errors import RatingError
from app.rating.judges.ballots import Ballots
from app.rating.judges.board import fit_leans
from app.rating.judges.people import PeoplesScores
from app.rating.settings import LoopSettings

MOST_TRIED = 4  # judges, up to which every panel is tried; of more the best panel grows judge by judge
MOST_GROWN = 8
SURE = 0.975  # probability from which the people's votes say which of two models is better


class Panel(NamedTuple):
    """Some judges' own leaderboard beside the people's.

    Attributes
    ----------
    judges : indices
    agreement : share of the pairs of models that both put in the same order
    right : share of pairs that the judges are expected to have right, since the people's order is uncertain
    reversed : pairs that the people's votes put in order with 95 % confidence, and the judges in the other order
    """

    judges: tuple[int, ...]
    agreement: float
    right: float
    reversed: int


class Panels(NamedTuple):
    """Panels of judges, the best order first.

    Attributes
    ----------
    tried : every panel
    enough : the panel of fewest judges that is right in as many pairs as the best one, within an error; None without
        panels
    certainty : share of pairs that the people's own order is expected to have right
    error : of these shares, because the people's order is uncertain
    pairs : of models
    """

    tried: list[Panel]
    enough: Panel | None
    certainty: float
    error: float
    pairs: int


NO_PANELS = Panels([], None, float("nan"), float("nan"), 0)


def try_panels(ballots: Ballots, judges: list[int], known: PeoplesScores) -> Panels:
    """Fit the own leaderboards of panels of these judges, and compare their orders with the people's.

    Panels whose votes leave a model without a score are left out. Of equal panels the one with earlier judges is first.
    """
    i, j = np.triu_indices(len(known.models), 1)
    gap, variance = known.score[i] - known.score[j], np.diag(known.covariance)
    spread = variance[i] + variance[j] - 2.0 * known.covariance[i, j]
    sure = ndtr(np.abs(gap) / np.sqrt(np.maximum(spread, 1e-300)))
    error = float(np.sqrt((sure * (1.0 - sure)).sum())) / len(i)
    tried, best, every = list[Panel](), Panel((), 0.0, 0.0, 0), len(judges) <= MOST_TRIED
    for size in range(1, min(len(judges), MOST_GROWN) + 1):
        beside = [k for k in judges if k not in best.judges]
        panels = combinations(judges, size) if every else ((*best.judges, k) for k in beside)
        found = [_compare(ballots, tuple(one), known.models, gap, sure) for one in panels]
        tried += (scored := [one for one in found if one is not None])
        better = max(scored, key=lambda one: one.right, default=best)
        if not every and better.right <= best.right:
            break
        best = better
    ranked = sorted(tried, key=lambda one: (-one.right, len(one.judges)))
    within = [one for one in ranked if one.right >= ranked[0].right - error]
    enough = min(within, key=lambda one: (len(one.judges), -one.right), default=None)
    return Panels(ranked, enough, float(sure.mean()), error, len(i))


def _compare(ballots: Ballots, judges: tuple[int, ...], models: Indices, gap: Floats, sure: Floats) -> Panel | None:
    """Return the panel beside the people's gaps of all pairs of these models; None where one of them has no score."""
    who = np.isin(np.arange(len(ballots.votes.annotators)), judges)
    try:
        fitted = fit_leans(ballots.of_annotators(who), LoopSettings(method="m-elo", min_votes=0))
    except RatingError:
        return None
    i, j = np.triu_indices(len(models), 1)
    ours = fitted.found.natural_scores()[models]
    if not np.isfinite(ours).all():
        return None
    against = np.sign(ours[i] - ours[j]) != np.sign(gap)
    right = float(np.where(against, 1.0 - sure, sure).mean())
    return Panel(judges, 1.0 - float(against.mean()), right, int((against & (sure > SURE)).sum()))
