"""How often annotators agree on the same battles or pairs, and with themselves when sides are exchanged."""

from typing import NamedTuple

import numpy as np

from app.rating.arrays import AnyInts, Floats, Indices, Mask, sum_by
from app.rating.judges.ballots import Ballots

TIE = 1  # place of a tie among the outcomes of a pair: its second model, tie, its first model


class Agreement(NamedTuple):
    """Arrays of shape (n_annotators,).

    Attributes
    ----------
    share : of comparisons with the same outcome of three: either model, or a tie of any kind; NaN without one
    decided : share where both name a winner
    compared : votes that another one is compared with, copies of a battle counted once
    """

    share: Floats
    decided: Floats
    compared: Floats


def agree(ballots: Ballots, whose: Mask, where: Mask, *, by_battle: bool) -> Agreement:
    """Compare every annotator's votes with the mean of others' on the same battle, or on the same pair of models.

    Of a battle the annotator's own votes are left out, of a pair those on the same battle.

    Parameters
    ----------
    whose : annotators to compare with, shape (n_annotators,)
    where : votes to compare, shape (n_votes,)
    """
    v, size = ballots.votes, len(ballots.votes.annotators)
    outcome = _outcome(ballots)
    number = np.unique(ballots.battle if by_battle else ballots.pair, return_inverse=True)[1]
    others = whose[v.annotator]
    all_votes = np.zeros((int(number.max(initial=-1)) + 1, 3))
    np.add.at(all_votes, (number[others], outcome[others]), ballots.weight[others])
    mine = ballots.ballot  # of one battle, and so of one pair
    own = np.zeros((int(mine.max(initial=-1)) + 1, 3))
    np.add.at(own, (mine[others], outcome[others]), ballots.weight[others])
    beside = np.maximum((all_votes[number] - own[mine])[where], 0.0)
    who, weight, said = v.annotator[where], ballots.weight[where], outcome[where]
    same = beside[np.arange(len(said)), said]
    share, compared = _mean(who, weight, same, beside.sum(axis=1), size)
    named = said != TIE
    decided, _ = _mean(who[named], weight[named], same[named], beside[named].sum(axis=1) - beside[named, TIE], size)
    return Agreement(share, decided, compared)


def agree_with_swapped(ballots: Ballots) -> tuple[Floats, Floats]:
    """Return the share of battles in which an annotator says the same with the sides exchanged, and their number.

    Every battle that an annotator saw both ways is one observation.

    Returns
    -------
    share, battles : shape (n_annotators,); the share is NaN without such a battle
    """
    v, number = ballots.votes, ballots.ballot
    said = np.zeros((int(number.max(initial=-1)) + 1, 2, 3))
    np.add.at(said, (number, (v.model_a < v.model_b).astype(int), _outcome(ballots)), 1.0)
    ways = said.sum(axis=2)
    both = (ways > 0.0).all(axis=1)
    who = np.zeros(len(said), dtype=np.int64)
    who[number] = v.annotator
    same = (said[:, 0] * said[:, 1]).sum(axis=1)
    return _mean(who[both], np.ones(int(both.sum())), same[both], ways[both].prod(axis=1), len(v.annotators))


def _outcome(ballots: Ballots) -> Indices:
    """Return the outcome for the pair's first model, whatever the side: 0 lost, 1 tied, 2 won."""
    v = ballots.votes
    won = np.where(v.model_a < v.model_b, v.outcome, 1.0 - v.outcome)
    return np.rint(2.0 * won).astype(np.int64)


def _mean(who: AnyInts, weight: Floats, part: Floats, total: Floats, size: int) -> tuple[Floats, Floats]:
    """Return each annotator's mean of part/total over the rows that have a total, and the weight of those rows."""
    some = total > 1e-9  # noqa: PLR2004  rounding may leave as much of nothing
    rows = sum_by(who[some], weight[some], size)
    shares = sum_by(who[some], weight[some] * part[some] / total[some], size)
    return np.divide(shares, rows, out=np.full(size, np.nan), where=rows > 0.0), rows
