"""How the joint errors of the scores shrink with more votes, for a given way to choose the pairs."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.special import expit

from app.rating.data.arrays import Floats, Mask
from app.rating.decision.joint import JointScores
from app.rating.inference.rating import Rating
from app.rating.solver.gauge import ELO_PER_NATURAL

LEAST = 1e-12  # of the mean information, in every direction: that on models far apart may vanish


@dataclass(frozen=True)
class Growth:
    """The joint covariance after m more votes, Σ(m) = U diag(1/(1 + m λ)) Uᵀ.

    Attributes
    ----------
    basis : U in Elo points, shape (n, n − 1)
    rate : λ of each column, per vote, at least 0, shape (n − 1,)
    votes : votes between the models so far
    """

    basis: Floats
    rate: Floats
    votes: float

    def left(self, more_votes: float) -> Floats:
        """Return the share of each column's variance that is left after so many more votes, shape (n − 1,)."""
        share: Floats = 1.0 / (1.0 + more_votes * self.rate)
        return share

    def errors(self, more_votes: float, models: Mask | None = None) -> Floats:
        """Return the standard errors of S_i − S_j after so many more votes, shape (n, n), or of these models alone."""
        root = (self.basis if models is None else self.basis[models]) * np.sqrt(self.left(more_votes))
        covariance = root @ root.T
        variance = np.diag(covariance)
        square = variance[:, None] + variance - 2.0 * covariance
        errors: Floats = np.sqrt(np.maximum(square, 0.0))
        np.fill_diagonal(errors, 0.0)
        return errors


def find_growth(joint: JointScores, votes: Floats, design: Floats | None = None) -> Growth:
    """Return how Σ shrinks: Σ(m) = T (P + m Λ(π))⁻¹ Tᵀ across the shifts, with T P⁻¹ Tᵀ = Σ.

    Λ(π) = Σ_pairs π_ij p(1 − p) (e_i − e_j)(e_i − e_j)ᵀ is the information of a vote on a pair drawn from π, and P that
    of the votes so far.

    Parameters
    ----------
    votes : counted votes between the models, symmetric, shape (n, n)
    design : π, the probability with which the next battle is of each pair, symmetric, each pair at both places, shape
        (n, n); by default pairs are chosen as they have been so far

    Notes
    -----
    T, symmetric and positive, is what makes votes worth less, or more, than the model says: abilities, ties, tastes of
    annotators, the unit. Where they make no difference it is the identity. Pairs chosen as they have been give
    Σ(m) = Σ/(1 + m/votes). Annotators are taken to come as the votes do.
    """
    n = len(joint.score)
    natural = joint.gaps / ELO_PER_NATURAL
    worth = expit(natural) * expit(-natural)
    across = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]  # of the shifts
    past, total = _information(worth * votes, across), float(votes.sum()) / 2.0
    past += LEAST * np.trace(past) / (n - 1) * np.eye(n - 1)
    future = past / total if design is None else _information(worth * design / (design.sum() / 2.0), across)
    rate, vectors = eigh(future, past)
    transport = _transport(past, across.T @ joint.covariance @ across)
    return Growth(across @ (transport @ vectors), np.maximum(rate, 0.0), total)


def count_pairs_of(rating: Rating, joint: JointScores) -> Floats:
    """Return the counted votes between the models of `joint`, symmetric, shape (n, n)."""
    place = np.full(rating.cells.n_models, -1)
    place[joint.models] = np.arange(len(joint.models))
    a, b = place[rating.pairs.model_a], place[rating.pairs.model_b]
    both = (a >= 0) & (b >= 0)
    votes = np.zeros((len(joint.models),) * 2)
    np.add.at(votes, (a[both], b[both]), rating.pairs.n[both])
    symmetric: Floats = votes + votes.T
    return symmetric


def _information(weight: Floats, across: Floats) -> Floats:
    """Return Σ_pairs weight_ij (e_i − e_j)(e_i − e_j)ᵀ in the basis `across`."""
    inside: Floats = across.T @ (weight.sum(axis=1)[:, None] * across - weight @ across)
    return inside


def _transport(information: Floats, covariance: Floats) -> Floats:
    """Return the symmetric T ≥ 0 with T information⁻¹ T = covariance: P^½ (P^−½ Σ P^−½)^½ P^½."""
    values, vectors = eigh(information)
    half = (vectors * np.sqrt(values)) @ vectors.T
    inverse_half = (vectors / np.sqrt(values)) @ vectors.T
    inner_values, inner_vectors = eigh(inverse_half @ covariance @ inverse_half)
    inner = (inner_vectors * np.sqrt(np.maximum(inner_values, 0.0))) @ inner_vectors.T
    transport: Floats = half @ inner @ half
    return transport
