"""How much one annotator or one vote changes the scores, by one step from the fit instead of a new fit."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, Indices, sum_by
from app.rating.model.expansion import CURVATURE, Expansion
from app.rating.model.scores import MarginalFit
from app.rating.plain.information import find_information
from app.rating.plain.m_elo import shift_projector
from app.rating.threads import map_parts, one_blas_thread
from app.rating.uncertainty.results import Estimate
from app.rating.units import ELO_PER_NATURAL

VoteChange = Literal["dropped", "flipped", "added"]
"""Of one vote: taken away, its verdict turned round (a tie stays one), or a new one by an annotator on a known pair."""

VERDICTS = np.array([1.0, 0.5, 0.0])  # W of each kind of vote: for model_a, a tie, for model_b
TINY = 1e-12
CHUNK = 512  # annotators whose removals are computed together


@dataclass(frozen=True)
class VoteGroups:
    """Changes of votes, equal ones of a cell as one group: arrays of shape (n_groups,).

    Attributes
    ----------
    cell : index of the cell
    kind : of the vote: 0 for model_a, 1 a tie, 2 for model_b
    size : number of such changes in the cell, > 0; as many votes can be added as the annotator cast on the pair
    residual : what one takes from W − p, p the probability of a win for model_a
    """

    cell: Indices
    kind: Indices
    size: Floats
    residual: Floats


@dataclass(frozen=True)
class PromptGroups:
    """The votes of each prompt, of which all are dropped: arrays of shape (n_rows,).

    Attributes
    ----------
    cell : index of the cell
    prompt : from 0 on
    residual : Σ (W − p) of the prompt's votes in the cell, as much larger as the other prompts' information is smaller
    number : of prompts
    """

    cell: Indices
    prompt: Indices
    residual: Floats
    number: int


class Influence(ABC):
    """A fit, and what follows from it for a small change of the votes.

    Models and annotators have the indices of `rating.small`. One vote's residual r taken away moves contrast·R by
    −r (pull (y_a − y_b) − along d q_k), d = R_a − R_b, y of `solve` and q of `shares`.

    Attributes
    ----------
    bread : what a unit of each score's equation moves the scores by, shape (n_models, n_models)
    pull, along : of each cell, shape (n_cells,)
    """

    bread: Floats
    pull: Floats
    along: Floats
    _share: Floats
    _amount: Floats

    def __init__(self, rating: Estimate) -> None:
        self.rating, cells, R = rating, rating.small.cells, rating.fit.R
        self._d = R[cells.model_a] - R[cells.model_b]
        self.component = rating.components.label[rating.small.models]
        self._across = np.eye(len(R)) - shift_projector(self.component)

    def solve(self, contrasts: Floats) -> Floats:
        """Return what a unit of each score's equation moves contrast·R by; contrasts are columns, or one vector."""
        solved: Floats = self.bread.T @ contrasts
        return solved

    @abstractmethod
    def shares(self, Y: Floats) -> Floats:
        """Return q of each annotator for each column of Y, shape (n_annotators, m)."""

    @abstractmethod
    def rows(self, some: slice) -> Floats:
        """Return what each of these annotators adds to the scores' equations, shape (n, n_models)."""

    def unit(self, some: slice) -> Floats:  # noqa: ARG002  a fit with abilities integrated out has the crowd's
        """Return how far the scores stretch in the unit of the others, without each of these annotators."""
        return np.zeros(1)

    def without(self, left_out: slice) -> Floats:
        """Return the change of the scores without each of these annotators, natural units.

        It is −J⁻¹u_k/(1 − h_k), h_k the annotator's share of the information on a component: the equations bend, and a
        Newton step with the others' Jacobian alone goes too far.
        """
        share = self._share[left_out]
        left = np.where(share < 1.0 - TINY, 1.0 - share, np.nan)[:, self.component]
        change: Floats = self.unit(left_out) - self.rows(left_out) @ self.bread.T / left
        return change @ self._across

    def _share_information(self, amount: Floats) -> Floats:
        """Keep the information of each cell; return each annotator's share of it on each component."""
        self._amount = amount
        cells, number = self.rating.small.cells, int(self.component.max(initial=0)) + 1
        key = cells.annotator.astype(np.int64) * number + self.component[cells.model_a]
        own = sum_by(key, amount, cells.n_annotators * number).reshape(-1, number)
        share: Floats = own / np.maximum(own.sum(axis=0), TINY)
        return share

    def vote_groups(self, change: VoteChange = "dropped") -> VoteGroups:
        """Return the changes of one way that the votes behind the scores allow."""
        cells, none = self.rating.small.cells, np.zeros(len(self._d))
        kinds = [cells.n, none, cells.n] if change == "added" else [cells.wins_a, cells.ties, cells.wins_b]
        size = np.stack(kinds, axis=1)
        cell, kind = np.nonzero(size > 0)
        W, p = VERDICTS[kind], expit(self.rating.fit.theta[cells.annotator] * self._d)[cell]
        residual = {"dropped": W - p, "flipped": 2.0 * W - 1.0, "added": p - W}[change]
        return VoteGroups(cell, kind, size[cell, kind], residual)

    def prompt_groups(self) -> PromptGroups | None:
        """Return the votes behind the scores by prompt; None where no prompt is known."""
        known = self.rating.prompts
        if known is None or not len(known.prompt):
            return None
        cells, cell = known.cells, known.place_in(self.rating.small.cells)
        numbers, prompt = np.unique(known.prompt, return_inverse=True)
        p = expit(self.rating.fit.theta[cells.annotator] * self._d[cell])
        amount = self._amount[cell] * cells.n / self.rating.small.cells.n[cell]
        left = 1.0 - sum_by(prompt, amount, len(numbers)) / max(float(self._amount.sum()), TINY)
        residual = np.divide(cells.s - cells.n * p, left[prompt], out=np.zeros(len(p)), where=left[prompt] > TINY)
        return PromptGroups(cell, prompt, residual, len(numbers))

    def of_votes(self, contrast: Floats, change: VoteChange = "dropped") -> Floats:
        """Return the influence of one vote of each group on contrast·R: how far contrast·R falls once it is changed.

        Parameters
        ----------
        contrast : shape (n_models,), sums to 0 in each component
        change : how the vote is changed

        Returns
        -------
        float array, shape (n_groups,), natural units, in the order of `vote_groups`
        """
        y, votes = self.solve(contrast), self.vote_groups(change)
        influences: Floats = votes.residual * self.moved(y, self.shares(y[:, None])[:, 0])[votes.cell]
        return influences

    def moved(self, y: Floats, q: Floats) -> Floats:
        """Return what a unit of residual that is taken from each cell moves contrast·R by, shape (n_cells,)."""
        cells = self.rating.small.cells
        moved: Floats = self.pull * (y[cells.model_a] - y[cells.model_b]) - self.along * self._d * q[cells.annotator]
        return moved


class MarginalInfluence(Influence):
    """Of a fit in which abilities are integrated out; the crowd's law stays as it is."""

    def __init__(self, rating: Estimate, marginal: MarginalFit) -> None:
        super().__init__(rating)
        cells = rating.small.cells
        self.expansion = Expansion(cells, marginal, rating.settings.influence_limit)
        self.bread = self.expansion.bread
        self.along = self.expansion.trust
        self.pull = self.along * self.expansion.weight * self.expansion.pull[cells.annotator]
        self._share = self._share_information(self.expansion.parts[:, CURVATURE])

    def shares(self, Y: Floats) -> Floats:
        """Return q of each annotator for each column of Y, shape (n_annotators, m)."""
        return self.expansion.shares(Y)

    def rows(self, some: slice) -> Floats:
        """Return u of these annotators."""
        return self.expansion.own(np.arange(some.start, some.stop)).u


class PlainInfluence(Influence):
    """Of scores at known abilities, or that are maximised together with the abilities."""

    def __init__(self, rating: Estimate) -> None:
        super().__init__(rating)
        cells, fit = rating.small.cells, rating.fit
        self.pull, self.along = fit.theta[cells.annotator], np.ones(len(cells.n))
        self.found = find_information(cells, fit, self.component, has_abilities=rating.has_abilities)
        self.bread = self.found.inverse
        self.gradient = self.found.likelihood.rows(self.found.likelihood.contributions(fit.R, fit.theta))
        self._share = self._share_information(self.found.point.variance * self.pull**2)

    def shares(self, Y: Floats) -> Floats:
        """Return q = Q B Y of each annotator for each column of Y, shape (n_annotators, m)."""
        found = self.found
        if not self.rating.has_abilities:
            return np.zeros((len(found.inverse_D), Y.shape[1]))
        q: Floats = found.inverse_D[:, None] * (found.cross @ Y - (found.Z @ Y)[found.groups.annotators])
        return q

    def rows(self, some: slice) -> Floats:
        """Return the gradient by the scores of these annotators' votes."""
        rows: Floats = self.gradient[some].toarray()
        return rows

    def unit(self, some: slice) -> Floats:
        """Return how far the scores stretch, in units of the others' mean ability."""
        groups, fit = self.found.groups, self.rating.fit
        mine, others = groups.annotators[some], groups.sum(np.ones(len(fit.theta))) - 1.0
        pull = (fit.theta[some] - 1.0) * (self.found.inverse_D[some] > 0.0) / np.maximum(others[mine], 1.0)
        stretch: Floats = -np.where(groups.models == mine[:, None], fit.R, 0.0) * pull[:, None]
        return stretch


@one_blas_thread()
def find_influence(rating: Estimate) -> Influence:
    """Expand the equations of the scores at a fit.

    Raises
    ------
    NotConvergedError
        The fit is at a saddle point.
    """
    return PlainInfluence(rating) if rating.marginal is None else MarginalInfluence(rating, rating.marginal)


def leave_annotators_out(influence: Influence) -> Floats:
    """Return the change of every published score if one annotator's votes were removed, for every annotator.

    One step from the fit; with abilities as known, or maximised, ability 1 is then the mean of the others.

    Returns
    -------
    float array, shape (n_annotators, n_models), Elo points, indices as in `rating.small`
        Groups of models that only one annotator links keep their distance without that annotator. NaN for a single
        annotator, and on components that no other annotator informs about.

    Notes
    -----
    O(n_cells + n_annotators × n_models²), memory n_annotators × n_models.

    References
    ----------
    Koh, Ang, Teo and Liang (2019), on one-step approximations for groups; Pregibon (1981).
    """
    cells = influence.rating.small.cells
    if cells.n_annotators == 1:
        return np.full((1, cells.n_models), np.nan)  # no vote would remain
    change = np.empty((cells.n_annotators, cells.n_models))

    def fill(first: int) -> None:
        left_out = slice(first, min(first + CHUNK, cells.n_annotators))
        change[left_out] = influence.without(left_out)

    with one_blas_thread():
        map_parts(fill, range(0, cells.n_annotators, CHUNK))
    return ELO_PER_NATURAL * change
