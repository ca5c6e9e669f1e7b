"""What is compared: Bradley-Terry's leaderboard, am-ELO as it was judged before, and the service's today."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from app.rating.arrays import Mask
from app.rating.settings import LoopSettings
from app.rating.verdict.rating import Rating
from stable_arena_lab.defences.gains import BOARDS, FLAGGED, SERVICE

BRADLEY_TERRY, BEFORE, NOW, EXCLUDED = "Bradley-Terry", "before", "now", "now, excluded"

VERSIONS: Mapping[str, LoopSettings] = {
    BRADLEY_TERRY: BOARDS["m-elo"],
    BEFORE: replace(SERVICE, influence_limit=None),
    NOW: SERVICE,
    EXCLUDED: replace(SERVICE, exclude=True),
}
"""Before: no limit of influence. Now: the defaults, flagged annotators stay in; "now, excluded" leaves them out."""


def mark(version: str, rating: Rating) -> Mask:
    """Return the annotators that a version's rule marks, shape (n_annotators,); none without abilities.

    Before: a test, also one about a model, or a plain ability at or below ε (the paper's threshold). Now: the flags,
    also those for a taste. "now, excluded": those who are excluded.
    """
    if rating.evidence is None:
        return np.zeros(len(rating.annotators.standing), dtype=bool)
    if version == BEFORE:
        marked: Mask = rating.evidence.flagged() | (rating.annotators.ability <= rating.settings.min_ability)
        return marked
    return np.isin(rating.annotators.standing, ("excluded",) if version == EXCLUDED else FLAGGED)
