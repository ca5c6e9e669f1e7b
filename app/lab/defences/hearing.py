"""One attacked arena heard by every rule: who would be found, who would be wronged."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from app.lab.attacks.arena import Votes
from app.lab.defences.discoveries import discover_by_evidence
from app.lab.defences.published import residual_test, sequential_test
from app.lab.simulate import NATURAL_PER_ELO
from app.rating.data.arrays import Floats, Indices, Mask
from app.rating.data.votes import Cells
from app.rating.detection.evidence import Evidence, weigh
from app.rating.loop.results import Rating
from app.rating.loop.round import run_round
from app.rating.settings import EVIDENCE_RATIO, EVIDENCE_TESTS, SERVICE_TESTS, LoopSettings

Rule = Callable[["Hearing"], Mask]
SURE = 0.95
RATE = 0.05


@dataclass(frozen=True)
class Hearing:
    """The votes, the board that the default makes of them, and what each rule says of each annotator.

    A rule is a property that marks annotators, shape (n_annotators,); what rules share is computed once.
    """

    votes: Votes
    settings: LoopSettings
    seed: int = 0

    @cached_property
    def cells(self) -> Cells:
        """Every vote."""
        return self.votes.cells()

    @cached_property
    def rating(self) -> Rating:
        """What the robust default makes of the votes, everybody in."""
        return run_round(self.cells, self.settings).rating

    @cached_property
    def R(self) -> Floats:  # noqa: N802  the mathematics' own name
        """Published scores in natural units, NaN where there is none."""
        return NATURAL_PER_ELO * (self.rating.models.score - self.settings.base)

    @cached_property
    def evidence(self) -> Evidence:
        """All votes weighed."""
        return _weigh(self.votes, self.R)

    @cached_property
    def late(self) -> Evidence:
        """The second half of everybody's votes weighed: for those who change."""
        turn = self.votes.turn()
        cast = np.bincount(self.votes.annotator, minlength=self.votes.n_annotators)
        return _weigh(self.votes.where(turn >= cast[self.votes.annotator] / 2.0), self.R)

    def threshold(self) -> Mask:
        """Ability at or below ε: the paper's rule."""
        return self.rating.annotators.ability <= self.settings.min_ability

    def probability(self) -> Mask:
        """Probability that the ability is at or below ε of 0.95 or more."""
        return self.rating.annotators.probability_low >= SURE

    def test(self, name: str, least: float = EVIDENCE_RATIO) -> Mask:
        """One test of the evidence."""
        return self.evidence.flagged((name,), least)

    def late_tests(self) -> Mask:
        """Any test, on the later half of the votes."""
        return self.late.flagged(least=2.0 * EVIDENCE_RATIO)

    def discoveries(self) -> Mask:
        """Favouritism with the false discovery rate held over annotators, by e-BH."""
        ratio = np.maximum(self.evidence.log_ratio["favour"], self.evidence.log_ratio["mimic"]) - np.log(2.0)
        return discover_by_evidence(ratio, RATE)

    def residuals(self) -> Mask:
        """Favouritism by residuals and Benjamini-Hochberg."""
        return residual_test(self.cells, np.nan_to_num(self.R), self.rating.annotators.ability, RATE)

    def residuals_dependent(self) -> Mask:
        """Favouritism by residuals and Benjamini-Yekutieli."""
        return residual_test(self.cells, np.nan_to_num(self.R), self.rating.annotators.ability, RATE, dependent=True)

    def sequential(self) -> Mask:
        """Chatbot Arena's test at α = 0.1."""
        return sequential_test(self.votes, 0.1, np.random.default_rng(self.seed))

    def any_test(self) -> Mask:
        """Any test of the evidence."""
        return self.evidence.flagged()

    def in_turn(self) -> Mask:
        """Any test of the evidence, then the threshold on the board of the others."""
        return self._then_threshold(self.any_test())

    def service(self) -> Mask:
        """Mark by the service's tests, then by the threshold on the board of the others."""
        return self._then_threshold(self.evidence.flagged(SERVICE_TESTS))

    def _then_threshold(self, guilty: Mask) -> Mask:
        rest = run_round(self.cells, self.settings, keep_never=guilty).rating
        return guilty | (rest.annotators.ability <= self.settings.min_ability)

    def in_turn_with_late(self) -> Mask:
        """Any test, then the threshold, and any test of the later half of the votes."""
        return self.in_turn() | self.late_tests()


def _weigh(votes: Votes, R: Floats) -> Evidence:
    cells = votes.cells()
    scored = np.isfinite(R)[votes.left] & np.isfinite(R)[votes.right]
    left_wins = np.bincount(votes.annotator, scored & (votes.outcome == 1.0), votes.n_annotators).astype(np.float64)
    return weigh(cells, R, left_wins=left_wins, when=first_moments(votes, cells))


def first_moments(votes: Votes, cells: Cells) -> Indices:
    """Moment of the first vote of each cell, shape (n_cells,)."""
    low, high = np.minimum(votes.left, votes.right), np.maximum(votes.left, votes.right)
    size = votes.n_models
    of_vote = (votes.annotator * size + low) * size + high
    of_cell = (cells.annotator.astype(np.int64) * size + cells.model_a) * size + cells.model_b
    first = np.full(len(of_cell), np.iinfo(np.int64).max)
    np.minimum.at(first, np.searchsorted(of_cell, of_vote), votes.moment)
    return first


def _test(name: str) -> Rule:
    return lambda hearing: hearing.test(name)


RULES: dict[str, Rule] = {
    "ε": Hearing.threshold,
    "P(a ≤ ε) ≥ .95": Hearing.probability,
    **{f"evidence: {test}": _test(test) for test in EVIDENCE_TESTS},
    "evidence: any": Hearing.any_test,
    "evidence: later half": Hearing.late_tests,
    "favouritism, e-BH": Hearing.discoveries,
    "residuals, BH": Hearing.residuals,
    "residuals, BY": Hearing.residuals_dependent,
    "Chatbot Arena, α .1": Hearing.sequential,
    "evidence, then ε": Hearing.in_turn,
    "the service's": Hearing.service,
    "the same, and later half": Hearing.in_turn_with_late,
}
"""Rule → whom it marks. Every rule can be switched on by itself."""
