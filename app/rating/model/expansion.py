"""What one annotator and one vote say of the scores at a fit: the equations' parts, cell by cell."""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices, Ints, sum_by
from app.rating.compiled import compiled
from app.rating.model.crowd import Crowd
from app.rating.model.kernels import MOST_NODES, Nodes, raise_powers
from app.rating.model.score_kernels import find_polynomials, pull_of
from app.rating.model.scores import MarginalFit
from app.rating.model.start import balance, fit_bradley_terry
from app.rating.model.weights import weigh_votes
from app.rating.threads import map_parts
from app.rating.votes.cells import CellArrays, Cells

CHUNK = 512  # annotators whose rows are held at once
CURVATURE, PULL, PLAIN = 0, 1, 2
"""Columns of the parts; then come E[φ h (s − n p)] (2) and E[φ θ (s − n p)] (2) for the first polynomials φ in θ."""
MOVED, OF_PLAIN, COLUMNS = 3, 5, 7


class OwnRows(NamedTuple):
    """Rows over the models of some annotators, shape (n, n_models) each.

    Attributes
    ----------
    u : what the votes add to the scores' equations
    moved, by : of two polynomials in θ, Cov_k(u_k, φ) and Cov_k(dℓ_k/dR, φ): their products are what the ability, not
        being known, takes from the information
    """

    u: Floats
    moved: tuple[Floats, Floats]
    by: tuple[Floats, Floats]


class Expansion:
    """The parts of the equations at a fit, and what a change of them does to the scores.

    Parameters
    ----------
    cells : the fit's
    influence_limit : the fit's

    Attributes
    ----------
    weight : of the votes of each cell, shape (n_cells,)
    pull, ability, ability_sd : E[h(θ)], E[θ] and the standard deviation of θ, shape (n_annotators,)
    bread : the inverse Jacobian, shape (n_models, n_models)
    """

    def __init__(self, cells: Cells, fit: MarginalFit, influence_limit: float | None) -> None:
        self.weight, cells = weigh_votes(cells, influence_limit), cells.trusted()
        self.cells, self.fit, self.temper = cells, fit, 1.0 / fit.dispersion
        self.directions = fit.directions
        self.parts = np.zeros((len(cells.n), COLUMNS))
        self.pull, self.ability, self.ability_sd = np.zeros((3, cells.n_annotators))
        self._ranking = fit_bradley_terry(balance(cells))
        map_parts(self._expand, cells.split_annotators())

    def _expand(self, part: tuple[int, int]) -> None:
        here, cut = slice(*part), slice(*self.cells.starts[list(part)])
        crowd = Crowd(
            self.cells.of_annotators(*part), self.weight[cut], self.temper, self._ranking, self.fit.start.mode[here]
        )
        crowd.look(self.fit.R, self.fit.law.spread)
        crowd.fill(self.fit.R)
        crowd.weigh(self.fit.law)
        expand_cells(crowd.cells.arrays, self.weight[cut], crowd.nodes, self.parts[cut], self.pull[here])
        self.ability[here], self.ability_sd[here], _, _ = crowd.abilities()

    @cached_property
    def bread(self) -> Floats:
        """J⁻¹ at the fit, shape (n_models, n_models)."""
        return np.linalg.inv(self.fit.equations.jacobian).astype(np.float64)

    def shares(self, Y: Floats) -> Floats:
        """Return q with which a residual r of a vote of k at the difference d moves y·u by r (w h (y_a − y_b) − d q_k).

        Parameters
        ----------
        Y : shape (n_models, m)

        Returns
        -------
        Shape (n_annotators, m).
        """
        out = np.zeros((self.cells.n_annotators, Y.shape[1]))
        for first, last, moved in self.each_moved():
            out[first:last] = -moved @ Y
        return out

    def each_moved(self) -> Iterator[tuple[int, int, Floats]]:
        """Yield what a unit of dℓ_k/dθ moves each annotator's u by: first, last + 1, and rows of the models.

        The ability's posterior moves; and along the scores a vote pulls by θ, not by h.
        """
        along = self.directions.along
        bend = (along / self.directions.length).sum(axis=1)
        stretch = self.ability - self.pull
        for first, last, own in self.each():
            moved = self.temper * self.ability_sd[first:last, None] * own.moved[0]
            yield first, last, moved + np.outer(stretch[first:last], bend)

    def each(self, size: int = CHUNK) -> Iterator[tuple[int, int, OwnRows]]:
        """Yield the rows of some annotators at a time: first, last + 1, and the rows."""
        for first in range(0, self.cells.n_annotators, size):
            last = min(first + size, self.cells.n_annotators)
            yield first, last, self.own(first, last)

    def own(self, first: int, last: int) -> OwnRows:
        """Return the rows of annotators first … last−1."""
        c, R, along = self.cells, self.fit.R, self.directions.along
        rows = np.zeros((COLUMNS - 1, last - first, len(R)))
        scatter(first, last, c.starts, c.model_a, c.model_b, self.parts, rows)

        def stretch(weighted: Floats, plain: Floats) -> Floats:
            stretched: Floats = weighted + (plain - weighted) @ along @ along.T
            return stretched

        u = stretch(rows[PULL - 1], rows[PLAIN - 1])
        weighted, plain = rows[MOVED - 1 : OF_PLAIN - 1], rows[OF_PLAIN - 1 :]
        moved = stretch(weighted[0], plain[0]), stretch(weighted[1], plain[1])
        return OwnRows(u, moved, (self.temper * plain[0], self.temper * plain[1]))

    def information(self, annotator: int) -> Floats:
        """Return what one annotator's votes say of each score, abilities known, shape (n_models,)."""
        c, size, mine = self.cells, len(self.fit.R), slice(*self.cells.starts[[annotator, annotator + 1]])
        amount = self.parts[mine, CURVATURE]
        return sum_by(c.model_a[mine], amount, size) + sum_by(c.model_b[mine], amount, size)

    def curve(self, first: int, last: int, own: OwnRows, X: Floats) -> Floats:
        """Return J_k x for annotators first … last−1, J_k annotator k's part of the Jacobian, x the row of X."""
        out, c = np.zeros_like(X), self.cells
        curve_cells(first, last, c.starts, c.model_a, c.model_b, self.parts, X, out)
        for moved, by in zip(own.moved, own.by, strict=True):
            out -= moved * np.einsum("ki,ki->k", by, X)[:, None]
        return out


@compiled
def expand_cells(cells: CellArrays, weight: Floats, nodes: Nodes, parts: Floats, pulls: Floats) -> None:
    """Set the parts (n_cells, 7) of every cell, and E[h(θ)] of every annotator."""
    starts, n, s = cells.starts, cells.n, cells.s
    one, two, e = np.empty(MOST_NODES), np.empty(MOST_NODES), np.empty(MOST_NODES)
    for k in range(len(pulls)):
        if starts[k] == starts[k + 1]:
            continue
        low, step, posterior = nodes.low[k], nodes.step[k], nodes.posterior[nodes.begin[k] : nodes.begin[k + 1]]
        m = len(posterior)
        find_polynomials(posterior, 0, low, step, m, one, two)
        for q in range(m):
            pulls[k] += posterior[q] * pull_of(low + q * step, 1.0)
        for c in range(starts[k], starts[k + 1]):
            raise_powers(nodes.first[c], nodes.ratio[c], m, e)
            for q in range(m):
                t, p, f = low + q * step, e[q] / (1.0 + e[q]), posterior[q]
                h, rest = weight[c] * pull_of(t, 1.0), s[c] - n[c] * p
                parts[c, CURVATURE] += f * h * t * n[c] * p * (1.0 - p)
                parts[c, PULL] += f * h * rest
                parts[c, PLAIN] += f * t * rest
                parts[c, MOVED] += f * h * rest * one[q]
                parts[c, MOVED + 1] += f * h * rest * two[q]
                parts[c, OF_PLAIN] += f * t * rest * one[q]
                parts[c, OF_PLAIN + 1] += f * t * rest * two[q]


@compiled
def scatter(first: int, last: int, starts: Indices, a: Ints, b: Ints, parts: Floats, rows: Floats) -> None:
    """Add the parts but the curvature, times (e_a − e_b), to the rows (6, last − first, n_models)."""
    for k in range(first, last):
        for c in range(starts[k], starts[k + 1]):
            for term in range(1, parts.shape[1]):
                rows[term - 1, k - first, a[c]] += parts[c, term]
                rows[term - 1, k - first, b[c]] -= parts[c, term]


@compiled
def curve_cells(
    first: int, last: int, starts: Indices, a: Ints, b: Ints, parts: Floats, X: Floats, out: Floats
) -> None:
    """Add curvature (e_a − e_b)(e_a − e_b)′ x of every cell to the row of its annotator, x the row of X."""
    for k in range(first, last):
        for c in range(starts[k], starts[k + 1]):
            amount = parts[c, CURVATURE] * (X[k - first, a[c]] - X[k - first, b[c]])
            out[k - first, a[c]] += amount
            out[k - first, b[c]] -= amount
