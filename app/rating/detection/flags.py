"""The flag rules: by the paper's threshold, by its probability, or by evidence."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from app.rating.data.arrays import Floats, Mask
from app.rating.detection.evidence import Evidence
from app.rating.settings import LoopSettings

BY_ABILITY = "ability"
"""The reason of a flag by ability; the reason of a flag by evidence is the name of the strongest test."""

LIKELY = 0.5
"""P(a ≤ ε) from which the rule by evidence flags: more likely than not. docs/laboratory-attacks.md has the errors."""


@dataclass(frozen=True)
class Flags:
    """Arrays of shape (n_annotators,).

    Attributes
    ----------
    low : flagged
    held : flagged only because of the margin: above the threshold now, and flagged in the round before
    """

    low: Mask
    held: Mask


def flag_by_ability(settings: LoopSettings, ability: Floats, se: Floats, was_low: Mask) -> Flags:
    """Flag abilities at or below ε, or where that is probable enough; NaN is never flagged.

    An annotator who was flagged in the round before stays so until the ability is `release_margin` above ε.
    """
    low = _at_or_below(settings, ability, se, settings.min_ability)
    held = was_low & ~low & _at_or_below(settings, ability, se, settings.min_ability + settings.release_margin)
    return Flags(low | held, held)


def flag_by_habits(settings: LoopSettings, evidence: Evidence, was_low: Mask) -> Flags:
    """Flag where the adjusted ability is at or below ε with a probability of `LIKELY` or more.

    An annotator who was flagged in the round before stays so while that is true of ε plus `release_margin`.
    """
    low = evidence.probability_low(settings.min_ability) >= LIKELY
    held = was_low & ~low & (evidence.probability_low(settings.min_ability + settings.release_margin) >= LIKELY)
    return Flags(low | held, held)


def flag_by_evidence(settings: LoopSettings, evidence: Evidence, was_low: Mask, tests: tuple[str, ...]) -> Flags:
    """Flag a ratio of `evidence_ratio` or more in these tests; if flagged in the round before, of its square root."""
    low = evidence.flagged(tests, settings.evidence_ratio)
    held = was_low & ~low & evidence.flagged(tests, settings.evidence_ratio**0.5)
    return Flags(low | held, held)


def probability_low(ability: Floats, se: Floats, threshold: float) -> Floats:
    """P(a ≤ threshold), normal approximation; NaN where the ability is."""
    with np.errstate(invalid="ignore", divide="ignore"):
        probability: Floats = ndtr((threshold - ability) / se)
    return probability


def _at_or_below(settings: LoopSettings, ability: Floats, se: Floats, threshold: float) -> Mask:
    if settings.flag_rule == "probability":
        flagged: Mask = probability_low(ability, se, threshold) >= settings.flag_probability
        return flagged
    return ability <= threshold
