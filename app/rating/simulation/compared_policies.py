"""The policies that are compared: those of the service, others, and other shares of the mixture."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from app.rating.arrays import Floats
from app.rating.fit.scale import ELO_PER_NATURAL
from app.rating.sampling.policies import POLICIES, Weigh, mixed

COVAL_POINTS = 300.0


def coval(R: Floats, covariance: Floats, _pair_votes: Floats, _k: int) -> Floats:
    """Prefer close pairs with wide intervals, as coval does: exp(−gap/300)·(ci_i + ci_j), gap in Elo points."""
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    gap = ELO_PER_NATURAL * np.abs(R[:, None] - R[None, :])
    weights: Floats = np.exp(-gap / COVAL_POINTS) * (error[:, None] + error[None, :])
    np.fill_diagonal(weights, 0.0)
    return weights


def _mixed(R: Floats, covariance: Floats, _pair_votes: Floats, k: int, *, share: float) -> Floats:
    return mixed(R, covariance, k, top_k_share=share)


COMPARED: Mapping[str, Weigh] = {
    **{str(name): weigh for name, weigh in POLICIES.items()},
    "coval": coval,
    "mixed, 30 % top_k": partial(_mixed, share=0.3),
    "mixed, 70 % top_k": partial(_mixed, share=0.7),
}
