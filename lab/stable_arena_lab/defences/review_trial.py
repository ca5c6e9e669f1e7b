"""Applies every rule to one arena."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from app.rating.arrays import Floats, Mask
from app.rating.settings import EVIDENCE_RATIO, EVIDENCE_TESTS, LoopSettings
from app.rating.types.evidence import Evidence, Weigher, weigh
from app.rating.units import NATURAL_PER_ELO
from app.rating.verdict.rating import Rating
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells
from app.rating.votes.features import SidedCells
from stable_arena_lab.attacks.arena import Votes
from stable_arena_lab.defences.discoveries import discover_by_evidence
from stable_arena_lab.defences.published import residual_test, sequential_test

Rule = Callable[["ReviewTrial"], Mask]
SURE = 0.95
RATE = 0.05


@dataclass(frozen=True)
class ReviewTrial:
    """The votes, their rating by the default settings, and the annotators that each rule flags.

    A rule is a method that returns a mask of annotators, shape (n_annotators,); shared results are computed once.
    """

    votes: Votes
    settings: LoopSettings
    seed: int = 0

    @cached_property
    def cells(self) -> Cells:
        """All votes."""
        return self.votes.cells()

    @cached_property
    def rating(self) -> Rating:
        """The rating of all votes by penalised am-ELO."""
        return run_round(self.cells, self.settings)

    @cached_property
    def R(self) -> Floats:  # noqa: N802  the mathematics' own name
        """Published scores in natural units, NaN for models without one."""
        return NATURAL_PER_ELO * (self.rating.models.score - self.settings.base)

    @cached_property
    def evidence(self) -> Evidence:
        """The evidence in all votes."""
        return _weigh(self.votes, self.R)

    @cached_property
    def late(self) -> Evidence:
        """The evidence in the second half of each annotator's votes, for annotators who change."""
        turn = self.votes.turn()
        cast = np.bincount(self.votes.annotator, minlength=self.votes.n_annotators)
        return _weigh(self.votes.where(turn >= cast[self.votes.annotator] / 2.0), self.R)

    def threshold(self) -> Mask:
        """Flag abilities at or below ε: the paper's rule."""
        bare = run_round(self.cells, replace(self.settings, flag_rule="threshold"))
        return bare.annotators.ability <= self.settings.min_ability

    def probability(self) -> Mask:
        """Flag abilities that are at or below ε with probability 0.95 or more."""
        return self.rating.annotators.probability_low >= SURE

    def test(self, name: str, least: float = EVIDENCE_RATIO) -> Mask:
        """Flag by one test."""
        return self.evidence.flagged((name,), least)

    def late_tests(self) -> Mask:
        """Flag by any test on the second half of the votes."""
        return self.late.flagged(least=2.0 * EVIDENCE_RATIO)

    def discoveries(self) -> Mask:
        """Flag favouritism with a controlled false discovery rate over annotators (e-BH)."""
        ratio = self.evidence.log_ratio["favour"] - np.log(2.0)
        return discover_by_evidence(ratio, RATE)

    def residuals(self) -> Mask:
        """Flag favouritism by residuals and Benjamini-Hochberg."""
        return residual_test(self.cells, np.nan_to_num(self.R), self.rating.annotators.ability, RATE)

    def residuals_dependent(self) -> Mask:
        """Flag favouritism by residuals and Benjamini-Yekutieli."""
        return residual_test(self.cells, np.nan_to_num(self.R), self.rating.annotators.ability, RATE, dependent=True)

    def sequential(self) -> Mask:
        """Flag by Chatbot Arena's test at α = 0.1."""
        return sequential_test(self.votes, 0.1, np.random.default_rng(self.seed))

    def any_test(self) -> Mask:
        """Flag by any test."""
        return self.evidence.flagged()

    @cached_property
    def judged(self) -> Rating:
        """The rating with exclusions by the service's default rule."""
        votes = self.votes
        weigher = Weigher(SidedCells.of_votes(
            votes.annotator, votes.left, votes.right, votes.outcome,
            n_annotators=votes.n_annotators, n_models=votes.n_models,
        ))  # fmt: skip
        rule = LoopSettings(min_votes=self.settings.min_votes, exclude=True, interval="none")
        return run_round(self.cells, rule, weigher=weigher)

    def service(self) -> Mask:
        """Flag by the service's default rule, where it excludes."""
        return np.isin(self.judged.annotators.standing, ("flagged", "excluded"))

    def service_excludes(self) -> Mask:
        """Flag the annotators that the service's default rule may exclude: not those with a taste alone."""
        excluded: Mask = self.judged.annotators.standing == "excluded"
        return excluded

    def service_with_late(self) -> Mask:
        """Flag by the service's rule, and by any test on the second half of the votes."""
        return self.service() | self.late_tests()


def _weigh(votes: Votes, R: Floats) -> Evidence:
    sided = SidedCells.of_votes(
        votes.annotator, votes.left, votes.right, votes.outcome,
        n_annotators=votes.n_annotators, n_models=votes.n_models,
    )  # fmt: skip
    return weigh(sided, R)


def _test(name: str) -> Rule:
    return lambda review: review.test(name)


RULES: dict[str, Rule] = {
    "ε": ReviewTrial.threshold,
    "P(a ≤ ε) ≥ .95": ReviewTrial.probability,
    **{f"evidence: {test}": _test(test) for test in EVIDENCE_TESTS},
    "evidence: any": ReviewTrial.any_test,
    "evidence: later half": ReviewTrial.late_tests,
    "favouritism, e-BH": ReviewTrial.discoveries,
    "residuals, BH": ReviewTrial.residuals,
    "residuals, BY": ReviewTrial.residuals_dependent,
    "Chatbot Arena, α .1": ReviewTrial.sequential,
    "the service's": ReviewTrial.service,
    "the service excludes": ReviewTrial.service_excludes,
    "the same, and later half": ReviewTrial.service_with_late,
}
"""Rule → the method that flags annotators by it."""
