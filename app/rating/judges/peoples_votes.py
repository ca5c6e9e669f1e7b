"""The people's votes one by one, as sums over the battles that judges see too need them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from app.rating.arrays import Floats, Indices, Mask, sum_by
from app.rating.judges.ballots import Ballots
from app.rating.judges.peoples_scores import PeoplesScores
from app.rating.model.crowd import laplacian
from app.rating.model.score_kernels import LARGEST_SHARE
from app.rating.plain.m_elo import shift_projector, typical
from app.rating.uncertainty.covariance import TINY
from app.rating.verdict.rating import Rating
from app.rating.votes.cells import find_places


@dataclass(frozen=True)
class PeoplesVotes:
    """Votes of people that count, on pairs of models with a score; arrays of shape (n_votes,).

    Attributes
    ----------
    size : models of `rating.small`
    cluster : number of the votes that err together
    battle : of the ballots
    first, second : models, in the indices of `rating.small`
    weight : the votes of a person on a battle count as one together
    surprise : weight · (W − P(first wins))
    variance : weight · p (1 − p), p at what the people's votes lead to expect of the true scores
    """

    size: int
    cluster: Indices
    battle: Indices
    first: Indices
    second: Indices
    weight: Floats
    surprise: Floats
    variance: Floats

    @classmethod
    def read(cls, peoples: Rating, known: PeoplesScores, ballots: Ballots, human: Mask) -> "PeoplesVotes":
        """Return the votes behind the people's leaderboard; those that err together are a cluster of its errors."""
        small, size = peoples.small, len(ballots.votes.models)
        counts, theta, expected = np.zeros(len(human), dtype=bool), np.ones(len(human)), np.zeros(size)
        counts[small.annotators], theta[small.annotators], expected[known.models] = True, peoples.fit.theta, known.score
        one = ballots.of_annotators(human & counts).between(small.models)
        v, place = one.votes, find_places(small.models, size).astype(np.int64)
        a, b = one.pair // size, one.pair % size
        first, second, q = place[a], place[b], expit(expected[a] - expected[b])
        p = expit(theta[v.annotator] * (peoples.fit.R[first] - peoples.fit.R[second]))
        won = np.where(v.model_a < v.model_b, v.outcome, 1.0 - v.outcome)
        clustered = peoples.covariance is not None and peoples.covariance.kind == "clustered"
        cluster = v.annotator.astype(np.int64) if clustered else np.arange(len(won))
        return cls(
            len(small.models), cluster, one.battle, first, second, one.weight, one.weight * (won - p),
            one.weight * q * (1.0 - q),
        )  # fmt: skip

    @property
    def pair(self) -> Indices:
        """Number of each vote's pair of models."""
        return self.first * self.size + self.second

    def push(self, values: Floats) -> Floats:
        """Return Σ values (e_first − e_second), of values of shape (n_votes, n), shape (n_models, n)."""
        sums = [sum_by(self.first, c, self.size) - sum_by(self.second, c, self.size) for c in values.T]
        return np.stack(sums, axis=1) if sums else np.zeros((self.size, 0))

    def inverse(self, component: Indices) -> Floats:
        """Return the inverse of the votes' information, Σ variance (e_first − e_second)(e_first − e_second)ᵀ."""
        information = laplacian(sum_by(self.pair, self.variance, self.size**2).reshape(self.size, self.size))
        shifts, usual = shift_projector(component), typical(information)
        inverse: Floats = np.linalg.inv(information + usual * shifts) - shifts / usual
        return inverse

    def crossed(self, said: Floats) -> tuple[Floats, Floats]:
        """Return Σ u yᵀ and Σ y yᵀ over clusters, u their gradients and y what judges say of these.

        Both are larger by 1/(1 − h), h a cluster's share of the information on a model, as the people's errors are. On
        a battle that several people voted on judges say the same for each: products of two of these votes count too.

        Parameters
        ----------
        said : y of each vote, shape (n_votes,)
        """
        information = self._rows(self.variance, 1.0)
        share = information.data / np.maximum(information.sum(axis=0), TINY)[information.indices]
        u, y = self._rows(self.surprise, -1.0), self._rows(said, -1.0)
        for each in (u, y):
            each.data /= np.sqrt(1.0 - np.minimum(share, LARGEST_SHARE))  # all three have the same places
        both, alone = self.by_pair(self.together(self.surprise, said)), self.by_pair(self.together(said, said))
        return (u.T @ y).toarray() + both, (y.T @ y).toarray() + alone

    def _rows(self, values: Floats, sign: float) -> csr_array[Any, tuple[int, int]]:
        where = np.tile(self.cluster, 2), np.concatenate([self.first, self.second])
        shape = (int(self.cluster.max(initial=-1)) + 1, self.size)
        return csr_array((np.concatenate([values, sign * values]), where), shape=shape)

    @cached_property
    def _own(self) -> tuple[Indices, Indices]:
        """A number for a cluster's votes on a battle, of each vote; and the battle of each number."""
        _, first, own = np.unique(
            self.cluster * (int(self.battle.max(initial=-1)) + 1) + self.battle, return_index=True, return_inverse=True
        )
        return own.astype(np.int64), self.battle[first]

    def together(self, a: Floats, b: Floats) -> Floats:
        """Return Σ a_i b_j over the pairs of votes of two clusters on one battle, shape (n_battles,)."""
        own, battle = self._own
        size = int(self.battle.max(initial=-1)) + 1
        alone = sum_by(own, a, len(battle)) * sum_by(own, b, len(battle))
        products: Floats = sum_by(self.battle, a, size) * sum_by(self.battle, b, size) - sum_by(battle, alone, size)
        return products

    def by_pair(self, of_battle: Floats) -> Floats:
        """Return Σ of_battle (e_first − e_second)(e_first − e_second)ᵀ over the battles, shape (n_models, n_models)."""
        battle, first = np.unique(self.battle, return_index=True)
        by_pair = sum_by(self.pair[first], of_battle[battle], self.size**2)
        return laplacian(by_pair.reshape(self.size, self.size))

    def of_shared_battles(self) -> Floats:
        """Return what it adds to Σ u uᵀ that people who vote on one battle see the same answers.

        Products of two people's surprises on a battle are taken as one multiple of the votes' variance, not below 0.
        """
        spread = np.sqrt(self.variance * self.weight)
        products, expected = self.together(self.surprise, self.surprise), self.together(spread, spread)
        alike = max(float(products.sum()) / max(float(expected.sum()), TINY), 0.0)
        return self.by_pair(alike * expected)
