"""Who is flagged: the rules on abilities and evidence, and the rule of the settings, asked after every fit."""

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from app.rating.arrays import Floats, Mask
from app.rating.settings import BY_ABILITY, EVIDENCE_TESTS, TASTE_TESTS, LoopSettings
from app.rating.types.evidence import Evidence, Weigher
from app.rating.uncertainty.results import Estimate
from app.rating.votes.cells import Cells


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


def flag_by_ability(settings: LoopSettings, ability: Floats, was_low: Mask) -> Flags:
    """Flag abilities at or below ε; NaN is never flagged.

    An annotator who was flagged in the round before stays so until the ability is `release_margin` above ε.
    """
    low = ability <= settings.min_ability
    held = was_low & ~low & (ability <= settings.min_ability + settings.release_margin)
    return Flags(low | held, held)


def flag_by_habits(settings: LoopSettings, evidence: Evidence, was_low: Mask) -> Flags:
    """Flag where P(a ≤ ε) by the posterior is `min_probability` or more, and the scores are well supported.

    An annotator who was flagged in the round before stays so while that is true of ε plus `release_margin`.
    """
    epsilon, least = settings.min_ability, settings.min_probability
    low = evidence.supported & (evidence.probability_low(epsilon) >= least)
    margin = epsilon + settings.release_margin
    held = was_low & ~low & evidence.supported & (evidence.probability_low(margin) >= least)
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


class Judge:
    """The rule, with the evidence at the scores of the newest fit.

    Parameters
    ----------
    weigher : None where no evidence is weighed
    tested : annotators to weigh the evidence on, shape (n_annotators,)
    was_low : annotators flagged in the round before, shape (n_annotators,)
    was_acted : those of them flagged by a reason that may exclude, shape (n_annotators,)

    Attributes
    ----------
    evidence : tests by the last fit of all annotators, habits by the newest
    seconds : spent on weighing
    """

    def __init__(
        self, settings: LoopSettings, weigher: Weigher | None, tested: Mask, was_low: Mask, was_acted: Mask
    ) -> None:
        self.settings, self.weigher, self.tested = settings, weigher, tested
        self.was_low, self.was_acted = was_low, was_acted
        self.evidence: Evidence | None = None
        self.seconds = 0.0

    def weigh(self, found: Estimate, *, tested: bool = True) -> None:
        """Weigh the evidence by this fit; untested, only habits are estimated anew."""
        if self.weigher is None:
            return
        began, before = time.perf_counter(), self.evidence
        weighed = self.weigher(found.natural_scores(), self.tested, tested=tested)
        if before is not None and not tested:
            weighed = replace(before, habits=weighed.habits, judges=weighed.judges)
        self.evidence, self.seconds = weighed, self.seconds + time.perf_counter() - began

    @property
    def _by_evidence(self) -> Evidence | None:
        """The evidence where it is the rule."""
        return self.evidence if self.settings.flag_rule == "evidence" else None

    def trust(self, cells: Cells, spared: Mask) -> Floats | None:
        """Return the weight of each cell's votes by `Favouritism.trust`; None where the tests do not rule, or all 1."""
        evidence = self._by_evidence
        if evidence is None or evidence.favouritism is None:
            return None
        return evidence.favouritism.trust(cells, spared)

    @property
    def acting_tests(self) -> tuple[str, ...]:
        """The tests of the settings that may exclude."""
        return tuple(test for test in self.settings.evidence_tests if test not in TASTE_TESTS)

    def suspects(self) -> Flags:
        """Return the annotators flagged by a test that may exclude."""
        return self._tested(self.acting_tests, self.was_acted)

    def opinionated(self) -> Flags:
        """Return the annotators flagged by a test about a model, which never excludes."""
        return self._tested(tuple(test for test in self.settings.evidence_tests if test in TASTE_TESTS), self.was_low)

    def _tested(self, tests: tuple[str, ...], before: Mask) -> Flags:
        evidence, no_annotator = self._by_evidence, np.zeros(len(self.tested), dtype=bool)
        if evidence is None:
            return Flags(no_annotator, no_annotator)
        return flag_by_evidence(self.settings, evidence, before, tests)

    def reasons(self, suspects: Mask, unable: Mask, opinionated: Mask) -> NDArray[np.str_]:
        """Return why each annotator is flagged: the strongest test that may exclude, the ability, a test on a model."""
        reason = np.full(len(self.tested), "", dtype=f"<U{max(map(len, (BY_ABILITY, *EVIDENCE_TESTS)))}")
        if self.evidence is not None and opinionated.any():
            reason[opinionated] = self.evidence.strongest(TASTE_TESTS)[0][opinionated]
        reason[unable] = BY_ABILITY
        if self.evidence is not None and suspects.any():
            reason[suspects] = self.evidence.strongest(self.acting_tests)[0][suspects]
        return reason

    def unable(self, ability: Floats) -> Flags:
        """Return the annotators flagged by ability: by its posterior where evidence is the rule, else by this one."""
        evidence = self._by_evidence
        if evidence is None:
            return flag_by_ability(self.settings, ability, self.was_acted)
        return flag_by_habits(self.settings, evidence, self.was_acted)

    def abilities(self) -> tuple[Floats, Floats] | None:
        """Return mean and standard deviation of every ability's posterior; None where evidence is not the rule."""
        evidence = self._by_evidence
        return None if evidence is None else (evidence.habits.ability, evidence.habits.ability_se)

    def probability_low(self, ability: Floats, se: Floats) -> Floats:
        """Return P(a ≤ ε) of every annotator, as the rule sees it; NaN where no ability is known."""
        epsilon, evidence = self.settings.min_ability, self._by_evidence
        return probability_low(ability, se, epsilon) if evidence is None else evidence.probability_low(epsilon)
