"""The annotators of one part of the votes: their nodes, their posteriors, and what they say of the scores."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Indices, Mask
from app.rating.model.kernels import (
    FOLLOWER,
    LARGEST_SHARE,
    MOST_NODES,
    climb_abilities,
    fill_likelihoods,
    find_contributions,
    pulls_of,
    share_information,
    weigh_nodes,
)
from app.rating.model.law import TYPES, Law, Posterior
from app.rating.sums import Sums
from app.rating.votes.cells import Cells

LEAST_LENGTH = 1e-9  # of a component's centred scores, below which nothing can be stretched
BLOCK = 256  # annotators whose contributions are held at once
SPACING = 1.3  # posterior standard deviations between two nodes: the trapezoid rule is then exact to 1e-4
REACH = 4.2  # standard deviations that the nodes reach to both sides

FURTHEST_MODE = 3.0
LEAST_NODES = 8
MODE_STEPS = 12  # of the search for each ability's mode, at most


@dataclass(frozen=True)
class Directions:
    """One direction for each component of the comparison graph: its centred scores, which stretch it.

    Attributes
    ----------
    label : component of each model, shape (n_models,)
    along : unit vectors, a column a component, shape (n_models, n_components); 0 where all scores are equal
    """

    label: Indices
    along: Floats

    @classmethod
    def of(cls, R: Floats, label: Indices) -> "Directions":
        """Return the directions at these scores."""
        number = int(label.max(initial=0)) + 1
        inside = (label[:, None] == np.arange(number)).astype(np.float64)
        centred = R - (inside @ ((R @ inside) / np.maximum(inside.sum(axis=0), 1.0)))
        along = inside * centred[:, None]
        length = np.sqrt((along**2).sum(axis=0))
        return cls(label, along / np.where(length > LEAST_LENGTH, length, np.inf))

    def inside(self) -> Floats:
        """Return 1 where a model belongs to a component, shape (n_models, n_components)."""
        inside: Floats = (self.label[:, None] == np.arange(self.along.shape[1])).astype(np.float64)
        return inside


@dataclass(frozen=True)
class Contributions(Sums):
    """What the annotators say of the scores.

    Attributes
    ----------
    weighted : Σ_k u_k, shape (n_models,), with the pull h(θ) of an ability and the weights of votes
    plain : the same with the pull θ and full weights: the gradient of the marginal likelihood
    information : Σ n E[h θ p (1 − p)] (e_a − e_b)(e_a − e_b)′, with the weights
    known : Σ_k Cov_k(u_k, dℓ_k/dR): what the abilities, not being known, take from it. Not symmetric
    stretched : the information of `plain`, times the direction of each model's component, shape (n_models,)
    known_stretched : what the abilities take from it, times each direction, shape (n_models, n_components)
    """

    weighted: Floats
    plain: Floats
    information: Floats
    known: Floats
    stretched: Floats
    known_stretched: Floats


@dataclass(frozen=True)
class Clusters(Sums):
    """What the annotators, as clusters, add to the errors.

    Attributes
    ----------
    meat : Σ_k u_k u_k′/(1 − h_k), shape (n_models, n_models)
    by_vote : the votes as independent, as far as few annotators have most of the information on a model
    shares : Σ_k h_k² of each model, h_k the share of annotator k in the information on it
    judges : annotators with a vote on each model
    """

    meat: Floats
    by_vote: Floats
    shares: Floats
    judges: Floats


class Crowd:
    """Annotators with their votes. `look` sets the nodes, `fill` the likelihoods at them, `settle` the posteriors.

    Parameters
    ----------
    cells : sorted by annotator
    weight : of the votes of each cell in the equations of the scores, shape (n_cells,)
    temper : 1/dispersion of the votes

    Attributes
    ----------
    followers : whether an annotator may be one. Where the votes are few, who follows can change with each step
    posterior : weights of the nodes, shape (n_annotators, nodes); with the types that have no node they add up to 1
    types : probability of each type, shape (n_annotators, 4)
    """

    def __init__(self, cells: Cells, weight: Floats, temper: float) -> None:
        self.cells, self.weight, self.temper, self.followers = cells, weight, temper, True
        number = cells.n_annotators
        self._votes = (cells.starts, cells.model_a, cells.model_b, cells.n, cells.s)
        self._silent = np.diff(cells.starts) == 0
        self.mode, self._information = np.ones(number), np.zeros(number)
        self._table, self._extra = np.zeros((number, MOST_NODES)), np.zeros((number, 2))
        self.posterior, self.types = np.zeros((number, MOST_NODES)), np.zeros((number, len(TYPES)))

    def look(self, R: Floats, spread: float) -> None:
        """Set an even grid of nodes around the mode of each annotator's ability.

        It covers the votes' likelihood and the honest law, also mirrored, where the votes say little.
        """
        climb_abilities(*self._votes, R, self.temper, MODE_STEPS, self.mode, self._information)
        self._set_nodes(spread)

    def _set_nodes(self, spread: float) -> None:
        mode = np.clip(self.mode, -FURTHEST_MODE, FURTHEST_MODE)
        wide = REACH / np.sqrt(1.0 + self._information)
        low = np.maximum(mode - wide, np.minimum(-1.0 - 6.0 * spread, mode))
        high = np.minimum(mode + wide, np.maximum(1.0 + 6.0 * spread, mode))
        spacing = SPACING / np.sqrt(1.0 / spread**2 + self._information)
        size = np.clip(4 * np.ceil((high - low) / spacing / 4.0).astype(np.int64), LEAST_NODES, MOST_NODES)
        self._nodes = (low, (high - low) / (size - 1), size)

    @property
    def grid(self) -> tuple[Floats, Floats, Indices]:
        """Lowest node, distance of two and number of nodes of every annotator, shape (n_annotators,) each."""
        return self._nodes

    def leave_followers_out(self) -> None:
        """Take no annotator for a follower."""
        self.followers = False

    def fill(self, R: Floats) -> None:
        """Compute the likelihoods at the nodes and of the types without an ability."""
        fill_likelihoods(*self._votes, R, self.temper, *self._nodes, self._table, self._extra)
        if not self.followers:
            self._extra[:, FOLLOWER] = -np.inf

    def weigh(self, law: Law, *, settle: bool = False) -> Posterior:
        """Return the sums of the posteriors under a law; `settle` keeps the posteriors."""
        number, square, value = weigh_nodes(
            self._table, self._extra, *self._nodes, self._silent, law.shares, law.centre, law.spread, law.log_above,
            self.posterior, self.types, settle,
        )  # fmt: skip
        return Posterior(number, square, value)

    def contribute(self, R: Floats, directions: Directions, strength: float, *, full: bool) -> Contributions:
        """Return what the annotators say of the scores; the matrices only where `full`."""
        size, along = len(R), directions.along
        found = no_contributions(size, along.shape[1])
        stretch = along[np.arange(size), directions.label]
        for _first, _last, rows in self._blocks(R, stretch, strength, found, full=full):
            found.weighted[:] += rows[0].sum(axis=0)
            found.plain[:] += rows[1].sum(axis=0)
            if full:
                half = 1 + len(rows) // 2
                for of_scores, own in zip(rows[2:half], rows[half:], strict=True):
                    found.known[:] += of_scores.T @ own
                    found.known_stretched[:] += own.T @ (own @ along) / self.temper
        return found

    def cluster(self, R: Floats, directions: Directions, information: Floats) -> Clusters:
        """Return what the annotators add to the errors.

        Parameters
        ----------
        information : Σ w n E[h θ p (1 − p)] of each model over all annotators, shape (n_models,)
        """
        size, along = len(R), directions.along
        meat, by_vote, shares, judges = np.zeros((size, size)), np.zeros((size, size)), np.zeros(size), np.zeros(size)
        stretch, nothing = along[np.arange(size), directions.label], no_contributions(size, along.shape[1])
        pulled, square = self.mean_of_pulls()
        odds = np.sqrt(pulled)[self.cells.annotator] * (R[self.cells.model_a] - R[self.cells.model_b])
        for first, last, rows in self._blocks(R, stretch, 1.0, nothing, full=False):
            share = np.zeros((last - first, size))
            share_information(
                first,
                last,
                *self._votes[:4],
                self.weight,
                odds,
                self.temper,
                pulled,
                square,
                information,
                share,
                by_vote,
            )
            own = rows[0] + ((rows[1] - rows[0]) @ along @ along.T)
            own /= np.sqrt(1.0 - np.minimum(share, LARGEST_SHARE))
            meat += own.T @ own
            shares += (share**2).sum(axis=0)
            judges += (share > 0.0).sum(axis=0)
        return Clusters(meat, by_vote, shares, judges)

    def silent(self) -> Mask:
        """Mark annotators without votes, shape (n_annotators,)."""
        silent: Mask = self._silent
        return silent

    def nodes(self) -> Floats:
        """Return the abilities of the nodes, shape (n_annotators, nodes)."""
        low, step, _ = self._nodes
        nodes: Floats = low[:, None] + np.arange(MOST_NODES) * step[:, None]
        return nodes

    def ability(self) -> Floats:
        """Return E[θ_k | votes], types without an ability at 0, shape (n_annotators,)."""
        mean: Floats = (self.posterior * self.nodes()).sum(axis=1)
        return mean

    def square(self) -> Floats:
        """Return E[θ_k² | votes], shape (n_annotators,)."""
        square: Floats = (self.posterior * self.nodes() ** 2).sum(axis=1)
        return square

    def mean_of_pulls(self) -> tuple[Floats, Floats]:
        """Return E[h θ] and E[h²] of every annotator, h(θ) the pull of an ability, shape (n_annotators,) each."""
        nodes = self.nodes()
        pull = pulls_of(nodes)
        return (self.posterior * pull * nodes).sum(axis=1), (self.posterior * pull**2).sum(axis=1)

    def _blocks(
        self, R: Floats, stretch: Floats, strength: float, found: Contributions, *, full: bool
    ) -> Iterator[tuple[int, int, Floats]]:
        """Yield what some annotators at a time contribute, and add the matrices to `found`.

        Rows of u, of u with the pull θ, and where `full` of the polynomials' coefficients of u (2) and of dℓ/dR (2).
        """
        rows = np.empty((6 if full else 2, BLOCK, len(R)))
        for first in range(0, self.cells.n_annotators, BLOCK):
            last = min(first + BLOCK, self.cells.n_annotators)
            some = rows[:, : last - first]
            some.fill(0.0)
            find_contributions(
                first, last, *self._votes, self.weight, R, self.temper, *self._nodes, self.posterior, strength, full,
                stretch, found.information, found.stretched, some,
            )  # fmt: skip
            yield first, last, some


def no_contributions(size: int, components: int) -> Contributions:
    """Return what no annotator says."""
    nothing, matrix = np.zeros((3, size)), np.zeros((2, size, size))
    return Contributions(nothing[0], nothing[1], matrix[0], matrix[1], nothing[2], np.zeros((size, components)))
