"""What speaks against each annotator: the posterior odds of the types against honesty."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import Floats, Indices, Mask, sum_by
from app.rating.settings import EVEN_ODDS, EVIDENCE_RATIO, EVIDENCE_TESTS, TASTE_TESTS
from app.rating.threads import one_blas_thread
from app.rating.types.favouritism import Favouritism, find_favouritism
from app.rating.types.habits import Habits, Typing
from app.rating.types.law import COIN, CONTRARY, EQUAL, FOLLOWER, LEFT, RIGHT, TypeLaw
from app.rating.votes.features import SidedCells

FEW_JUDGES = 20.0  # effective number of judges of an annotator's models from which their scores are not in doubt

MOST_TIES = 0.7  # share of a crowd's votes
FEWEST_VOTES = 10.0  # of an annotator, below which no type is decided: the crowd's shares of types would decide alone


@dataclass(frozen=True)
class Evidence:
    """What speaks against each annotator, arrays of shape (n_annotators,) by test.

    Attributes
    ----------
    log_ratio : natural log of `EVEN_ODDS` times posterior odds: of favour and against those against honesty; of the
        likeliest type those that the annotator is not honest, of other types those against anything else, so that one
        type at most is likelier than not. −∞ for an annotator who was not tested, or has no vote between scored models
    about : what the test found: index of the model (favour, against), or of the side (0 left, 1 right); −1 for none
    law : of the crowd
    habits : every annotator's ability, readiness to tie and lean to a side
    judges : effective number of judges behind the scores of each annotator's models, NaN where the ratios are −∞
    favouritism : who pushes or buries which model; None where that was not asked
    explained : by test, share of each annotator's votes that are as the behaviour has them: decided ones (coin), ties
        (equal), those for the higher score (follower), for the model or against it, for the side; NaN without a vote
    """

    log_ratio: dict[str, Floats]
    about: dict[str, Indices]
    law: TypeLaw
    habits: Habits
    judges: Floats
    favouritism: Favouritism | None
    explained: dict[str, Floats]

    def probability_low(self, threshold: float) -> Floats:
        """Return P(ability ≤ threshold) by the full posterior; NaN for annotators without a vote."""
        return self.habits.probability_low(threshold)

    @property
    def supported(self) -> Mask:
        """The annotators whose models have so many judges that their scores are beyond doubt."""
        return np.nan_to_num(self.judges) >= FEW_JUDGES

    def flagged(self, tests: tuple[str, ...] | None = None, least: float = EVIDENCE_RATIO) -> Mask:
        """Mark annotators with a ratio of `least` or more in one of the tests (default all)."""
        marked: Mask = self.strongest(tests)[1] >= np.log(least)
        return marked

    def strongest(self, tests: tuple[str, ...] | None = None) -> tuple[NDArray[np.str_], Floats]:
        """Return each annotator's strongest test, of these (default all), and its log ratio; "" and −∞ without any."""
        made = [test for test in self.log_ratio if tests is None or test in tests]
        nothing = np.full((1, len(self.judges)), -np.inf)
        table = np.concatenate([nothing, *(self.log_ratio[test][None] for test in made)])
        best = np.argmax(table, axis=0)
        return np.array(["", *made])[best], table[best, np.arange(table.shape[1])]


@dataclass(frozen=True)
class Weigher:
    """Weighs the evidence in votes.

    Attributes
    ----------
    sided : the votes
    tests : to make
    """

    sided: SidedCells
    tests: tuple[str, ...] = EVIDENCE_TESTS

    def __call__(self, R: Floats, crowd: Mask, *, tested: bool = True) -> Evidence:
        """Return the evidence at scores R, natural units; `tested`: False makes no test. `crowd` as for `weigh`."""
        return weigh(self.sided, R, crowd, tests=self.tests if tested else ())


@one_blas_thread()
def weigh(
    sided: SidedCells, R: Floats, crowd: Mask | None = None, *, tests: tuple[str, ...] = EVIDENCE_TESTS
) -> Evidence:
    """Compute the posterior odds of each type of annotator, by the votes and the crowd's law.

    Honest: the ability follows the crowd's law around its mean, the lean to a side and the readiness to tie the
    crowd's. Coin: no ability; contrary: a negative one; side: always the same side but for a slip in twenty. These are
    found by decided votes alone. Follower: steeper than any person, hardly a tie. Equal: ties far beyond the crowd's.
    Favour, against: always for, or against, one model but for slips, honest about the others. Where annotators have
    tastes, own opinions of models, log-likelihoods are divided by the factor that these put on the ability's variance.

    Parameters
    ----------
    sided : the votes; cells with a model without a score are left out
    R : natural units, NaN for models without a score, shape (n_models,)
    crowd : annotators to test, by whose law all are judged, shape (n_annotators,); others only have an ability
    tests : the tests to make, of `EVIDENCE_TESTS`; none: only habits. A test's odds do not depend on the others asked

    Returns
    -------
    Evidence
        Without "side" where sides are not known.
    """
    scored = np.isfinite(R)[sided.cells.model_a] & np.isfinite(R)[sided.cells.model_b]
    sided = sided.where(scored)
    cells, typing = sided.cells, Typing(sided, np.nan_to_num(R), crowd)
    habits, judges = typing.habits(), typing.count_judges()
    if not tests:
        return Evidence({}, {}, typing.law, habits, judges, None, {})
    favouritism = find_favouritism(typing)
    odds = np.where(typing.crowd[:, None], typing.posterior.log_odds, -np.inf)
    if typing.tie_share > MOST_TIES:
        odds[:, EQUAL] = -np.inf  # where a crowd nearly always ties, an annotator who always does is one of it
    none, size = np.full(cells.n_annotators, -1, dtype=np.int64), cells.n_annotators
    found = {
        "coin": (np.logaddexp(odds[:, COIN], odds[:, CONTRARY]), none),
        "equal": (odds[:, EQUAL], none),
        "follower": (odds[:, FOLLOWER], none),
        **{test: favouritism.strongest(kind, size) for kind, test in enumerate(TASTE_TESTS)},
    }
    if typing.sides:
        sides = odds[:, [LEFT, RIGHT]]
        found["side"] = np.logaddexp(*sides.T), sides.argmax(axis=1)
    against = np.stack([log for log, _ in found.values()])
    on_model = np.isin(list(found), TASTE_TESTS)[:, None]
    ratio = np.where(on_model, against, _diagnose(against)) + np.log(EVEN_ODDS)
    ratio[:, ~typing.crowd] = -np.inf
    few = np.array([name not in TASTE_TESTS for name in found])[:, None] & (cells.votes_by_annotator() < FEWEST_VOTES)
    ratio[few] = -np.inf
    log = {test: one for test, one in zip(found, ratio, strict=True) if test in tests}
    about, pushers = {test: found[test][1] for test in log}, favouritism if set(tests) & set(TASTE_TESTS) else None
    return Evidence(log, about, typing.law, habits, judges, pushers, _explain(typing, about))


def _explain(typing: Typing, about: dict[str, Indices]) -> dict[str, Floats]:
    """Return by test which share of each annotator's votes it explains; `about` as in the evidence."""
    cells, k, decided, won = typing.cells, typing.cells.annotator, typing.decided, typing.won
    left = np.where(typing.side > 0.0, won, decided - won)
    votes = cells.votes_by_annotator()

    def for_model(models: Indices, first: Floats) -> Floats:
        second = decided - first
        return np.where(cells.model_a == models[k], first, np.where(cells.model_b == models[k], second, 0.0))

    explained: dict[str, Callable[[Indices], Floats]] = {
        "coin": lambda _: decided,
        "equal": lambda _: cells.ties,
        "follower": lambda _: np.where(typing.d > 0.0, won, np.where(typing.d < 0.0, decided - won, 0.0)),
        "favour": lambda models: for_model(models, won),
        "against": lambda models: for_model(models, decided - won),
        "side": lambda sides: np.where(sides[k] == 0, left, decided - left),
    }
    with np.errstate(invalid="ignore"):
        return {test: sum_by(k, explained[test](of), len(votes)) / votes for test, of in about.items()}


def _diagnose(log_odds: Floats) -> Floats:
    """Return log odds of types, given those against honesty, shape (n_types, n_annotators).

    Types exclude each other. The likeliest has the odds that the annotator is not honest, others those of themselves:
    where a model that is pushed explains the votes best, nothing else has to.
    """
    top = np.maximum(log_odds.max(axis=0), 0.0)
    share = np.exp(log_odds - top)
    rest = np.exp(-top) + share.sum(axis=0) - share
    with np.errstate(divide="ignore"):
        alone: Floats = np.log(share) - np.log(np.maximum(rest, 1e-300))
        likeliest = log_odds.argmax(axis=0), np.arange(log_odds.shape[1])
        alone[likeliest] = np.log(share.sum(axis=0)) + top
    return alone
