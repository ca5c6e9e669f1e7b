"""One judge's votes at the judge's own maximum, as sums over battles."""

from functools import cached_property

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from app.rating.arrays import Floats, Indices, sum_by
from app.rating.judges.ballots import Ballots
from app.rating.judges.leaning import WIDE
from app.rating.model.crowd import laplacian


class OwnVotes:
    """One judge's votes where log odds are o + atᵀh, at the maximum over `at` under the prior N(·, 3²).

    Attributes
    ----------
    number : of votes
    bread : H⁻¹, the prior in it, shape (n_own, n_own)
    mixed : Σ w h (e_left − e_right)ᵀ, shape (n_own, n_models)
    information : Σ w (e_left − e_right)(e_left − e_right)ᵀ, shape (n_models, n_models)
    by_battle : each battle's gradient by `at` and by the scores, shape (n_battles, n_own + n_models)
    """

    def __init__(
        self, one: Ballots, place: Indices, h: Floats, at: Floats,
        *, flat: Floats | float = 1.0, offset: Floats | float = 0.0, battles: int,
    ) -> None:  # fmt: skip
        """Sum the votes.

        Parameters
        ----------
        place : of each model, all of which have one, shape (n_all_models,)
        h : shape (n_own, n_votes)
        flat : derivative of the log odds by the left score
        offset : o
        battles : number of rows of `by_battle`
        """
        v, size = one.votes, int(place.max()) + 1
        self.number = len(one.battle)
        left, right = place[v.model_a], place[v.model_b]
        p = expit(offset + at @ h)
        w, rest = one.weight * p * (1.0 - p), one.weight * (v.outcome - p)
        self.mixed = np.stack([sum_by(left, w * flat * x, size) - sum_by(right, w * flat * x, size) for x in h])
        self.information = laplacian(sum_by(left * size + right, w * flat**2, size * size).reshape(size, size))
        columns = np.concatenate([np.repeat(np.arange(len(h)), len(left)), len(h) + left, len(h) + right])
        entries = np.concatenate([(rest * h).ravel(), rest * flat, -rest * flat])
        rows = np.tile(one.battle, len(h) + 2)
        self.by_battle = csr_array((entries, (rows, columns)), shape=(battles, len(h) + size))
        self.bread: Floats = np.linalg.inv((w * h) @ h.T + np.eye(len(h)) / WIDE**2).astype(np.float64)

    @cached_property
    def noise(self) -> Floats:
        """Σ g gᵀ over battles, g the gradient of one."""
        noise: Floats = (self.by_battle.T @ self.by_battle).toarray()
        return noise

    @cached_property
    def gradient(self) -> Floats:
        """Σ g over battles."""
        return np.asarray(self.by_battle.sum(axis=0), dtype=np.float64)

    @cached_property
    def moves(self) -> Floats:
        """What a shift of a model's score takes off `at`, shape (n_own, n_models)."""
        moves: Floats = self.bread @ self.mixed
        return moves

    @cached_property
    def profile(self) -> Floats:
        """Gradient of the scores as `at` follows them, by g, shape (n_models, n_own + n_models)."""
        return np.hstack([-self.moves.T, np.eye(len(self.information))])

    @cached_property
    def profile_information(self) -> Floats:
        """Information on the scores as `at` follows them, shape (n_models, n_models)."""
        left: Floats = self.information - self.mixed.T @ self.moves
        return left
