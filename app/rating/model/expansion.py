"""What one annotator and one vote say of the scores at a fit: the equations' parts, cell by cell."""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices, Ints, Mask, sum_by
from app.rating.compiled import compiled
from app.rating.model.crowd import Crowd
from app.rating.model.kernels import MOST_NODES, Nodes, raise_powers
from app.rating.model.score_kernels import pull_of
from app.rating.model.scores import MarginalFit
from app.rating.model.start import balance, fit_bradley_terry
from app.rating.model.weights import weigh_votes
from app.rating.threads import map_parts
from app.rating.votes.cells import CellArrays, Cells

CHUNK = 512  # annotators whose rows are held at once
CURVATURE, PULL, PLAIN, MOVED, PLAIN_MOVED = range(5)
"""Columns of the parts of a cell: E[h θ n p (1 − p)], and with r = s − n p, E[h r], E[θ r], and of z, θ standardised,
E[z h r] and E[z θ r]."""
COLUMNS = 5


class OwnRows(NamedTuple):
    """Rows over the models of some annotators, shape (n, n_models) each.

    Attributes
    ----------
    u : what the votes add to the scores' equations
    moved : what a standard deviation of the ability adds
    """

    u: Floats
    moved: Floats


class Expansion:
    """The parts of the equations at a fit, and what a change of them does to the scores.

    Parameters
    ----------
    cells : the fit's
    influence_limit : the fit's
    among : annotators to expand the equations of, shape (n_annotators,); default all

    Attributes
    ----------
    trust, weight : of the votes of each cell, shape (n_cells,)
    pull, ability, ability_sd : E[h(θ)], E[θ] and the standard deviation of θ, shape (n_annotators,)
    bread : the inverse Jacobian, shape (n_models, n_models)
    """

    def __init__(
        self, cells: Cells, fit: MarginalFit, influence_limit: float | None, among: Mask | None = None
    ) -> None:
        weight, self._ranking = weigh_votes(cells, influence_limit), fit_bradley_terry(balance(cells.trusted()))
        if among is not None:
            some = among[cells.annotator]
            weight, cells = weight[some], cells.where(some)
        self.trust = np.ones(len(cells.n)) if cells.trust is None else cells.trust
        self.weight, cells = weight, cells.trusted()
        self.cells, self.fit, self.temper = cells, fit, 1.0 / fit.dispersion
        self.directions = fit.directions
        self.parts = np.zeros((len(cells.n), COLUMNS))
        self.pull, self.ability, self.ability_sd = np.zeros((3, cells.n_annotators))
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
        """Yield `moved` of some annotators at a time: first, last + 1, and the rows."""
        for first in range(0, self.cells.n_annotators, CHUNK):
            last = min(first + CHUNK, self.cells.n_annotators)
            yield first, last, self.moved(np.arange(first, last))

    def moved(self, some: Indices) -> Floats:
        """Return what a unit of dℓ_k/dθ moves the u of these annotators by, shape (n, n_models).

        The ability's posterior moves; and along the scores a vote pulls by θ, not by h.
        """
        bend = (self.directions.along / self.directions.length).sum(axis=1)
        moved: Floats = self.temper * self.ability_sd[some, None] * self.own(some).moved
        return moved + np.outer(self.ability[some] - self.pull[some], bend)

    def own(self, some: Indices) -> OwnRows:
        """Return the rows of these annotators."""
        c = self.cells
        rows = np.zeros((COLUMNS, len(some), len(self.fit.R)))
        scatter(some, c.starts, c.model_a, c.model_b, self.parts, rows)
        return OwnRows(self._stretch(rows[PULL], rows[PLAIN]), self._stretch(rows[MOVED], rows[PLAIN_MOVED]))

    def _stretch(self, weighted: Floats, plain: Floats) -> Floats:
        """Return the rows of the weighted votes, but for each component's stretch those of the plain ones."""
        along = self.directions.along
        stretched: Floats = weighted + (plain - weighted) @ along @ along.T
        return stretched

    def information(self, annotator: int) -> Floats:
        """Return what one annotator's votes say of each score, abilities known, shape (n_models,)."""
        c, size, mine = self.cells, len(self.fit.R), slice(*self.cells.starts[[annotator, annotator + 1]])
        amount = self.parts[mine, CURVATURE]
        return sum_by(c.model_a[mine], amount, size) + sum_by(c.model_b[mine], amount, size)


@compiled
def expand_cells(cells: CellArrays, weight: Floats, nodes: Nodes, parts: Floats, pulls: Floats) -> None:
    """Set the parts (n_cells, 5) of every cell, and E[h(θ)] of every annotator."""
    starts, n, s = cells.starts, cells.n, cells.s
    e = np.empty(MOST_NODES)
    for k in range(len(pulls)):
        if starts[k] == starts[k + 1]:
            continue
        low, step, posterior = nodes.low[k], nodes.step[k], nodes.posterior[nodes.begin[k] : nodes.begin[k + 1]]
        m = len(posterior)
        mean = square = 0.0
        for q in range(m):
            t = low + q * step
            mean += posterior[q] * t
            square += posterior[q] * t * t
        sd = np.sqrt(max(square - mean * mean, 1e-12))
        for q in range(m):
            pulls[k] += posterior[q] * pull_of(low + q * step)
        for c in range(starts[k], starts[k + 1]):
            raise_powers(nodes.first[c], nodes.ratio[c], m, e)
            for q in range(m):
                t, p, f = low + q * step, e[q] / (1.0 + e[q]), posterior[q]
                h, rest = weight[c] * pull_of(t), s[c] - n[c] * p
                z = (t - mean) / sd
                parts[c, CURVATURE] += f * h * t * n[c] * p * (1.0 - p)
                parts[c, PULL] += f * h * rest
                parts[c, PLAIN] += f * t * rest
                parts[c, MOVED] += f * h * rest * z
                parts[c, PLAIN_MOVED] += f * t * rest * z


@compiled
def scatter(some: Indices, starts: Indices, a: Ints, b: Ints, parts: Floats, rows: Floats) -> None:
    """Add the parts of some annotators, times (e_a − e_b), to the rows (5, n, n_models)."""
    for place in range(len(some)):
        for c in range(starts[some[place]], starts[some[place] + 1]):
            for term in range(COLUMNS):
                rows[term, place, a[c]] += parts[c, term]
                rows[term, place, b[c]] -= parts[c, term]
