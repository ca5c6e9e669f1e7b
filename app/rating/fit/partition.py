"""Some annotators of a fit, with everything of the size of their votes: the work that runs beside the data."""

from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from app.rating.arrays import Floats, Indices, Mask, sum_by
from app.rating.fit.abilities import ProfiledAbilities, profile_annotators
from app.rating.fit.kernels import balance_pairs, expand_cells, update_abilities
from app.rating.fit.rows import CellRows
from app.rating.fit.scale import LEAST_CURVATURE, WIDTH, sum_typical
from app.rating.votes.cells import Cells

BEYOND = 1e-12  # a step that passes the cap by less than this does so by rounding
MOST_DEPARTURES = 3  # from the cap in one step, so that the search for those it holds ends
LEAVES = 1e-9  # gradient, relative to the likelihood's, below which an ability at the cap stays there
NO_CURVATURE = 1e-300  # its inverse is finite
LONG = 10.0  # times the average squared length of a step in standard errors; for shorter ones Newton's method is quick
NEAR = 1e-6  # step of an ability after which its error is of the square of it


class Sums:
    """Sums over annotators; those of two partitions add up field by field."""

    def __add__(self, other: Self) -> Self:
        """Add the sums of two partitions."""
        return type(self)(*(getattr(self, x.name) + getattr(other, x.name) for x in fields(self)))  # type: ignore[arg-type]  # a dataclass


@dataclass(frozen=True)
class Point(Sums):
    """The objective at (R, θ), and its derivatives by R.

    Attributes
    ----------
    value : −ℓ + prior
    violation : Σ tanh((θ − 1)/0.3) of each scale group: 0 where the typical ability is 1
    gradient : shape (n_models,)
    stiffness : Σ w θ² of the votes between each pair of models, at a · n_models + b, shape (n_models²,)
    """

    value: float
    violation: Floats
    gradient: Floats
    stiffness: Floats


@dataclass(frozen=True)
class Eliminated(Sums):
    """What the abilities, once eliminated, add to the system of the scores; free abilities are those not held.

    Attributes
    ----------
    product : Σ BᵀB/D of the free, shape (n_models, n_models)
    along : Σ B v/D of the free, shape (n_models,)
    moved : Σ B g/D of the free − Σ B (cap − θ) of the held, shape (n_models,)
    free : number of the free, for each scale group
    size : Σ v²/D of the free, for each scale group
    slack : Σ v (cap − θ) of the held − Σ v g/D of the free, for each scale group
    """

    product: Floats
    along: Floats
    moved: Floats
    free: Floats
    size: Floats
    slack: Floats


@dataclass(frozen=True)
class Response(Sums):
    """How the abilities answer to a step of the scores.

    Attributes
    ----------
    changed : number of abilities that come to the cap or leave it
    slope : Σ g Δθ
    size : Σ D Δθ²
    """

    changed: int
    slope: float
    size: float


class Partition:
    """The annotators of one part of the votes: their abilities, and how these answer to the scores.

    `expand` sets what the other methods read: with g and D the gradient and curvature by the abilities, B their cross
    block with the scores, v the gradient of the constraint (docs/math.md, "The arrow").

    Parameters
    ----------
    cells : their votes, sorted by annotator, annotators numbered from 0
    group : scale group of each annotator
    groups : number of scale groups in the whole fit
    precision : 1/sd² of the prior; 0 without one
    cap : upper bound on θ; infinite without one

    Attributes
    ----------
    theta : abilities, shape (n_annotators,)
    held : abilities that the cap holds
    gradient, D : of the objective by the abilities at the last point, shape (n_annotators,)
    cross : B_k = Σ cross·(e_a − e_b) over annotator k's cells, shape (n_cells,)
    """

    def __init__(self, cells: Cells, group: Indices, groups: int, precision: float, cap: float) -> None:
        self.cells, self.rows = cells, CellRows(cells, 1)
        self.group, self.groups, self.precision, self.cap = group, groups, precision, cap
        self.begin(np.ones(cells.n_annotators))
        self.gradient, self.D = np.empty((2, cells.n_annotators))
        self.cross = np.empty(len(cells.n))

    def balance_pairs(self) -> Floats:
        """Return n and s of every pair of models, at a · n_models + b, shape (2, n_models²).

        A vote counts 1 / its annotator's number of votes on either of its models.
        """
        c, table = self.cells, np.zeros((2, self.cells.n_models**2))
        balance_pairs(0, c.n_annotators, self.rows.starts, c.model_a, c.model_b, c.n, c.s, c.n_models, table)
        return table

    def update_abilities(self, R: Floats, *, steps: int, furthest: float) -> None:
        """Take Newton steps on each ability from 1, at fixed scores, within ± furthest and up to the cap."""
        c, theta = self.cells, np.ones(self.cells.n_annotators)
        for _ in range(steps):
            self.rows.exponentials(R, theta, self.cross)
            update_abilities(
                0, c.n_annotators, self.rows.starts, c.model_a, c.model_b, c.n, c.s,
                R, self.precision, furthest, self.cross, theta,
            )  # fmt: skip
        self.begin(theta)

    def begin(self, theta: Floats) -> None:
        """Set the abilities; none is held."""
        self.theta = np.minimum(theta, self.cap)
        self.held: Mask = np.zeros(len(theta), dtype=bool)

    def count(self) -> int:
        """Return the number of annotators."""
        return len(self.theta)

    def abilities(self) -> Floats:
        """Return θ, shape (n_annotators,)."""
        return self.theta

    def derivatives(self) -> tuple[Floats, Floats, Floats]:
        """Return `gradient`, `D` and `cross` of the last point."""
        return self.gradient, self.D, self.cross

    def signs(self) -> Floats:
        """Return how many more abilities of each scale group are positive than negative."""
        return self._sum(np.sign(self.theta))

    def reverse(self, sign: Floats) -> None:
        """Multiply the abilities of each scale group by its sign."""
        self.theta = self.theta * sign[self.group]

    def approach_typical(self) -> None:
        """Move the abilities halfway to 1."""
        self.theta = (1.0 + self.theta) / 2.0

    def typical(self, log_factor: Floats) -> Floats:
        """Return Σ tanh((θ/c − 1)/0.3) of each scale group, and minus its derivative by log c, shape (2, groups).

        Abilities at the cap stay there, where the step took them.
        """
        total = np.zeros((2, self.groups))
        sum_typical(self.theta, self.group, np.exp(-log_factor), self.cap, total)
        return total

    def rescale(self, log_factor: Floats) -> None:
        """Divide the abilities below the cap by c, up to the cap."""
        self.theta = self._scaled(log_factor)

    def _scaled(self, log_factor: Floats) -> Floats:
        scaled = np.minimum(self.theta * np.exp(-log_factor)[self.group], self.cap)
        return np.where(self.theta < self.cap, scaled, self.theta)

    def expand(self, R: Floats, multiplier: Floats, *, exact: bool) -> Point:
        """Return value and derivatives at (R, θ).

        Parameters
        ----------
        multiplier : λ of each group's constraint, whose curvature λv′ is part of the observed Hessian
        exact : the observed Hessian, else Fisher's expected one
        """
        c, size = self.cells, self.cells.n_models
        gradient, stiffness = np.zeros(size), np.zeros(size**2)
        self.rows.exponentials(R, self.theta, self.cross)
        value = expand_cells(
            0, c.n_annotators, self.rows.starts, c.model_a, c.model_b, c.n, c.s, R, self.theta, exact,
            gradient, stiffness, self.gradient, self.D, self.cross,
        )  # fmt: skip
        excess = self.theta - 1.0
        value += 0.5 * self.precision * float(excess @ excess)
        self.gradient += self.precision * excess
        self.D += self.precision
        bend = np.tanh(excess / WIDTH)
        self.v = 1.0 - bend**2
        D = self.D
        if exact:
            D = np.maximum(D - 2.0 / WIDTH * multiplier[self.group] * bend * self.v, LEAST_CURVATURE * D)
        self.curvature, self.inverse_D = D, np.where(D > NO_CURVATURE, 1.0 / np.maximum(D, NO_CURVATURE), 0.0)
        return Point(value, self._sum(bend), gradient, stiffness)

    def eliminate(self, *, products: bool = True) -> Eliminated:
        """Return the sums over all annotators at the last point, where a step begins; `product` is 0 unless asked."""
        self.origin, self.departures = self.theta, np.zeros(len(self.theta), dtype=np.int64)
        return self._eliminate((~self.held).astype(float), self.held.astype(float), products=products)

    def respond(self, scores: Floats, multiplier: Floats) -> Response:
        """Find the step of the abilities, and which of them come to the cap or leave it.

        Parameters
        ----------
        scores, multiplier : solution of the quadratic problem with the abilities held that are held now
        """
        pull = self.gradient + self.rows.times(self.cross, scores) + multiplier[self.group] * self.v
        room = self.cap - self.origin
        self.step = np.where(self.held, room, -pull * self.inverse_D)
        self.joining = ~self.held & (self.step > room + BEYOND)
        self.leaving = self.held & (self.departures < MOST_DEPARTURES)
        if self.leaving.any():
            self.leaving &= pull * self.inverse_D + room > LEAVES * (1.0 + np.abs(self.gradient)) * self.inverse_D
        changed = int(np.count_nonzero(self.joining | self.leaving))
        size = float(self.curvature @ self.step**2)
        return Response(changed, float(self.gradient @ self.step), size)

    def exchange(self) -> Eliminated:
        """Hold the abilities that come to the cap, free those that leave it; return the change of the sums."""
        joining = self.joining.astype(float) - self.leaving
        change = self._eliminate(-joining, joining)
        self.held = (self.held | self.joining) & ~self.leaving
        self.departures += self.leaving
        return change

    def move(self, length: float) -> None:
        """Move the abilities by this share of their step."""
        self.theta = np.minimum(self.origin + length * self.step, self.cap)

    def refine(self, scores: Floats, multiplier: Floats, average: float) -> None:
        """Move the abilities that had a long step on to the end: the minimum of their own terms at these scores.

        An ability with few votes can need several Newton steps after all others and the scores have converged.

        Parameters
        ----------
        average : squared length of a score's or ability's step
        """
        who = np.flatnonzero(self.curvature * self.step**2 > LONG * average)
        theta = self.theta.copy()
        own = ProfiledAbilities(theta, *np.empty((4, len(theta))))
        profile_annotators(
            who, self.rows, scores, own,
            weight=1.0, precision=self.precision, multiplier=multiplier[self.group], cap=self.cap, near=NEAR,
            valued=False,
        )  # fmt: skip
        self.theta, self.held = theta, self.held.copy()
        self.held[who] = theta[who] >= self.cap

    def _eliminate(self, free: Floats, held: Floats, *, products: bool = True) -> Eliminated:
        """Return the sums, each ability counted `free` times as a free one and `held` times as a held one.

        Products are rough: they only decide how fast the search converges. Without a prior D can be so small that rows
        leave the range of single precision.
        """
        share = free * self.inverse_D
        answer = share * self.gradient - held * np.where(held != 0.0, self.cap - self.origin, 0.0)
        product = np.zeros((self.cells.n_models,) * 2)
        for sign in (1.0, -1.0) if products else ():
            scale = np.sqrt(np.maximum(sign * share, 0.0))
            if scale.any():
                product += sign * self.rows.products(self.cross, scale, rough=self.precision > 0.0)
        along, moved = self.rows.by_model(self.cross, share * self.v, answer)
        size, slack = self._sum(share * self.v**2), -self._sum(self.v * answer)
        return Eliminated(product, along, moved, self._sum(free), size, slack)

    def _sum(self, values: Floats) -> Floats:
        return sum_by(self.group, values, self.groups)
