"""The evidence on every annotator: how much better a behaviour explains the votes than honesty."""

from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from app.rating.arrays import AnyInts, Floats, Indices, Mask, log_sum_exp, sum_by
from app.rating.detection.favouritism import Favouritism, find_favouritism
from app.rating.detection.habits import Habits, estimate_habits
from app.rating.detection.null_model import ABILITY, LOG_ALWAYS, LOG_SLIP, NullModel, fit_null_model
from app.rating.detection.opinions import explain_by_opinions
from app.rating.detection.score_errors import FEW_JUDGES, count_judges, doubt_scores
from app.rating.settings import EVIDENCE_RATIO, EVIDENCE_TESTS, TASTE_TESTS, LoopSettings
from app.rating.votes.indexed import IndexedVotes
from app.rating.votes.sided_cells import SidedCells


@dataclass(frozen=True)
class Evidence:
    """What speaks against each annotator, arrays of shape (n_annotators,) by test.

    Attributes
    ----------
    log_ratio : natural log of the likelihood ratio of a behaviour against "honest"; of coin, favour and against
        `EVEN_ODDS` times the odds, which count how many such annotators the crowd has. −∞ for an annotator without a
        vote between scored models
    about : what the test found: index of the model (favour, against), or of the side (0 left, 1 right); −1 for none
    null_model : the behaviour of honest annotators; None where no test was made
    habits : every annotator's ability, readiness to tie and lean to a side
    judges : effective number of judges behind the scores of each annotator's models, NaN without a vote
    favouritism : who pushes or buries which model; None where that was not tested
    """

    log_ratio: dict[str, Floats]
    about: dict[str, Indices]
    null_model: NullModel | None
    habits: Habits
    judges: Floats
    favouritism: Favouritism | None

    def probability_low(self, threshold: float) -> Floats:
        """Return P(adjusted ability ≤ threshold), that of the interval; NaN for annotators without a vote."""
        with np.errstate(invalid="ignore", divide="ignore"):
            low: Floats = ndtr((threshold - self.habits.ability) / self.habits.ability_se)
        return low

    @property
    def supported(self) -> Mask:
        """The annotators whose models have so many judges that their scores are beyond doubt."""
        return np.nan_to_num(self.judges) >= FEW_JUDGES

    def flagged(self, tests: tuple[str, ...] | None = None, least: float = EVIDENCE_RATIO) -> Mask:
        """Mark annotators with a ratio of `least` or more in one of the tests (default all)."""
        chosen = self.log_ratio if tests is None else self._of(tests)
        marked = np.zeros(len(self.habits.ability), dtype=bool)
        for ratio in chosen.values():
            marked |= ratio >= np.log(least)
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


class Weigher(Protocol):
    """Weighs the evidence in votes that it knows."""

    def __call__(self, R: Floats, whose: Mask, *, tested: bool = True) -> Evidence:
        """Return the evidence.

        Parameters
        ----------
        R : natural units of the typical annotator, NaN for models without a score, shape (n_models,)
        whose : the annotators to judge, shape (n_annotators,)
        tested : False estimates habits alone, and makes no test
        """
        ...


def weigher_of_votes(
    annotator: AnyInts,
    left: AnyInts,
    right: AnyInts,
    outcome: Floats,
    *,
    n_annotators: int,
    n_models: int,
    weight: Floats | None = None,
    tests: tuple[str, ...] = EVIDENCE_TESTS,
) -> Weigher:
    """Return a function that weighs the evidence in these votes with the sides on which models were shown.

    Parameters
    ----------
    annotator, left, right, outcome : the votes one by one, shape (n_votes,); outcome is W for the model on the left
    weight : how many votes a row stands for, shape (n_votes,); default one
    """

    @cache
    def collapse() -> SidedCells:  # when first asked: a fit may fail before
        sizes = {"n_annotators": n_annotators, "n_models": n_models}
        return SidedCells.of_votes(annotator, left, right, outcome, weight=weight, **sizes)

    def weigh_with_sides(R: Floats, whose: Mask, *, tested: bool = True) -> Evidence:
        sided = collapse()
        return weigh(sided.where(whose[sided.cells.annotator]), R, tests=tests if tested else ())

    return weigh_with_sides


def weigher_by_rule(votes: IndexedVotes, settings: LoopSettings) -> Weigher | None:
    """Return what weighs the evidence with the sides; None where evidence is not the rule."""
    if settings.flag_rule != "evidence" or settings.method != "am-elo":
        return None
    return weigher_of_votes(
        votes.annotator, votes.model_a, votes.model_b, votes.outcome,
        n_annotators=len(votes.annotators), n_models=len(votes.models), weight=votes.weight,
        tests=settings.evidence_tests,
    )  # fmt: skip


def weigh(sided: SidedCells, R: Floats, *, tests: tuple[str, ...] = EVIDENCE_TESTS) -> Evidence:
    """Compute how much likelier each behaviour makes an annotator's votes than honesty does.

    ratio_k = P(votes of k | behaviour) / ∫ P(votes of k | a, v) dG(a, v), G the distribution of ability and tie
    propensity of the honest annotators. An annotator's lean to a side is part of honesty. Where annotators have tastes,
    the logarithm of a ratio is divided by the factor that these put on the variance of the ability; the test "coin"
    integrates opinions out instead. Of coin, favour and against the ratio is `EVEN_ODDS` times the odds in this crowd.

    Parameters
    ----------
    sided : votes of the annotators to test; cells with a model without a score are left out
    R : natural units of the typical annotator, NaN for models without a score, shape (n_models,)
    tests : the tests to make, of `EVIDENCE_TESTS`; none: only habits

    Returns
    -------
    Evidence
        Without "side" where sides are not known.

    Notes
    -----
    A million votes by 10,000 annotators on 200 models take about 1 s of processor time, 2.5 s in a crowd with tastes.

    The ratios of equal, follower and side are e-values: if the distribution of honest annotators and the scores were
    known, the probability that an honest annotator ever reaches L in a test, at any of arbitrarily many refits, would
    be at most 1/L (Ville's inequality). docs/laboratory-attacks.md has the measured rates of all.

    References
    ----------
    Wang and Ramdas, JRSS B 2022; Howard et al., Annals of Statistics 2021 (time-uniform bounds).
    """
    scored = np.isfinite(R)[sided.cells.model_a] & np.isfinite(R)[sided.cells.model_b]
    sided = sided.where(scored)
    cells = sided.cells
    habits, judges = estimate_habits(sided, R), count_judges(cells)
    if not tests:
        return Evidence({}, {}, None, habits, judges, None)
    lean = np.nan_to_num(habits.lean)[cells.annotator] * sided.side
    doubt = doubt_scores(cells, R, lean, habits, ABILITY, judges)
    null_model = fit_null_model(cells, R, lean=lean, caution=habits.caution, doubt=doubt, ties=habits.ties)
    unlike_followers = np.flatnonzero(null_model.ratio("follower") < 0.0)
    opinions = explain_by_opinions(cells, R, lean, habits, unlike_followers) if "coin" in tests else None
    of_coins = null_model
    if opinions is not None:
        of_coins = fit_null_model(cells, R, lean=lean, opinions=opinions, doubt=doubt, ties=habits.ties)
    none = np.full(cells.n_annotators, -1, dtype=np.int64)
    found = {"coin": (of_coins.coin_ratio(), none)} if "coin" in tests else {}
    found |= {test: (null_model.ratio(test), none) for test in ("equal", "follower") if test in tests}
    favouritism = None
    if on_models := [test for test in TASTE_TESTS if test in tests]:
        favouritism = find_favouritism(cells, R, null_model, lean, habits.caution)
        found |= {test: favouritism.strongest(TASTE_TESTS.index(test), cells.n_annotators) for test in on_models}
    if sided.known and "side" in tests:
        sides = np.stack(_always_one_side(sided, null_model, habits))
        found["side"] = log_sum_exp(sides.T) - np.log(2.0), sides.argmax(axis=0)
    silent = cells.votes_by_annotator() == 0
    log = {test: np.where(silent, -np.inf, ratio) for test, (ratio, _) in found.items()}
    return Evidence(log, {test: about for test, (_, about) in found.items()}, null_model, habits, judges, favouritism)


def _always_one_side(sided: SidedCells, null_model: NullModel, habits: Habits) -> tuple[Floats, Floats]:
    """Compare "always the left answer" and "always the right answer" with "honest", a lean included.

    Returns
    -------
    left, right : log-likelihood ratios, shape (n_annotators,)
    """
    cells, left_wins = sided.cells, sided.left_wins()
    decided = sum_by(cells.annotator, cells.wins_a + cells.wins_b, cells.n_annotators)
    ties = sum_by(cells.annotator, cells.ties, cells.n_annotators)
    right_wins = decided - left_wins
    honest = null_model.log_likelihood[:, 0] + habits.log_lean / habits.caution
    left = (left_wins * LOG_ALWAYS + (ties + right_wins) * LOG_SLIP) / habits.caution - honest
    right = (right_wins * LOG_ALWAYS + (ties + left_wins) * LOG_SLIP) / habits.caution - honest
    return left, right
