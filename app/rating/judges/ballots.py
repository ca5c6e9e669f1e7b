"""Votes that keep the side of each model and the battle that each vote answers, as judges are compared by them."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from app.rating.arrays import Floats, Indices, Mask, sum_by
from app.rating.votes.cells import Cells
from app.rating.votes.features import single_cells
from app.rating.votes.indexed import IndexedVotes
from app.rating.votes.measures import Features
from app.rating.votes.sided_cells import SidedCells


@dataclass(frozen=True)
class Ballots:
    """Votes, and the battle of each: the same answers of two models.

    Attributes
    ----------
    votes : model_a was shown on the left
    battle : shape (n_votes,); votes of one battle are on the same pair, in either order of sides
    shared : whether the file names its battles; if not, every vote is a battle of its own
    style : what the answers of each vote differ in, NaN where that is not known
    """

    votes: IndexedVotes
    battle: Indices
    shared: bool
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
            return cls(votes, alone, shared=False)
        key = np.column_stack([np.where(name >= 0, name, -1 - alone), cls(votes, alone, shared=False).pair])
        battle = np.unique(key, axis=0, return_inverse=True)[1].ravel()
        return cls(votes, battle.astype(np.int64), shared=True)

    def where(self, keep: Mask) -> "Ballots":
        """Return the votes for which `keep`, shape (n_votes,), is true; names and battles keep their numbers."""
        style = self.style and replace(self.style, values=self.style.values[keep])
        return Ballots(self.votes.rows(keep), self.battle[keep], self.shared, style)

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
            sided = SidedCells.of_votes(
                v.annotator, v.model_a, v.model_b, v.outcome,
                n_annotators=len(v.annotators), n_models=len(v.models), weight=v.weight,
            )  # fmt: skip
            return replace(sided.cells, features=sided.side[:, None])
        return single_cells(v, self.differences(), np.ones(len(v.outcome), dtype=bool))

    def cells(self) -> Cells:
        """Return the votes as cells, with their weights."""
        return replace(self.votes, weight=self.weight).aggregate()

    def left_share(self) -> Floats:
        """Return the share of each annotator's votes that the left model won, ties as half; NaN without a vote."""
        v, size = self.votes, len(self.votes.annotators)
        total = sum_by(v.annotator, self.weight, size)
        share: Floats = np.divide(
            sum_by(v.annotator, self.weight * v.outcome, size), total, out=np.full(size, np.nan), where=total > 0.0
        )
        return share
