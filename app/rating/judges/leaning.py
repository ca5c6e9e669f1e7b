"""Scores from votes whose annotators each lean to a side: m-ELO's search, with the leans eliminated."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, Mask, sum_by
from app.rating.detection.habits import ABILITY, LEAN, OUTLIER_SD
from app.rating.detection.habits_kernels import find_habits
from app.rating.fit.likelihood import laplacian
from app.rating.votes.sided_cells import SidedCells

NEAR = 1e-10  # step of a lean after which the profile's gradient is exact but for rounding
ABILITY_SD = 3.0  # of the prior around 1 where abilities are free
FEWEST = 2.0  # votes' worth of contrast between the sides, from which a lean can be told from scores
DEPENDENT = 1e-9  # share of a lean's information that rounding may leave


@dataclass(frozen=True)
class Profiled:
    """The profile objective at one point.

    Attributes
    ----------
    value : −ℓ and the leans' prior
    gradient_scores : shape (n_models,)
    A : Hessian of the profile, A − BᵀD⁻¹B, shape (n_models, n_models)
    cross : w·side of each cell
    lean : every annotator's best lean, log odds
    inverse : of each lean's curvature, D⁻¹, shape (n_annotators,)
    follows : what the scores move a lean by, −D⁻¹B, shape (n_annotators, n_models)
    weight : p(1 − p) n of each cell
    """

    value: float
    gradient_scores: Floats
    A: Floats
    cross: Floats
    lean: Floats
    inverse: Floats
    follows: Floats
    weight: Floats


class LeaningLikelihood:
    """−ℓ(R) + Σ_k λ_k²/(2·3²), P(left wins) = σ(R_left − R_right + λ_k), each λ_k at its best; minimised over R.

    The objective is jointly convex in (R, λ), so its minimum over λ is convex in R. Its gradient is that at fixed λ,
    its Hessian the Schur complement A − BᵀD⁻¹B.

    Parameters
    ----------
    sided : sorted by annotator
    free : annotators that have a lean; the others' is 0, shape (n_annotators,)
    """

    def __init__(self, sided: SidedCells, free: Mask) -> None:
        self.sided, self.free = sided, free
        self.side = sided.side * free[sided.cells.annotator]
        self._at = np.tile([1.0, 0.0, 0.0], (len(free), 1))

    def expand(self, R: Floats, theta: Floats) -> Profiled:  # noqa: ARG002  every ability is 1
        """Return the objective, its gradient and its Hessian at the scores."""
        cells, size = self.sided.cells, self.sided.cells.n_models
        d = R[cells.model_a] - R[cells.model_b]
        find_own_habits(self.sided, d, self.side, self._at, free_ability=False)
        lean = self._at[:, LEAN].copy()
        x = d + lean[cells.annotator] * self.side
        p = expit(x)
        w = cells.n * p * (1.0 - p)
        value = float(np.sum(cells.n * np.logaddexp(0.0, x) - cells.s * x)) + 0.5 * float(lean @ lean) / OUTLIER_SD**2
        pull, cross = cells.n * p - cells.s, w * self.side
        gradient = sum_by(cells.model_a, pull, size) - sum_by(cells.model_b, pull, size)
        B = by_annotator_and_model(self.sided, cross)
        inverse = 1.0 / (sum_by(cells.annotator, w * self.side**2, cells.n_annotators) + OUTLIER_SD**-2)
        follows = -B * inverse[:, None]
        A = laplacian_of(self.sided, w, slice(None)) + B.T @ follows
        return Profiled(value, gradient, A, cross, lean, inverse, follows, w)


def find_own_habits(sided: SidedCells, d: Floats, side: Floats, at: Floats, *, free_ability: bool) -> Floats:
    """Maximise every annotator's ℓ_k, P(a wins) = σ(a d + λ side), a tie being half a win for each.

    Priors are N(0, 3²) for λ and N(1, 3²) for a: an annotator of a small crowd is not drawn to the others.

    Parameters
    ----------
    d, side : of each cell; both may be scaled
    at : ability, nothing, and lean to start from, and then the maximum, shape (n_annotators, 3)
    free_ability : whether the ability moves too

    Returns
    -------
    The negative Hessians, shape (n_annotators, 3, 3).
    """
    cells, H = sided.cells, np.zeros((len(at), 3, 3))
    precision = np.ones((len(at), 3))
    precision[:, ABILITY], precision[:, LEAN] = ABILITY_SD**-2, OUTLIER_SD**-2
    find_habits(
        0, len(at), cells.starts, d, cells.s, np.zeros(len(d)), cells.n - cells.s, side,
        False, np.array([1.0, 0.0, 0.0]), precision, np.array([free_ability, False, True]), NEAR, at, H,
    )  # fmt: skip
    return H


def by_annotator_and_model(sided: SidedCells, weight: Floats) -> Floats:
    """Return Σ weight·(e_a − e_b) over each annotator's cells, shape (n_annotators, n_models)."""
    cells, size = sided.cells, sided.cells.n_models
    first, every = cells.annotator.astype(np.int64) * size, cells.n_annotators * size
    total = sum_by(first + cells.model_a, weight, every) - sum_by(first + cells.model_b, weight, every)
    return total.reshape(cells.n_annotators, size)


def laplacian_of(sided: SidedCells, weight: Floats, here: slice) -> Floats:
    """Return Σ weight·(e_a − e_b)(e_a − e_b)ᵀ over these cells, shape (n_models, n_models)."""
    cells, size = sided.cells, sided.cells.n_models
    pair = cells.model_a[here].astype(np.int64) * size + cells.model_b[here]
    return laplacian(sum_by(pair, weight[here], size * size), size)


def tell_leans(sided: SidedCells) -> Mask:
    """Return whose lean the votes tell from scores: not that of an annotator who saw each model on one side only.

    Of an annotator's votes, each with the same weight, the information on the lean beside free scores of the models is
    D − B A⁺ Bᵀ. Where the side says which model it is, as where a baseline is always on the left, it is 0.
    """
    cells, told = sided.cells, np.zeros(sided.cells.n_annotators, dtype=bool)
    signed = cells.n * sided.side
    for k in np.flatnonzero(np.diff(cells.starts)):
        mine = slice(int(cells.starts[k]), int(cells.starts[k + 1]))
        total = float(cells.n[mine] @ sided.side[mine] ** 2)
        B = sum_by(cells.model_a[mine], signed[mine], cells.n_models)
        B -= sum_by(cells.model_b[mine], signed[mine], cells.n_models)
        along = np.linalg.lstsq(laplacian_of(sided, cells.n, mine), B)[0]
        told[k] = total - float(B @ along) > max(FEWEST, DEPENDENT * total)
    return told
