"""Scores from votes whose annotators each have leans: m-ELO's search, with the leans eliminated."""

from dataclasses import replace

import numpy as np

from app.rating.arrays import Floats, Mask, sum_by
from app.rating.fit.bias import WIDE
from app.rating.fit.features import FeatureLikelihood, features_of
from app.rating.fit.likelihood import Curvature, laplacian
from app.rating.votes.cells import Cells

FEWEST = 2.0  # votes' worth of contrast in a feature, from which a lean can be known apart from scores
DEPENDENT = 1e-9  # share of a lean's information that rounding may leave


class LeaningLikelihood(FeatureLikelihood):
    """−ℓ(R) + Σ_k |b_k|²/(2·3²), P(left wins) = σ(R_left − R_right + xᵀb_k), each b_k at its best; minimised over R.

    That of a fit with features where abilities are 1 and the crowd has no taste: of few judges it is open what a crowd
    would like, so the prior is the wide one that says what votes alone tell. The objective is jointly convex in (R, b),
    so its minimum over b is convex in R.

    Parameters
    ----------
    cells : with features x, 0 where an annotator has no lean
    """

    def __init__(self, cells: Cells) -> None:
        super().__init__(cells, None, np.full((cells.n_annotators, features_of(cells).shape[1]), WIDE**-2))

    def expand(
        self, R: Floats, theta: Floats, *, exact: bool = True, out: Floats | None = None, leans: bool = True
    ) -> Curvature:
        """Return gradient and Hessian at the scores, shape (n_models,), the leans eliminated."""
        no_taste, size = np.zeros(self.z.shape[1]), len(R)
        point = super().expand(np.concatenate([R, no_taste]), theta, exact=exact, out=out, leans=leans)
        return replace(point, gradient_scores=point.gradient_scores[:size], stiffness=point.stiffness[: size**2])


def identified_leans(cells: Cells) -> Mask:
    """Return whose leans the votes tell from scores: not that of an annotator who saw each model on one side only.

    Of an annotator's votes, each with the same weight, the information on leans beside free scores of the models is
    D − B A⁺ Bᵀ. Where the side says which model it is, as where a baseline is always on the left, it is 0.

    Returns
    -------
    Shape (n_annotators, n_features).
    """
    x, size = features_of(cells), cells.n_models
    identified = np.zeros((cells.n_annotators, x.shape[1]), dtype=bool)
    for k in np.flatnonzero(np.diff(cells.starts)):
        mine = slice(int(cells.starts[k]), int(cells.starts[k + 1]))
        a, b, n = cells.model_a[mine].astype(np.int64), cells.model_b[mine], cells.n[mine]
        total = n @ x[mine] ** 2
        B = np.stack([sum_by(a, n * one, size) - sum_by(b, n * one, size) for one in x[mine].T])
        along = np.linalg.lstsq(laplacian(sum_by(a * size + b, n, size * size), size), B.T)[0]
        identified[k] = total - np.einsum("ji,ij->j", B, along) > np.maximum(FEWEST, DEPENDENT * total)
    return identified
