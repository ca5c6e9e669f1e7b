"""Scores from votes whose annotators each have leans: m-ELO's search, with the leans eliminated."""

from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Mask, sum_by
from app.rating.fit.bias import WIDE
from app.rating.fit.features import FeatureLikelihood, features_of
from app.rating.fit.likelihood import laplacian
from app.rating.votes.cells import Cells

FEWEST = 2.0  # votes' worth of contrast in a feature, from which a lean can be told from scores
DEPENDENT = 1e-9  # share of a lean's information that rounding may leave


@dataclass(frozen=True)
class Profiled:
    """The profile objective at one point; as in `Curvature`, A the Hessian of the profile."""

    value: float
    gradient_scores: Floats
    A: Floats
    cross: Floats


class LeaningLikelihood:
    """−ℓ(R) + Σ_k |b_k|²/(2·3²), P(left wins) = σ(R_left − R_right + xᵀb_k), each b_k at its best; minimised over R.

    That of a fit with features where abilities are 1 and the crowd has no taste: of few judges it is open what a crowd
    would like, so the prior is the wide one that says what votes alone tell. The objective is jointly convex in (R, b),
    so its minimum over b is convex in R.

    Parameters
    ----------
    cells : with features x, 0 where an annotator has no lean
    """

    def __init__(self, cells: Cells) -> None:
        self.no_taste = np.zeros(features_of(cells).shape[1])
        self.likelihood = FeatureLikelihood(cells, None, np.full((cells.n_annotators, len(self.no_taste)), WIDE**-2))

    @property
    def leans(self) -> Floats:
        """B where the objective was last expanded, shape (n_annotators, n_features)."""
        return self.likelihood.leans

    def expand(self, R: Floats, theta: Floats) -> Profiled:
        """Return the objective, its gradient and its Hessian at the scores."""
        point, models = self.likelihood.expand(np.concatenate([R, self.no_taste]), theta), slice(len(R))
        A = point.A - np.sum([self.likelihood.products(row, theta) for row in point.leans], axis=0)
        return Profiled(point.value, point.gradient_scores[models], A[models, models], point.cross)


def tell_leans(cells: Cells) -> Mask:
    """Return whose leans the votes tell from scores: not that of an annotator who saw each model on one side only.

    Of an annotator's votes, each with the same weight, the information on leans beside free scores of the models is
    D − B A⁺ Bᵀ. Where the side says which model it is, as where a baseline is always on the left, it is 0.

    Returns
    -------
    Shape (n_annotators, n_features).
    """
    x, size = features_of(cells), cells.n_models
    told = np.zeros((cells.n_annotators, x.shape[1]), dtype=bool)
    for k in np.flatnonzero(np.diff(cells.starts)):
        mine = slice(int(cells.starts[k]), int(cells.starts[k + 1]))
        a, b, n = cells.model_a[mine].astype(np.int64), cells.model_b[mine], cells.n[mine]
        total = n @ x[mine] ** 2
        B = np.stack([sum_by(a, n * one, size) - sum_by(b, n * one, size) for one in x[mine].T])
        along = np.linalg.lstsq(laplacian(sum_by(a * size + b, n, size * size), size), B.T)[0]
        told[k] = total - np.einsum("ji,ij->j", B, along) > np.maximum(FEWEST, DEPENDENT * total)
    return told
