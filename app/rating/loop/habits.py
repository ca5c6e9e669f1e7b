"""How annotators vote apart from what they vote for: their readiness to tie, and their lean to a side."""

import math

import numpy as np

from app.rating.data.arrays import Floats
from app.rating.detection.evidence import Evidence
from app.rating.solver.gauge import ELO_PER_NATURAL

HABITS = ("adjusted_ability", "adjusted_se", "tie_log", "tie_se", "side_lean", "side_lean_se")


def habit_columns(evidence: Evidence | None, n_annotators: int) -> dict[str, Floats]:
    """Return the adjusted ability, the log tie propensity and the lean in Elo points, each with its standard error.

    NaN where there is none: of annotators who were not judged, and of habits that the crowd does not have.
    """
    none = np.full(n_annotators, np.nan)
    if evidence is None:
        return dict.fromkeys(HABITS, none)
    habits = evidence.habits
    tie_se = np.where(np.isfinite(habits.tie_log), habits.tie_se, np.nan)
    points = ELO_PER_NATURAL / habits.typical
    leans = (points * habits.lean, points * habits.lean_se) if habits.leans.sd else (none, none)
    columns = (habits.ability, habits.ability_se, habits.tie_log, tie_se, *leans)
    return dict(zip(HABITS, columns, strict=True))


def tie_readiness(tie_log: float) -> float:
    """Return the share of ties between two equally good models: won, tied and lost are as 1 : exp(tie_log) : 1."""
    return 1.0 / (1.0 + 2.0 * math.exp(-tie_log))
