"""Small arenas that together reach every branch of the compiled kernels, and the numbers that come out.

As a program it writes the numbers to a file, so that a test can compare two processes:
`python -m tests.rating.kernels.small_arenas numbers.npz`.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

from app.rating.arrays import Floats
from app.rating.errors import VotesError
from app.rating.model import copies as copying
from app.rating.model.copies import Answers, find_copies
from app.rating.model.covariance import find_covariance
from app.rating.model.scores import fit_scores
from app.rating.plain.elo import fit_elo
from app.rating.settings import LoopSettings, VerdictRule
from app.rating.types.evidence import weigh
from app.rating.uncertainty.influence import find_influence, leave_annotators_out
from app.rating.verdict.categories import pool_categories
from app.rating.verdict.confidence import measure_confidence
from app.rating.verdict.fragility import find_fragility
from app.rating.verdict.rating import estimate
from app.rating.verdict.round import run_round
from app.rating.verdict.style import control_style
from app.rating.votes.cells import aggregate
from app.rating.votes.features import SidedCells
from app.rating.votes.graph import find_components, find_identified
from tests.rating.kernels.votes import Votes, ranking
from tests.rating.model.crowds import draw
from tests.rating.model.styled_world import draw_styled

SETTINGS = LoopSettings(min_votes=0)
NEAR = 1e-3  # length of the last step of a search
Numbers = list[object]
CASES: dict[str, Callable[[], Numbers]] = {}


def case(numbers: Callable[[], Numbers]) -> Callable[[], Numbers]:
    """Let the test compare the numbers that this function returns."""
    CASES[numbers.__name__] = numbers
    return numbers


@case
def aggregated() -> Numbers:
    """Votes with and without weights, from either side, and malformed ones."""
    votes, found = Votes(5, 4, 12), []
    for weight in (None, votes.weight):
        cells = votes.cells(weighted=weight is not None)
        found += [cells.annotator, cells.model_a, cells.model_b, cells.n, cells.s, cells.ties]
    for a, b, W in ((0, 4, 1.0), (2, 2, 1.0), (0, 1, 0.7), (0, 1, 1.5)):
        try:
            aggregate([0], [a], [b], [W], n_annotators=1, n_models=4)
        except VotesError as error:
            found.append(len(str(error)))
    return found


@case
def signs() -> Numbers:
    """Annotators with abilities above, below and at 0 decide together which models have a score."""
    cells = Votes(3, 6, 9, seed=2).cells()
    return [find_identified(cells, find_components(cells), np.array(sign)) for sign in ((1, -1, 0), (0, 0, 1))]


@case
def copies() -> Numbers:
    """Annotators of whom two are copies, each compared with each, and by signatures."""
    votes = Votes(12, 8, 90)
    columns = (votes.annotator, votes.a, votes.b, votes.W)
    k, a, b, W = (np.append(x, x[votes.annotator == 0]) for x in columns)
    k[len(votes.W) :] = 12
    answers = Answers.of(aggregate(k, a, b, W, n_annotators=13, n_models=8), ranking(8))
    with patch.object(copying, "ALL_PAIRS", 0):
        by_signatures = find_copies(answers).cluster
    return [find_copies(answers).cluster, by_signatures]


@case
def elo() -> Numbers:
    """Elo over orders."""
    votes = Votes(5, 4, 12)
    found = fit_elo(votes.a, votes.b, votes.W, n_models=4, shuffles=3)
    return [found.score, found.sd, found.recorded]


@case
def bradley_terry() -> Numbers:
    """m-ELO of a sparse crowd, and its intervals."""
    models = run_round(Votes(40, 12, 6).cells(), replace(SETTINGS, method="m-elo")).models
    return [models.score, models.se, models.rank_set_best]


@case
def am_elo() -> Numbers:
    """A round of am-ELO with opposed annotators and everything that a refit makes of it."""
    cells = Votes(24, 7, 25, opposed=5).cells()
    rating = run_round(cells, SETTINGS)
    pooled = pool_categories(rating, [cells.where(cells.model_a < 3), cells.where(cells.model_a >= 3)])
    influence = find_influence(rating)
    fragility = find_fragility(rating, influence)
    confidence = measure_confidence(rating, VerdictRule())
    assert confidence is not None
    return [
        rating.models.score, rating.models.se, rating.annotators.ability, rating.annotators.se,
        pooled.rating(0).natural_scores(), leave_annotators_out(influence), influence.of_votes(np.arange(7.0)),
        fragility.swap.dropped, fragility.swap.flipped, fragility.best.added, confidence.forecasts,
    ]  # fmt: skip


@case
def am_elo_of_coins() -> Numbers:
    """So many even votes, each a cell of its own, that the product of their factors passes the largest number."""
    fit = estimate(Votes(40, 30, 40, follows=0.53).cells(), replace(SETTINGS, interval="none")).fit
    return [fit.R, fit.theta]


@case
def estimated_prior() -> Numbers:
    """The spread of the prior, from the votes."""
    fit = estimate(Votes(12, 5, 20).cells(), replace(SETTINGS, prior_sd="estimated", interval="none")).fit
    return [fit.R, fit.theta]


def evidence_of(sided: SidedCells, R: Floats) -> Numbers:
    """Weigh the evidence; return all ratios."""
    found = weigh(sided, R)
    return [
        *found.log_ratio.values(),
        found.habits.ability,
        found.habits.lean,
        found.probability_low(0.2),
        found.judges,
    ]


@case
def evidence() -> Numbers:
    """Annotators who contradict the scores."""
    return evidence_of(Votes(12, 5, 60, opposed=4).sided(), ranking(5))


@case
def evidence_of_long_records() -> Numbers:
    """Cells of many votes, some of a fan."""
    return evidence_of(Votes(4, 4, 900, fans=1).sided(), ranking(4))


@case
def evidence_of_many_pairs() -> Numbers:
    """Cells of few votes, whose products are larger than any number."""
    return evidence_of(Votes(2, 60, 1200).sided(), ranking(60, 0.01))


@case
def evidence_of_a_fan() -> Numbers:
    """Cells of few votes on one model, whose products are larger than any number."""
    return evidence_of(Votes(4, 40, 160, fans=1).sided(), ranking(40, 0.05))


@case
def evidence_without_ties() -> Numbers:
    """Of a crowd that calls no tie, and whose sides are not known."""
    votes = Votes(6, 4, 20)
    votes.W = np.round(votes.W + 0.1)
    return evidence_of(SidedCells.unknown(votes.cells()), ranking(4))


def of_tastes(*, ties: bool) -> Votes:
    """Annotators who each like one model best; the last two always follow the ranking, or turn it over."""
    votes = Votes(12, 5, 80)
    k = votes.annotator
    liked, odd = k % 5, k >= 10
    likes = np.where(votes.a == liked, 1.0, np.where(votes.b == liked, 0.0, votes.W))
    votes.W = np.where(odd, (votes.a < votes.b) == (k == 10), likes).astype(float)
    if not ties:
        votes.W = np.round(votes.W + 0.1)
    return votes


@case
def evidence_of_tastes() -> Numbers:
    """Annotators with opinions of their own, with and without ties."""
    numbers = [evidence_of(of_tastes(ties=ties).sided(), ranking(5)) for ties in (True, False)]
    return [number for each in numbers for number in each]


@case
def styled() -> Numbers:
    """Votes with features; of many votes that agree, the first steps of each annotator's own search are too long."""
    world, found = draw_styled(12, 60, n_models=5), list[object]()
    result = control_style(run_round(world.votes.aggregate(), SETTINGS), world.votes, world.features)
    found += [result.rating.models.score, result.rating.models.se, result.style.gamma_se, result.style.lean_se]
    return found


@case
def marginal() -> Numbers:
    """Few and many annotators, one without votes, one that follows the ranking, cells of one vote and of several."""
    found: Numbers = []
    for annotators, votes_each in ((6, 40), (25, 14)):
        cells = draw(annotators, votes_each, models=5, coins=1).cells
        follower = cells.annotator == annotators - 1
        cells = replace(cells, s=np.where(follower, 0.0, cells.s), n_annotators=annotators + 1)
        fit = fit_scores(cells)
        found += [fit.R, fit.ability, fit.types, find_covariance(fit).scores]
    return found


def flatten(numbers: Numbers) -> Floats:
    """Return all numbers of a case in one array."""
    return np.concatenate([np.asarray(x, dtype=np.float64).ravel() for x in numbers])


if __name__ == "__main__":
    with Path(sys.argv[1]).open("wb") as file:
        np.savez(file, **{name: flatten(numbers()) for name, numbers in CASES.items()})
