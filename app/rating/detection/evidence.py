"""The evidence on every annotator: how much better a behaviour explains the votes than honesty."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from app.rating.data.arrays import AnyInts, Floats, Indices, Mask
from app.rating.data.indexed import IndexedVotes
from app.rating.data.sums import sum_by
from app.rating.data.votes import Cells
from app.rating.detection.favouritism import find_favouritism
from app.rating.detection.null_model import BEHAVIOURS, LOG_ALWAYS, LOG_SLIP, NullModel, fit_null_model
from app.rating.settings import EVIDENCE_RATIO, EVIDENCE_TESTS, LoopSettings

ABOUT_MODELS = ("favour", "against", "mimic")


@dataclass(frozen=True)
class Evidence:
    """Likelihood ratios of each behaviour against "honest", arrays of shape (n_annotators,) by test.

    Attributes
    ----------
    log_ratio : natural log; −∞ for an annotator without a vote between scored models
    about : what the test found: index of the model (favour, against, mimic), or of the side (0 left, 1 right); −1 for
        none
    null_model : the behaviour of honest annotators
    """

    log_ratio: dict[str, Floats]
    about: dict[str, Indices]
    null_model: NullModel

    def flagged(self, tests: tuple[str, ...] | None = None, least: float = EVIDENCE_RATIO) -> Mask:
        """Mark annotators with a ratio of `least` or more in one of the tests (default all)."""
        chosen = self.log_ratio if tests is None else self._of(tests)
        marked: Mask = np.any([ratio >= np.log(least) for ratio in chosen.values()], axis=0)
        return marked

    def _of(self, tests: tuple[str, ...]) -> dict[str, Floats]:
        """Return the log ratios of these tests, apart from tests that were not made."""
        return {test: self.log_ratio[test] for test in tests if test in self.log_ratio}

    def strongest(self, tests: tuple[str, ...] | None = None) -> tuple[NDArray[np.str_], Floats]:
        """Return each annotator's strongest test, of these (default all), and its log ratio."""
        chosen = self.log_ratio if tests is None else self._of(tests)
        names = np.array(list(chosen))
        table = np.stack(list(chosen.values()))
        best = np.argmax(table, axis=0)
        return names[best], table[best, np.arange(table.shape[1])]


Weigher = Callable[[Floats, Mask], Evidence]
"""Weighs the evidence. Takes the scores in natural units of the typical annotator, shape (n_models,), NaN for models
without a score, and a mask of the annotators to test, shape (n_annotators,)."""


def weigher_of_votes(
    annotator: AnyInts, left: AnyInts, right: AnyInts, outcome: Floats, cells: Cells, tests: tuple[str, ...]
) -> Weigher:
    """Return a function that weighs the evidence in these votes with the sides on which models were shown.

    Parameters
    ----------
    annotator, left, right, outcome : the votes one by one, shape (n_votes,); outcome is W for the model on the left
    cells : the same votes, aggregated; cells do not keep the sides
    """

    def weigh_with_sides(R: Floats, whose: Mask) -> Evidence:
        scored = np.isfinite(R)
        left_won = scored[left] & scored[right] & whose[annotator] & (outcome == 1.0)
        left_wins = np.bincount(annotator[left_won], minlength=len(whose)).astype(np.float64)
        return weigh(cells.where(whose[cells.annotator]), R, left_wins=left_wins, tests=tests)

    return weigh_with_sides


def weigher_by_rule(votes: IndexedVotes, cells: Cells, settings: LoopSettings) -> Weigher | None:
    """Return what weighs the evidence with the sides; None where evidence is not the rule, and for votes with weights.

    Parameters
    ----------
    cells : the same votes, aggregated
    """
    if settings.flag_rule != "evidence" or settings.method != "am-elo" or votes.weight is not None:
        return None
    tests = settings.evidence_tests
    return weigher_of_votes(votes.annotator, votes.model_a, votes.model_b, votes.outcome, cells, tests)


def weigh(
    cells: Cells,
    R: Floats,
    *,
    left_wins: Floats | None = None,
    tests: tuple[str, ...] = EVIDENCE_TESTS,
) -> Evidence:
    """Compute how much likelier each behaviour makes an annotator's votes than honesty does.

    ratio_k = P(votes of k | behaviour) / ∫ P(votes of k | a, v) dG(a, v), G the distribution of ability and tie
    propensity of the honest annotators. Behaviours about a model are averaged over all models, so that testing many
    models does not raise the error rate.

    Parameters
    ----------
    cells : votes of the annotators to test; cells with a model without a score are left out
    R : natural units of the typical annotator, NaN for models without a score, shape (n_models,)
    left_wins : for "side": votes that the left model won, between scored models, shape (n_annotators,); None: no test
    tests : the tests to make, of `EVIDENCE_TESTS`

    Returns
    -------
    Evidence
        Without "side" where its data are not given.

    Notes
    -----
    A million votes by 20,000 annotators on 200 models take 1.3 s of one processor.

    A ratio is an e-value. If the distribution of honest annotators and the scores were known, the probability that an
    honest annotator ever reaches a ratio of L in a test, at any of arbitrarily many refits, would be at most 1/L
    (Ville's inequality); in any of m tests, at most m/L. docs/laboratory-attacks.md has the measured rates.

    References
    ----------
    Wang and Ramdas, JRSS B 2022; Howard et al., Annals of Statistics 2021 (time-uniform bounds).
    """
    scored = np.isfinite(R)[cells.model_a] & np.isfinite(R)[cells.model_b]
    cells = cells.where(scored)
    null_model = fit_null_model(cells, R)
    log = {test: null_model.ratio(test) for test in BEHAVIOURS[1:] if test in tests}
    about = {test: np.full(cells.n_annotators, -1, dtype=np.int64) for test in log}
    on_models = [test for test in ABOUT_MODELS if test in tests]
    if on_models:
        found = find_favouritism(cells, R, null_model)
    for test in on_models:
        by_model: Floats = getattr(found, test)
        log[test] = logsumexp(by_model, axis=1) - np.log(cells.n_models)
        about[test] = np.where(by_model.max(axis=1) > 0, by_model.argmax(axis=1), -1)
    if left_wins is not None and "side" in tests:
        sides = np.stack(_always_one_side(cells, null_model, left_wins))
        log["side"], about["side"] = logsumexp(sides, axis=0) - np.log(2.0), sides.argmax(axis=0)
    silent = cells.votes_by_annotator() == 0
    log = {test: np.where(silent, -np.inf, ratio) for test, ratio in log.items()}
    return Evidence(log, about, null_model)


def _always_one_side(cells: Cells, null_model: NullModel, left_wins: Floats) -> tuple[Floats, Floats]:
    """Compare "always the left answer" and "always the right answer" with "honest".

    Parameters
    ----------
    left_wins : votes of each annotator for the model shown on the left, between models with a score,
        shape (n_annotators,)

    Returns
    -------
    left, right : log-likelihood ratios, shape (n_annotators,)
    """
    decided = sum_by(cells.annotator, cells.wins_a + cells.wins_b, cells.n_annotators)
    ties = sum_by(cells.annotator, cells.ties, cells.n_annotators)
    right_wins = decided - left_wins
    honest = null_model.log_likelihood[:, 0]
    left = left_wins * LOG_ALWAYS + (ties + right_wins) * LOG_SLIP - honest
    right = right_wins * LOG_ALWAYS + (ties + left_wins) * LOG_SLIP - honest
    return left, right
