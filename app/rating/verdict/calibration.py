"""Whether votes come as predicted: how often the model that a voter should prefer wins, and what chance leaves open."""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, Ints
from app.rating.model.kernels import SLIP, STRICT
from app.rating.types.habits import Habits
from app.rating.uncertainty.freedom import NORMAL, critical_values
from app.rating.verdict.rating import Rating

BINS = 10  # of predictions from 50 to 100 %
FEWEST = 50.0  # votes of a bin; one with fewer joins the one below
CONFIDENCE = 0.95  # that chance leaves all points inside their bands
PUSHED = 0.5  # weight of a vote below which it is taken for a push, which no ability predicts
MOST, AT_ONCE = 100_000, 25_000  # cells that are looked at, of more an even selection; and how many at a time
TINY = 1e-300


class CalibrationBin(NamedTuple):
    """Votes with about the same prediction.

    Attributes
    ----------
    predicted, observed : mean probability that the voter's favourite wins, and how often it did
    lower, upper : band that holds `observed` if the predictions are right, for all bins together with 95 % probability
    votes : decided ones
    """

    predicted: float
    observed: float
    lower: float
    upper: float
    votes: float


def calibrate(rating: Rating) -> tuple[CalibrationBin, ...]:
    """Hold the decided votes that count against what the scores and the voters' abilities predict.

    A vote on models that are d apart is won with P = ∫ σ(θ_k d) over the posterior of the voter's ability and type *by
    the voter's other votes*: it is divided by the vote's own likelihood first, so that no vote predicts itself. Votes
    are counted from the side of the voter's favourite, P ≥ ½, and those that push a model are left out.

    Returns
    -------
    The bins with votes, the lowest prediction first; none without errors or abilities.

    Notes
    -----
    The band has the variance of n independent votes, Σ P(1 − P)/n², and that of the mean prediction by the errors of
    the scores. O(n_cells · nodes), of at most 100,000 cells.
    """
    spread, evidence = rating.covariance, rating.evidence
    if spread is None or evidence is None or rating.marginal is None:
        return ()
    cells, models, habits = rating.cells, rating.small.models, evidence.habits
    scored = rating.identified[cells.model_a] & rating.identified[cells.model_b]
    trusted = True if cells.trust is None else cells.trust >= PUSHED
    kept = np.flatnonzero(scored & (cells.n > cells.ties) & trusted)
    kept = kept[:: 1 + len(kept) // MOST]
    sums, slope = np.zeros((4, BINS)), np.zeros((BINS, len(models)))
    for start in range(0, len(kept), AT_ONCE):
        rows = kept[start : start + AT_ONCE]
        k, a, b = (
            cells.annotator[rows],
            *(np.searchsorted(models, side[rows]) for side in (cells.model_a, cells.model_b)),
        )
        won, steep, weight = _read_nodes(habits, k, rating.fit.R[a] - rating.fit.R[b])
        for first_wins, n in ((True, cells.wins_a[rows]), (False, cells.wins_b[rows])):
            others = weight / np.maximum(won if first_wins else 1.0 - won, TINY)
            others /= others.sum(axis=1, keepdims=True)
            p = (others * won).sum(axis=1)
            ahead = p >= 0.5  # noqa: PLR2004  even
            favourite = np.where(ahead, p, 1.0 - p)
            group = np.minimum((2 * BINS * (favourite - 0.5)).astype(np.int64), BINS - 1)
            figures = (n, n * favourite, n * (ahead == first_wins), n * p * (1.0 - p))
            sums += np.stack([np.bincount(group, each, BINS) for each in figures])
            moved = np.where(ahead, n, -n) * (others * steep).sum(axis=1)
            np.add.at(slope, (group, a), moved)
            np.add.at(slope, (group, b), -moved)
    return _conclude(*_join(sums, slope), spread.scores)


def _read_nodes(habits: Habits, annotator: Ints, d: Floats) -> tuple[Floats, Floats, Floats]:
    """Return P(first model wins) at each node of the voters' types, its slope by d, and the nodes' probabilities.

    The last two nodes are the types with ability 0, and a follower, whose prediction hardly depends on d.
    """
    x, ability = habits.typical * d, habits.typical * habits.theta[annotator]
    follows, even = (1.0 - SLIP) * expit(STRICT * x) + SLIP / 2.0, np.full(len(x), 0.5)
    won = expit(ability * d[:, None])
    rest = np.maximum(1.0 - habits.weight.sum(axis=1) - habits.without, 0.0)
    weight = np.column_stack([habits.weight, habits.without, rest])[annotator]
    steep = np.column_stack([ability * won * (1.0 - won), np.zeros((len(x), 2))])
    return np.column_stack([won, even, follows]), steep, weight


def _join(sums: Floats, slope: Floats) -> tuple[Floats, Floats]:
    """Join bins with few votes to the one below, the lowest to the one above."""
    for i in range(BINS - 1, 0, -1):
        if sums[0, i] < FEWEST or (i == 1 and 0.0 < sums[0, 0] < FEWEST):
            for table in (sums.T, slope):
                table[i - 1] += table[i]
                table[i] = 0.0
    some = sums[0] > 0.0
    return sums[:, some], slope[some]


def _conclude(sums: Floats, slope: Floats, covariance: Floats) -> tuple[CalibrationBin, ...]:
    votes, favoured, right, variance = sums
    if not len(votes):
        return ()
    slope = slope / votes[:, None]
    error = np.sqrt(variance / votes**2 + np.einsum("ij,jk,ik->i", slope, covariance, slope))
    level = 1.0 - (1.0 - CONFIDENCE) / len(votes)
    half = critical_values(np.full(len(votes), NORMAL), level) * error
    mean = favoured / votes
    ends = np.clip(mean - half, 0.0, 1.0), np.clip(mean + half, 0.0, 1.0)
    return tuple(CalibrationBin(*row) for row in np.column_stack([mean, right / votes, *ends, votes]).tolist())
