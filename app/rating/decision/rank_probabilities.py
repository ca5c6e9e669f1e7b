import numpy as np

from app.rating.data.arrays import Floats
from app.rating.decision.joint import JointScores, widen

DRAWS = 10_000
BLOCK = 500  # draws at once: of 500 models 2 MB
USUAL = 2.0  # standard errors at which normal errors are as wide as those of t
SEED = 14


def rank_probabilities(joint: JointScores, most: int, *, draws: int = DRAWS) -> Floats:
    """Return P(model i is among the best k), k = 1 … most, under S ~ N(Ŝ, Σ), shape (n, most).

    Parameters
    ----------
    most : at most the number of models
    draws : even; the standard error of a probability p is at most √(p(1 − p)/draws)

    Notes
    -----
    Σ is the joint covariance, so that errors that two models share do not count. A score's errors are widened as its
    interval is by few degrees of freedom. Draws come in pairs Ŝ ± e, always the same ones: a refit of the same votes
    gives the same numbers. With a flat prior this is the posterior of the ranks. It is not valid when looked at again
    and again: a verdict comes from `app.rating.decision.verdict`. O(draws · n²).

    References
    ----------
    Marshall and Spiegelhalter, Reliability of league tables, BMJ 1998, on ranks by simulation.
    """
    n = len(joint.score)
    wide = widen(np.full(n, USUAL), joint.freedom) / USUAL
    root = square_root(joint.covariance * np.outer(wide, wide))
    generator, counts = np.random.default_rng(SEED), np.zeros(n * most)
    for _ in range(0, draws, 2 * BLOCK):
        errors = generator.standard_normal((BLOCK, root.shape[1])) @ root.T
        drawn = np.concatenate([joint.score + errors, joint.score - errors])
        best = _best(drawn, most)
        counts += np.bincount((best * most + np.arange(most)).ravel(), minlength=n * most)
    total = -(-draws // (2 * BLOCK)) * 2 * BLOCK
    within: Floats = np.cumsum(counts.reshape(n, most), axis=1) / total
    return np.minimum(within, 1.0)


def square_root(covariance: Floats) -> Floats:
    """Return X with X Xᵀ the covariance, its eigenvalues at least 0; shape (n, n)."""
    values, vectors = np.linalg.eigh(covariance)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return root


def _best(drawn: Floats, most: int) -> np.ndarray:
    """Return the columns of each row's highest values, best first, shape (rows, most)."""
    if most < drawn.shape[1]:
        best = np.argpartition(-drawn, most - 1, axis=1)[:, :most]
        order = np.argsort(-np.take_along_axis(drawn, best, axis=1), axis=1)
        return np.take_along_axis(best, order, axis=1)
    return np.argsort(-drawn, axis=1)
