from dataclasses import dataclass
from typing import Any, ClassVar

from app.rating.estimators.joint import JointEstimator
from app.rating.settings import Interval, LoopSettings, Method


@dataclass(kw_only=True, repr=False, eq=False)
class BradleyTerry(JointEstimator):
    """Bradley-Terry (m-ELO): maximum likelihood of P(a beats b) = σ((S_a − S_b) ln 10/400); every vote counts alike.

    Parameters
    ----------
    min_votes : only annotators with more votes than this count; above 0 the votes need the column annotator
    interval : "clustered" by annotator (by vote where the votes have no annotator), "sandwich" by vote, "information"
        or "none"
    confidence : coverage of the intervals, in (0, 1)
    base : the models' mean score, Elo points
    anchor : (model, Elo points): shifts the scores so that this model has these points
    inverse_propensity : weigh each vote by 1/propensity, a column of the votes, to undo the choice of pairs; needs the
        column annotator, or interval "none"

    Attributes
    ----------
    leaderboard : table of the models, best first
    votes_ : the votes as they were read, with the names by index
    result_ : the round, by index: settings, estimates, diagnostics
    """

    min_votes: float = 0
    interval: Interval = LoopSettings.interval
    confidence: float = LoopSettings.confidence
    base: float = LoopSettings.base
    anchor: tuple[Any, float] | None = None
    inverse_propensity: bool = False

    _method: ClassVar[Method] = "m-elo"
