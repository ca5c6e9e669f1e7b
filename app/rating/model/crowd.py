"""The annotators of one part of the votes: their nodes, their posteriors, and what they say of the scores."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices, Mask
from app.rating.model.kernels import (
    FOLLOWER,
    MOST_NODES,
    Nodes,
    climb_abilities,
    fill_likelihoods,
    follow_ranking,
    spread_exponentials,
    weigh_nodes,
)
from app.rating.model.law import TYPES, Law, Posterior
from app.rating.model.score_kernels import ClusterSums, Rows, ScoreSums, Sides, find_clusters, find_contributions
from app.rating.sums import Sums
from app.rating.votes.cells import Cells

SHORT = 0.05  # length of a component's centred scores, natural units, below which stretching them says nothing
BLOCK = 256  # annotators whose rows are multiplied at once
DENSE_GAIN = 32.0  # how much faster a multiplication is in a dense product than in a sparse one
SPACING = 1.2  # posterior standard deviations between two nodes: means of squares are then exact to 1e-5
SPACING_OF_LAW = 0.6  # of the law's, at most: of a gamma law few nodes tell less than of a normal one
REACH = 4.2  # standard deviations that the nodes reach to both sides of the mode
BELOW, ABOVE = 5.0, 6.0  # standard deviations of the law that they reach
FURTHEST_MODE = 3.0
LEAST_NODES = 8
MODE_STEPS = 12  # of the search for each ability's mode, at most


@dataclass(frozen=True)
class Directions:
    """One direction for each component of the comparison graph: its centred scores, which stretch it.

    Attributes
    ----------
    label : component of each model, shape (n_models,)
    along : vectors of about unit length, a column a component, shape (n_models, n_components); shorter where all scores
        are nearly equal, so that no direction jumps
    length : by which the centred scores are divided, shape (n_components,)
    """

    label: Indices
    along: Floats
    length: Floats

    @classmethod
    def of(cls, R: Floats, label: Indices) -> "Directions":
        """Return the directions at these scores."""
        number = int(label.max(initial=0)) + 1
        inside = (label[:, None] == np.arange(number)).astype(np.float64)
        centred = R - (inside @ ((R @ inside) / np.maximum(inside.sum(axis=0), 1.0)))
        along = inside * centred[:, None]
        length = np.sqrt((along**2).sum(axis=0) + SHORT**2)
        return cls(label, along / length, length)

    def inside(self) -> Floats:
        """Return 1 where a model belongs to a component, shape (n_models, n_components)."""
        inside: Floats = (self.label[:, None] == np.arange(self.along.shape[1])).astype(np.float64)
        return inside

    @property
    def sides(self) -> Sides:
        """The directions as compiled loops read them."""
        return Sides(self.label, self.along, self.along.sum(axis=1))


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
    weighted_by_law : derivatives of `weighted` by the law's logarithms, in the order of `law.Found`, (n_models, 4)
    plain_by_law : those of `plain`, divided by the dispersion
    """

    weighted: Floats
    plain: Floats
    information: Floats
    known: Floats
    stretched: Floats
    known_stretched: Floats
    weighted_by_law: Floats
    plain_by_law: Floats


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


class AnnotatorPosteriors(NamedTuple):
    """Posteriors of the annotators, NaN without a vote; shape (n_annotators,), and (n_annotators, 4) of the types.

    Types without an ability count as 0.
    """

    mean: Floats
    sd: Floats
    types: Floats
    mode: Floats


class Crowd:
    """Annotators with their votes. `look` sets the nodes, `fill` the likelihoods at them, `weigh` the posteriors.

    Parameters
    ----------
    cells : sorted by annotator
    weight : of the votes of each cell in the equations of the scores, shape (n_cells,)
    temper : 1/dispersion of the votes
    ranking : scores that a follower follows, whatever the scores found: so the equations are smooth
    mode : of the abilities, to begin from; default 1

    Attributes
    ----------
    nodes : with the posteriors
    types : probability of each type, shape (n_annotators, 4)
    """

    def __init__(
        self, cells: Cells, weight: Floats, temper: float, ranking: Floats, mode: Floats | None = None
    ) -> None:
        self.cells, self.weight, self.temper = cells, weight, temper
        number = cells.n_annotators
        self.silent: Mask = np.diff(cells.starts) == 0
        self.mode = np.ones(number) if mode is None else mode.copy()
        self._information, self._extra = np.zeros(number), np.zeros((number, 2))
        self.types = np.zeros((number, len(TYPES)))
        nothing = np.empty(0)
        begin = np.zeros(1, dtype=np.int64)
        first, ratio = np.empty((2, len(cells.n)))
        self.nodes = Nodes(nothing, nothing, begin, first, ratio, nothing, nothing, nothing)
        follow_ranking(cells.arrays, ranking, temper, self._extra)
        width = np.minimum(2.0 * np.diff(cells.starts), cells.n_models)
        dense = width**2 * DENSE_GAIN > float(cells.n_models) ** 2
        self._sparse, self._dense = np.flatnonzero(~dense & ~self.silent), np.flatnonzero(dense & ~self.silent)

    def leave_followers_out(self) -> None:
        """Take no annotator for a follower."""
        self._extra[:, FOLLOWER] = -np.inf

    def look(self, R: Floats, spread: float) -> None:
        """Set an even grid of nodes around the mode of each annotator's ability; 0 lies midway between two nodes.

        It covers the votes' likelihood and the honest law, also mirrored, where the votes say little.
        """
        climb_abilities(self.cells.arrays, R, self.temper, MODE_STEPS, self.mode, self._information)
        self.set_nodes(spread)

    def set_nodes(self, spread: float) -> None:
        """Set the nodes from the modes and the information of the votes."""
        mode = np.clip(self.mode, -FURTHEST_MODE, FURTHEST_MODE)
        wide = REACH / np.sqrt(1.0 + self._information)
        low = np.maximum(mode - wide, np.minimum(-1.0 - BELOW * spread, mode))
        high = np.minimum(mode + wide, np.maximum(1.0 + ABOVE * spread, mode))
        step = np.minimum(SPACING / np.sqrt(1.0 / spread**2 + self._information), SPACING_OF_LAW * spread)
        step = np.maximum(step, (high - low) / (MOST_NODES - 2))
        first = np.floor(low / step) + 0.5
        size = 4 * np.ceil((high / step - first + 1.0) / 4.0).astype(np.int64)
        begin = np.append(0, np.cumsum(np.clip(size, LEAST_NODES, MOST_NODES)))
        table, posterior = np.zeros((2, begin[-1]))
        nodes = self.nodes._replace(low=first * step, step=step, begin=begin, table=table, posterior=posterior)
        self.nodes = nodes._replace(log=np.log(np.abs(thetas(nodes))))

    def fill(self, R: Floats) -> None:
        """Compute the likelihoods at the nodes."""
        spread_exponentials(self.cells.arrays, R, self.nodes)
        fill_likelihoods(self.cells.arrays, R, self.temper, self.nodes)

    def stretch(self, factor: float) -> None:
        """Take the scores as so many times as far apart: then abilities of the same likelihoods are so much smaller."""
        nodes, self.mode = self.nodes, self.mode / factor
        self.nodes = nodes._replace(low=nodes.low / factor, step=nodes.step / factor, log=nodes.log - np.log(factor))

    def weigh(self, law: Law) -> Posterior:
        """Set the posteriors under a law; return their sums."""
        return Posterior(*weigh_nodes(self.nodes, self._extra, self.silent, law.numbers(), self.types))

    def contribute(self, directions: Directions, law: Law) -> Contributions:
        """Return what the annotators say of the scores."""
        return self._contribute(directions, law, draft=False)

    def draft(self, directions: Directions, law: Law) -> Contributions:
        """Return the same, without what abilities and law take from the information."""
        return self._contribute(directions, law, draft=True)

    def _contribute(self, directions: Directions, law: Law, *, draft: bool) -> Contributions:
        size, components = directions.along.shape
        sums = ScoreSums(
            np.zeros((size, 12)), np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, components))
        )  # fmt: skip
        everyone = np.concatenate([self._sparse, self._dense]), np.empty((2, 0, size), dtype=np.float32)
        for who, rows in [everyone] if draft else self._blocks((2, 2 * BLOCK, size)):
            some = rows.reshape(-1)[: 4 * len(who) * size].reshape(2, -1, size) if rows.size else rows  # contiguous
            find_contributions(
                who, self.cells.arrays, self.weight, self.temper, self.nodes, self.types,
                law.numbers(), directions.sides, sums, some, draft,
            )  # fmt: skip
            if rows.size:
                sums.known[:] += some[0].T @ some[1]
        _, weighted, plain, stretched, by_spread, plain_by_contrary, plain_by_spread, *falling = sums.by_model.T
        coin, contrary, follower, plain_coin, plain_follower = (-each for each in falling)
        return Contributions(
            weighted, plain, laplacian(sums.information), sums.known, stretched, sums.known_stretched,
            np.stack([coin, contrary, follower, by_spread], axis=1),
            np.stack([plain_coin, plain_by_contrary, plain_follower, plain_by_spread], axis=1),
        )  # fmt: skip

    def cluster(self, directions: Directions, information: Floats) -> Clusters:
        """Return what the annotators add to the errors.

        Parameters
        ----------
        information : Σ w n E[h θ p (1 − p)] of each model over all annotators, shape (n_models,)
        """
        (size, components), along = directions.along.shape, directions.along
        sums = ClusterSums(
            np.zeros((size, size)), np.zeros((size, size)), np.zeros(size), np.zeros(size),
            np.zeros((size, components)), np.zeros((components, components)),
        )  # fmt: skip
        for who, rows in self._blocks((BLOCK, size)):
            some = rows[: len(who)] if rows.size else rows
            find_clusters(
                who, self.cells.arrays, self.weight, self.temper, self.nodes, information,
                directions.sides, sums, some,
            )  # fmt: skip
            if rows.size:
                sums.meat[:] += some.T @ some
        crossed = sums.crossed @ along.T
        meat = sums.meat + crossed + crossed.T + along @ sums.scales @ along.T
        return Clusters(meat, laplacian(sums.by_vote), sums.shares, sums.judges)

    def abilities(self, *, followers: bool = False) -> AnnotatorPosteriors:
        """Return the posteriors of the annotators.

        Parameters
        ----------
        followers : count a follower's ability by what the votes alone say of it; else as 0, as in the equations
        """
        theta = thetas(self.nodes)
        mean, square = (np.add.reduceat(self.nodes.posterior * x, self.nodes.begin[:-1]) for x in (theta, theta**2))
        if followers:
            share = self.types[:, TYPES.index("follower")]
            mean += share * self.mode
            square += share * (self.mode**2 + 1.0 / (1.0 + self._information))
        variance = np.maximum(square - mean**2, 0.0)
        mean[self.silent] = variance[self.silent] = np.nan
        return AnnotatorPosteriors(mean, np.sqrt(variance), self.types, self.mode)

    def _blocks(self, shape: tuple[int, ...]) -> Iterator[tuple[Indices, Rows]]:
        """Yield annotators of few models, with no rows, and some at a time of the others, with rows to fill."""
        yield self._sparse, np.empty((*shape[:-2], 0, shape[-1]), dtype=np.float32)
        rows = np.empty(shape if len(self._dense) else (0,), dtype=np.float32)
        for first in range(0, len(self._dense), BLOCK):
            yield self._dense[first : first + BLOCK], rows


def laplacian(pairs: Floats) -> Floats:
    """Return Σ pairs_ab (e_a − e_b)(e_a − e_b)′ of a table with a < b, shape (n_models, n_models)."""
    both = pairs + pairs.T
    return np.diag(both.sum(axis=0)) - both


def thetas(nodes: Nodes) -> Floats:
    """Return the abilities of all nodes, shape (nodes.begin[−1],)."""
    size = np.diff(nodes.begin)
    place = np.arange(nodes.begin[-1]) - np.repeat(nodes.begin[:-1], size)
    found: Floats = np.repeat(nodes.low, size) + place * np.repeat(nodes.step, size)
    return found
