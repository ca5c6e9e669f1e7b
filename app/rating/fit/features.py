"""Votes with features: P = σ(θ_k (R_a − R_b + zᵀγ) + zᵀb_k), γ the crowd's taste and b_k each annotator's own leans."""

import numpy as np

from app.rating.arrays import Floats
from app.rating.fit.leans import FeatureDerivatives, expand_features, fill_distances, list_odds, sum_features
from app.rating.fit.likelihood import Curvature, Likelihood
from app.rating.fit.own_terms import NEAR, OwnPrior, maximise_own
from app.rating.fit.rows import CellRows
from app.rating.threads import map_parts
from app.rating.votes.cells import Cells

ROUGHLY, ON_THE_WAY = 1e-6, 1e-2  # squared length of the last step of the leans, in standard errors


def features_of(cells: Cells) -> Floats:
    """Return the features of votes that have some, shape (n_cells, n_features)."""
    if cells.features is None:
        raise ValueError("the votes have no features")
    return cells.features


class FeatureRows(CellRows):
    """Rows over the models and the features: Σ weight·(e_a − e_b, z). What has the size of models has that of both."""

    def __init__(self, cells: Cells, number: int | None = None) -> None:
        super().__init__(cells, number)
        self.z = np.asfortranarray(features_of(cells))  # loops read a feature of cells in a row
        self.size = cells.n_models + self.z.shape[1]

    def by_model(self, weight: Floats, *scales: Floats) -> Floats:
        """Return Σ_cells scale_k·weight·(e_a − e_b, z) for each scale, shape (scales, n_models + n_features)."""
        return np.hstack([super().by_model(weight, *scales), np.array(scales) @ self.by_feature(weight)])

    def by_feature(self, weight: Floats) -> Floats:
        """Return each annotator's Σ weight·z, shape (n_annotators, n_features)."""
        out = np.empty((self.cells.n_annotators, self.z.shape[1]))
        map_parts(lambda part: sum_features(*part, self.starts, weight, self.z, out), self.parts)
        return out

    def times(self, weight: Floats, vector: Floats) -> Floats:
        """Return each annotator's row times a vector over models and features, shape (n_annotators,)."""
        size = self.cells.n_models
        total: Floats = super().times(weight, vector[:size]) + self.by_feature(weight) @ vector[size:]
        return total


class FeatureLikelihood(Likelihood):
    """The objective of votes with features, each annotator's leans b_k at their minimum.

    −ℓ(R, γ, θ, b) + Σ_k (θ_k − 1)²/(2 sd²) + ½ Σ precision·b_k², with x = θ_k (R_a − R_b + zᵀγ) + zᵀb_k. Wherever
    `Likelihood` has scores R, this has (R, γ), shape (n_models + n_features,). The leans are an own concave problem of
    each annotator; their part of the Hessian is eliminated, so that the solver sees the arrow of R, γ and θ.

    Parameters
    ----------
    cells : with features
    lean_precision : 1/sd² of each lean's prior, above 0, shape (n_annotators, n_features)
    near : squared length of the last step of the leans in an exact expansion; each begins at the leans of the last one

    Attributes
    ----------
    leans : b where the objective was last expanded, shape (n_annotators, n_features)
    """

    def __init__(
        self, cells: Cells, prior_sd: float | None, lean_precision: Floats, *, parts: int | None = None,
        near: float = NEAR,
    ) -> None:  # fmt: skip
        super().__init__(cells, prior_sd, parts=parts)
        self.rows: FeatureRows = FeatureRows(cells, parts)
        self.z, self.lean_precision, self.near = self.rows.z, lean_precision, near
        self.leans = np.zeros_like(lean_precision)

    def distances(self, R: Floats) -> Floats:
        """Return d = R_a − R_b + zᵀγ of each cell."""
        d = np.empty(len(self.cells.n))
        map_parts(lambda part: fill_distances(*part, self.cells.arrays, R, self.z, d), self.rows.parts)
        return d

    def arguments(self, R: Floats, theta: Floats) -> Floats:
        """Return x of each cell at the leans where the objective was last expanded."""
        x, at = self.distances(R), np.column_stack([theta, self.leans])
        map_parts(lambda part: list_odds(*part, self.rows.starts, x, self.z, at, x), self.rows.parts)
        return x

    def own(self, R: Floats, at: Floats, *, fixed: bool, precision: float | None = None, near: float = NEAR) -> Floats:
        """Move each annotator's (θ_k, b_k) to the maximum of their own terms; return the negative Hessians there.

        Parameters
        ----------
        at : where the search begins and, after it, ends, shape (n_annotators, 1 + n_features)
        fixed : whether θ stays
        precision : of the prior of θ; default that of the likelihood
        near : squared length, in standard errors, of the last step
        """
        prior = self._prior_of(self.precision if precision is None else precision)
        return maximise_own(self.rows, self.distances(R), self.z, prior, at, fixed=fixed, near=near)

    def _prior_of(self, precision: float) -> OwnPrior:
        """Return the prior of (θ, b), of θ with this precision."""
        of_theta = np.full(self.cells.n_annotators, precision)
        return OwnPrior(np.eye(1, self.z.shape[1] + 1)[0], np.column_stack([of_theta, self.lean_precision]))

    def prior(self, theta: Floats) -> float:
        """Return the prior's part of the objective, with that of the leans."""
        return super().prior(theta) + 0.5 * float(np.sum(self.lean_precision * self.leans**2))

    def expand(
        self, R: Floats, theta: Floats, *, exact: bool = True, out: Floats | None = None, leans: bool = True
    ) -> Curvature:
        """Return gradient and Hessian at (R, γ, θ), the leans at their minimum and eliminated."""
        c, d, at = self.cells, self.distances(R), np.column_stack([theta, self.leans])
        n, size, prior, near = c.n_models, self.z.shape[1], self._prior_of(0.0), self.near if exact else ON_THE_WAY
        gradient_abilities, D = np.empty((2, c.n_annotators))
        cross, of_leans = np.empty(len(c.n)) if out is None else out, np.empty((size * leans, len(c.n)))

        def accumulate(part: tuple[int, int]) -> tuple[float, Floats, Floats, Floats]:
            sums = np.zeros(n + size), np.zeros(n**2), np.zeros((size, n + size))
            to = FeatureDerivatives(*sums, gradient_abilities, D, cross, of_leans)
            value = expand_features(*part, c.arrays, d, self.z, prior, near, exact, at, to)
            return value, *sums

        values, *sums = zip(*map_parts(accumulate, self.rows.parts), strict=True)
        self.leans = at[:, 1:].copy()
        gradient, stiffness, border = (np.sum(each, axis=0) for each in sums)
        excess = theta - 1.0
        value = sum(values) + 0.5 * self.precision * float(excess @ excess)
        gradient_abilities += self.precision * excess
        D += self.precision
        stiffness = np.concatenate([stiffness, border.ravel()])
        return Curvature(self, value, gradient, stiffness, gradient_abilities, D, cross, of_leans)
