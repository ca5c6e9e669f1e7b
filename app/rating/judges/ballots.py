"""Votes that keep the side of each model and their battle, and how often annotators agree in them."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from app.rating.arrays import AnyInts, Floats, Indices, Mask, sum_by
from app.rating.votes.cells import Cells
from app.rating.votes.columns import TIE as TIED
from app.rating.votes.features import SidedCells, single_cells
from app.rating.votes.indexed import IndexedVotes
from app.rating.votes.measures import Features
from app.rating.votes.prompts import PromptCells


@dataclass(frozen=True)
class Ballots:
    """Votes, and the battle of each: the same answers of two models.

    Attributes
    ----------
    votes : model_a was shown on the left; a soft verdict has the probability of its win as W, in [0, 1]
    battle : shape (n_votes,); votes of one battle are on the same pair, in either order of sides
    style : what the answers of each vote differ in, NaN where that is not known
    """

    votes: IndexedVotes
    battle: Indices
    style: Features | None = None

    @classmethod
    def of(cls, votes: IndexedVotes, name: Indices | None) -> "Ballots":
        """Return ballots; votes with the same name and pair are of one battle.

        Parameters
        ----------
        name : of each vote's question or battle, negative where it has none, shape (n_votes,)
        """
        alone = np.arange(len(votes.annotator), dtype=np.int64)
        if name is None or not (name >= 0).any():
            return cls(votes, alone)
        key = np.column_stack([np.where(name >= 0, name, -1 - alone), cls(votes, alone).pair])
        battle = np.unique(key, axis=0, return_inverse=True)[1].ravel()
        return cls(votes, battle.astype(np.int64))

    def where(self, keep: Mask) -> "Ballots":
        """Return the votes for which `keep`, shape (n_votes,), is true; names and battles keep their numbers."""
        style = self.style and replace(self.style, values=self.style.values[keep])
        return Ballots(self.votes.rows(keep), self.battle[keep], style)

    def between(self, models: Indices) -> "Ballots":
        """Return the votes on two of these models."""
        return self.where(np.isin(self.votes.model_a, models) & np.isin(self.votes.model_b, models))

    def of_annotators(self, who: Mask) -> "Ballots":
        """Return the votes of these annotators, `who` of shape (n_annotators,)."""
        return self.where(who[self.votes.annotator])

    @cached_property
    def pair(self) -> Indices:
        """Number of each vote's pair of models, whatever the sides, shape (n_votes,)."""
        low, high = (
            np.minimum(self.votes.model_a, self.votes.model_b),
            np.maximum(self.votes.model_a, self.votes.model_b),
        )
        pair: Indices = low.astype(np.int64) * len(self.votes.models) + high
        return pair

    @cached_property
    def ballot(self) -> Indices:
        """Number of the battle as its annotator saw it: copies with the sides exchanged share it, shape (n_votes,)."""
        key = self.votes.annotator.astype(np.int64) * (int(self.battle.max(initial=0)) + 1) + self.battle
        ballot: Indices = np.unique(key, return_inverse=True)[1].astype(np.int64)
        return ballot

    @cached_property
    def weight(self) -> Floats:
        """Weight of each vote: the votes of an annotator on one battle count as one together, shape (n_votes,)."""
        copies = np.bincount(self.ballot)
        weight: Floats = 1.0 / copies[self.ballot]
        return weight

    def differences(self) -> Floats:
        """Return what the answers of each vote differ in, first 1 for the side, then the style, 0 where not known."""
        side = np.ones((len(self.battle), 1))
        return side if self.style is None else np.hstack([side, np.nan_to_num(self.style.values)])

    def featured(self) -> Cells:
        """Return the votes as cells with their differences as features, one by one where there are more than sides."""
        v = replace(self.votes, weight=self.weight)
        if self.style is None:
            sided = SidedCells.of_indexed(_halved(v))
            return replace(sided.cells, features=sided.side[:, None])
        return single_cells(v, self.differences(), np.ones(len(v.outcome), dtype=bool))

    def cells(self) -> Cells:
        """Return the votes as cells, with their weights."""
        return _halved(replace(self.votes, weight=self.weight)).aggregate()

    def by_prompt(self) -> PromptCells | None:
        """Return the votes with a prompt as cells, apart by prompt, with their weights; None where none has one."""
        return _halved(replace(self.votes, weight=self.weight)).by_prompt()

    def left_share(self) -> Floats:
        """Return the share of each annotator's votes that the left model won, ties as half; NaN without a vote."""
        v, size = self.votes, len(self.votes.annotators)
        total = sum_by(v.annotator, self.weight, size)
        share: Floats = np.divide(
            sum_by(v.annotator, self.weight * v.outcome, size), total, out=np.full(size, np.nan), where=total > 0.0
        )
        return share


def _halved(votes: IndexedVotes) -> IndexedVotes:
    """Return the votes with two rows for each soft verdict: a win of either side, of its probability as weight."""
    soft = ~np.isin(votes.outcome, (0.0, TIED, 1.0))
    if votes.weight is None or not soft.any():
        return votes
    won, number, rest = votes.outcome, len(soft), np.flatnonzero(soft)
    twice = votes.rows(np.append(np.arange(number), rest))
    outcome, weight = np.append(np.where(soft, 1.0, won), np.zeros(len(rest))), np.where(soft, won, 1.0) * votes.weight
    return replace(twice, outcome=outcome, weight=np.append(weight, (1.0 - won[rest]) * votes.weight[rest]))


TIE = 1  # place of a tie among the outcomes of a pair: its second model, tie, its first model


class AgreementByVotes(NamedTuple):
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


def agree(ballots: Ballots, whose: Mask, where: Mask, *, by_battle: bool) -> AgreementByVotes:
    """Compare every annotator's votes with the mean of others' on the same battle, or on the same pair of models.

    Of a battle the annotator's own votes are left out, of a pair those on the same battle.

    Parameters
    ----------
    whose : annotators to compare with, shape (n_annotators,)
    where : votes to compare, shape (n_votes,)
    """
    v, size = ballots.votes, len(ballots.votes.annotators)
    said = _said(ballots)
    number = np.unique(ballots.battle if by_battle else ballots.pair, return_inverse=True)[1]
    others = whose[v.annotator]
    all_votes = np.zeros((int(number.max(initial=-1)) + 1, 3))
    counted = ballots.weight[others, None] * said[others]
    np.add.at(all_votes, number[others], counted)
    mine = ballots.ballot  # of one battle, and so of one pair
    own = np.zeros((int(mine.max(initial=-1)) + 1, 3))
    np.add.at(own, mine[others], counted)
    beside = np.maximum((all_votes[number] - own[mine])[where], 0.0)
    who, weight, said = v.annotator[where], ballots.weight[where], said[where]
    same = np.einsum("ij,ij->i", beside, said)
    share, compared = _mean(who, weight, same, beside.sum(axis=1), size)
    named = said[:, TIE] == 0.0
    decided, _ = _mean(who[named], weight[named], same[named], beside[named].sum(axis=1) - beside[named, TIE], size)
    return AgreementByVotes(share, decided, compared)


def agree_with_swapped(ballots: Ballots) -> tuple[Floats, Floats]:
    """Return the share of battles in which an annotator says the same with the sides exchanged, and their number.

    Every battle that an annotator saw both ways is one observation.

    Returns
    -------
    share, battles : shape (n_annotators,); the share is NaN without such a battle
    """
    v, number = ballots.votes, ballots.ballot
    said = np.zeros((int(number.max(initial=-1)) + 1, 2, 3))
    np.add.at(said, (number, (v.model_a < v.model_b).astype(int)), _said(ballots))
    ways = said.sum(axis=2)
    both = (ways > 0.0).all(axis=1)
    who = np.zeros(len(said), dtype=np.int64)
    who[number] = v.annotator
    same = (said[:, 0] * said[:, 1]).sum(axis=1)
    return _mean(who[both], np.ones(int(both.sum())), same[both], ways[both].prod(axis=1), len(v.annotators))


def _said(ballots: Ballots) -> Floats:
    """Return the probabilities that the pair's first model lost, tied and won, shape (n_votes, 3)."""
    v = ballots.votes
    won = np.where(v.model_a < v.model_b, v.outcome, 1.0 - v.outcome)
    tied = won == TIED
    said: Floats = np.stack([np.where(tied, 0.0, 1.0 - won), tied, np.where(tied, 0.0, won)], axis=1)
    return said


def _mean(who: AnyInts, weight: Floats, part: Floats, total: Floats, size: int) -> tuple[Floats, Floats]:
    """Return each annotator's mean of part/total over the rows that have a total, and the weight of those rows."""
    some = total > 1e-9  # noqa: PLR2004  rounding may leave as much of nothing
    rows = sum_by(who[some], weight[some], size)
    shares = sum_by(who[some], weight[some] * part[some] / total[some], size)
    return np.divide(shares, rows, out=np.full(size, np.nan), where=rows > 0.0), rows
