"""Whom the rule marks, and why: the paper's threshold, its probability, or the laboratory's evidence."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from app.rating.data.arrays import Floats, Mask
from app.rating.detection.evidence import Evidence
from app.rating.settings import LoopSettings

BY_ABILITY = "ability"
"""What is said of an annotator whom the ability marks; those whom evidence marks have their strongest test's name."""


@dataclass(frozen=True)
class Verdicts:
    """Arrays of shape (n_annotators,).

    Attributes
    ----------
    low : marked
    held : marked only because they were marked before: inside the margin, on the better side of the threshold
    """

    low: Mask
    held: Mask


def judge_ability(settings: LoopSettings, ability: Floats, se: Floats, was_low: Mask) -> Verdicts:
    """Mark abilities at or below ε, by the bare threshold or where that is probable enough; NaN is never marked.

    Who was marked before stays so until the ability is `release_margin` above what marks others.
    """
    low = _at_or_below(settings, ability, se, settings.min_ability)
    held = was_low & ~low & _at_or_below(settings, ability, se, settings.min_ability + settings.release_margin)
    return Verdicts(low | held, held)


def judge_evidence(settings: LoopSettings, evidence: Evidence, was_low: Mask) -> Verdicts:
    """Mark annotators with a test at `evidence_ratio` or more; marked before, they stay so down to its square root."""
    low = evidence.flagged(settings.evidence_tests, settings.evidence_ratio)
    held = was_low & ~low & evidence.flagged(settings.evidence_tests, settings.evidence_ratio**0.5)
    return Verdicts(low | held, held)


def probability_low(ability: Floats, se: Floats, threshold: float) -> Floats:
    """P(a ≤ threshold), normal approximation; NaN where the ability is."""
    with np.errstate(invalid="ignore", divide="ignore"):
        probability: Floats = ndtr((threshold - ability) / se)
    return probability


def _at_or_below(settings: LoopSettings, ability: Floats, se: Floats, threshold: float) -> Mask:
    if settings.flag_rule == "probability":
        marked: Mask = probability_low(ability, se, threshold) >= settings.flag_probability
        return marked
    return ability <= threshold
