from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, Indices
from app.rating.model.copies import Copies
from app.rating.settings import Interval
from app.rating.uncertainty.freedom import contrast_freedom
from app.rating.votes.cells import Cells

TINY = 1e-150  # its square is not 0


@dataclass(frozen=True)
class Covariance:
    """Sampling covariance of published scores and abilities.

    Attributes
    ----------
    scores : natural units of the mean annotator, each component centred, shape (n_models, n_models)
    order : the same without the annotators' pulls on the unit, which stretch all scores alike and change no order
    ability_se : standard error of the published ability, shape (n_annotators,); NaN where abilities are known
    kind : of the interval; "clustered" becomes "sandwich" with a single annotator
    clusters : annotators with a counted vote
    freedom : degrees of freedom of each model's variance, shape (n_models,); ∞ unless clustered
    judges : annotators who inform about each model, shape (n_models,); counted where clustered, else `clusters`
    copies : near-copies, each group one cluster; None where they were not looked for
    """

    scores: Floats
    order: Floats
    ability_se: Floats
    kind: Interval
    clusters: int
    freedom: Floats
    judges: Indices
    copies: Copies | None = None

    def contrast_freedom(self, i: Indices, j: Indices, *, order: bool = False) -> Floats:
        """Return the degrees of freedom of R_i − R_j."""
        return contrast_freedom(np.diag(self.order if order else self.scores), self.freedom, i, j)


def contrast_errors(covariance: Floats, i: Indices, j: Indices) -> Floats:
    """Return the standard errors of R_i − R_j, in the broadcast shape of i and j."""
    variance = np.diag(covariance)
    errors: Floats = np.sqrt(np.maximum(variance[i] + variance[j] - 2.0 * covariance[i, j], 0.0))
    return errors


def squared_residuals(cells: Cells, x: Floats) -> Floats:
    """Return Σ (W − p)² over the votes of each cell, p = σ(x), x of shape (n_cells,)."""
    p = expit(x)
    squared: Floats = cells.wins_a * (1.0 - p) ** 2 + cells.ties * (0.5 - p) ** 2 + cells.wins_b * p**2
    return squared


def sum_by_vote(
    cells: Cells, R: Floats, squares: Floats, pull: Floats, each_moved: Iterable[tuple[int, int, Floats]]
) -> Floats:
    """Return Σ r² v v′ over the votes, v = pull (e_a − e_b) + d c_k what a unit of a vote's residual r adds.

    Parameters
    ----------
    squares : Σ r² of each cell, shape (n_cells,)
    pull : shape (n_cells,)
    each_moved : first, last + 1, and rows c_k of some annotators: what a unit of dℓ_k/dθ adds, as the ability moves
    """
    d, size = R[cells.model_a] - R[cells.model_b], len(R)
    meat = np.zeros((size, size))
    for first, last, moved in each_moved:
        here = slice(*cells.starts[[first, last]])
        own = cells.annotator[here] - first
        along, square = np.zeros((last - first, size)), np.bincount(own, squares[here] * d[here] ** 2, last - first)
        amount = squares[here] * pull[here] * d[here]
        np.add.at(along, (own, cells.model_a[here]), amount)
        np.add.at(along, (own, cells.model_b[here]), -amount)
        crossed = along.T @ moved
        meat += crossed + crossed.T + (moved * square[:, None]).T @ moved
    amount = squares * pull**2
    for i, j, sign in ((0, 0, 1.0), (1, 1, 1.0), (0, 1, -1.0), (1, 0, -1.0)):
        ends = cells.model_a, cells.model_b
        np.add.at(meat, (ends[i], ends[j]), sign * amount)
    return meat
