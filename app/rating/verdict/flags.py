"""Who is flagged: the rules on abilities and evidence, and the rule of the settings, asked after every fit."""

import time
from dataclasses import dataclass, replace
from typing import Self

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

    @classmethod
    def of(cls, low: Mask, loosely: Mask, was_low: Mask) -> Self:
        """Return the flags by a rule, and by what it takes to stay flagged."""
        held = was_low & ~low & loosely
        return cls(low | held, held)


class Flagger:
    """Asks the rules, with the evidence at the scores of the newest fit.

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

    def flagged_by_tests(self) -> Flags:
        """Return the annotators flagged by a test that may exclude."""
        return self._tested(self.acting_tests, self.was_acted)

    def flagged_about_models(self) -> Flags:
        """Return the annotators flagged by a test about a model, which never excludes."""
        return self._tested(tuple(test for test in self.settings.evidence_tests if test in TASTE_TESTS), self.was_low)

    def _tested(self, tests: tuple[str, ...], before: Mask) -> Flags:
        """Flag a ratio of `evidence_ratio` or more in these tests; if flagged before, of its square root."""
        evidence, ratio = self._by_evidence, self.settings.evidence_ratio
        if evidence is None:
            return Flags(*np.zeros((2, len(self.tested)), dtype=bool))
        return Flags.of(evidence.flagged(tests, ratio), evidence.flagged(tests, ratio**0.5), before)

    def reasons(self, by_tests: Mask, by_ability: Mask, about_models: Mask) -> NDArray[np.str_]:
        """Return why each annotator is flagged: the strongest test that may exclude, the ability, a test on a model."""
        reason = np.full(len(self.tested), "", dtype=f"<U{max(map(len, (BY_ABILITY, *EVIDENCE_TESTS)))}")
        if self.evidence is not None and about_models.any():
            reason[about_models] = self.evidence.strongest(TASTE_TESTS)[0][about_models]
        reason[by_ability] = BY_ABILITY
        if self.evidence is not None and by_tests.any():
            reason[by_tests] = self.evidence.strongest(self.acting_tests)[0][by_tests]
        return reason

    def flagged_by_ability(self, ability: Floats) -> Flags:
        """Flag abilities at or below ε; if flagged in the round before, up to `release_margin` above it.

        Where evidence is the rule, P(a ≤ ε) by its posterior has to be `min_probability` or more, and the scores well
        supported. NaN is never flagged.
        """
        evidence, settings = self._by_evidence, self.settings

        def is_low(epsilon: float) -> Mask:
            if evidence is None:
                return ability <= epsilon
            return evidence.supported & (evidence.probability_low(epsilon) >= settings.min_probability)

        epsilon = settings.min_ability
        return Flags.of(is_low(epsilon), is_low(epsilon + settings.release_margin), self.was_acted)

    def abilities(self) -> tuple[Floats, Floats] | None:
        """Return mean and standard deviation of every ability's posterior; None where evidence is not the rule."""
        evidence = self._by_evidence
        return None if evidence is None else (evidence.habits.ability, evidence.habits.ability_se)

    def probability_low(self, ability: Floats, se: Floats) -> Floats:
        """Return P(a ≤ ε) of every annotator, as the rule sees it, else normal; NaN where no ability is known."""
        epsilon, evidence = self.settings.min_ability, self._by_evidence
        if evidence is not None:
            return evidence.probability_low(epsilon)
        with np.errstate(invalid="ignore", divide="ignore"):
            probability: Floats = ndtr((epsilon - ability) / se)
        return probability
