"""Some annotators of a fit, with everything of the size of their votes: the work that runs beside the data."""

from dataclasses import dataclass, replace

import numpy as np

from app.rating.arrays import Floats, Indices, Mask
from app.rating.fit.arrow import Arrow, Eliminated
from app.rating.fit.features import make_likelihood
from app.rating.fit.scale import Scale, sum_typical
from app.rating.sums import Sums
from app.rating.votes.cells import Cells

BEYOND = 1e-12  # a step that passes the cap by less than this does so by rounding
MOST_DEPARTURES = 3  # from the cap in one step, so that the search for those it holds ends
LEAVES = 1e-9  # gradient, relative to the likelihood's, below which an ability at the cap stays there
LONG = 10.0  # times the average squared length of a step in standard errors; for shorter ones Newton's method is quick


@dataclass(frozen=True)
class Expansion(Sums):
    """The objective at (R, θ), and its derivatives by R.

    Attributes
    ----------
    value : −ℓ + prior
    violation : Σ tanh((θ − 1)/0.3) of each scale group: 0 where the typical ability is 1
    gradient : shape (n_models,)
    stiffness : of `Curvature`
    """

    value: float
    violation: Floats
    gradient: Floats
    stiffness: Floats


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
    prior_sd : None for no prior
    cap : upper bound on θ; infinite without one
    lean_precision : of `FeatureLikelihood`, for votes with features

    Attributes
    ----------
    theta : abilities, shape (n_annotators,)
    held : abilities that the cap holds
    arrow : their part in the system at the last point
    """

    arrow: Arrow

    def __init__(
        self,
        cells: Cells,
        group: Indices,
        groups: int,
        prior_sd: float | None,
        cap: float,
        lean_precision: Floats | None = None,
    ) -> None:
        self.likelihood, self.cap = make_likelihood(cells, prior_sd, lean_precision, parts=1), cap
        self.scale = Scale(np.empty(0, dtype=np.int64), group, groups)
        self.begin(np.ones(cells.n_annotators))
        self._cross = np.empty(len(cells.n))
        self._of_leans: Floats | float | None = None

    def balanced_pairs(self) -> Floats:
        """Return the pair table of `Likelihood.balanced_pairs`."""
        return self.likelihood.balanced_pairs()

    def update_abilities(self, R: Floats, *, steps: int, furthest: float) -> None:
        """Take Newton steps on each ability from 1, at fixed scores, within ± furthest and up to the cap."""
        self.begin(self.likelihood.first_abilities(R, steps=steps, furthest=furthest))

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

    def signs(self) -> Floats:
        """Return how many more abilities of each scale group are positive than negative."""
        return self.scale.sum(np.sign(self.theta))

    def reverse(self, sign: Floats) -> None:
        """Multiply the abilities of each scale group by its sign."""
        self.theta = self.theta * sign[self.scale.annotators]

    def approach_typical(self) -> None:
        """Move the abilities halfway to 1."""
        self.theta = (1.0 + self.theta) / 2.0

    def typical(self, log_factor: Floats) -> Floats:
        """Return Σ tanh((θ/c − 1)/0.3) of each scale group, and minus its derivative by log c, shape (2, groups).

        Abilities at the cap stay there, where the step took them.
        """
        total = np.zeros((2, self.scale.number))
        sum_typical(self.theta, self.scale.annotators, np.exp(-log_factor), self.cap, total)
        return total

    def rescale(self, log_factor: Floats) -> None:
        """Divide the abilities below the cap by c, up to the cap."""
        scaled = np.minimum(self.theta * np.exp(-log_factor)[self.scale.annotators], self.cap)
        self.theta = np.where(self.theta < self.cap, scaled, self.theta)

    def expand(self, R: Floats, multiplier: Floats, *, exact: bool) -> Expansion:
        """Return value and derivatives at (R, θ).

        Parameters
        ----------
        multiplier : λ of each group's constraint, whose curvature λv′ is part of the observed Hessian
        exact : the observed Hessian, else Fisher's expected one
        """
        point = self.likelihood.expand(R, self.theta, exact=exact, out=self._cross, leans=self._of_leans is None)
        self.arrow = Arrow(self.likelihood, self.scale, point, self.theta, multiplier if exact else None)
        return Expansion(point.value, self.arrow.violation, point.gradient_scores, point.stiffness)

    def eliminate(self, *, products: bool = True) -> Eliminated:
        """Return the sums over all annotators at the last point, where a step begins; `product` is 0 unless asked.

        What leans take off A takes a good part of the time: it stays as it was until `renew_leans`.
        """
        self.origin, self.departures = self.theta, np.zeros(len(self.theta), dtype=np.int64)
        sums = self._eliminate((~self.held).astype(float), self.held.astype(float), products=products)
        if products:
            if self._of_leans is None:
                self._of_leans = self.arrow.leans(rough=True)
            sums = replace(sums, product=sums.product + self._of_leans)
        return sums

    def renew_leans(self) -> None:
        """Find anew, at the next point, what leans take off A."""
        self._of_leans = None

    def respond(self, scores: Floats, multiplier: Floats) -> Response:
        """Find the step of the abilities, and which of them come to the cap or leave it.

        Parameters
        ----------
        scores, multiplier : solution of the quadratic problem with the abilities held that are held now
        """
        pull, inverse_D, gradient = self.arrow.pull(scores, multiplier), self.arrow.inverse_D, self._gradient
        room = self.cap - self.origin
        self.step = np.where(self.held, room, -pull * inverse_D)
        self.joining = ~self.held & (self.step > room + BEYOND)
        self.leaving = self.held & (self.departures < MOST_DEPARTURES)
        if self.leaving.any():
            self.leaving &= pull * inverse_D + room > LEAVES * (1.0 + np.abs(gradient)) * inverse_D
        changed = int(np.count_nonzero(self.joining | self.leaving))
        size = float(self.arrow.D @ self.step**2)
        return Response(changed, float(gradient @ self.step), size)

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
        who = np.flatnonzero(self.arrow.D * self.step**2 > LONG * average)
        own = multiplier[self.scale.annotators]
        self.theta = self.likelihood.best_abilities(scores, self.theta, who, own, self.cap)
        self.held = self.held.copy()
        self.held[who] = self.theta[who] >= self.cap

    @property
    def _gradient(self) -> Floats:
        return self.arrow.point.gradient_abilities

    def _eliminate(self, free: Floats, held: Floats, *, products: bool = True) -> Eliminated:
        """Return the sums, each ability counted `free` times as a free one and `held` times as a held one.

        Products are rough: they only decide how fast the search converges. Without a prior D can be so small that rows
        leave the range of single precision.
        """
        to_cap = held * np.where(held != 0.0, self.cap - self.origin, 0.0)
        answer = free * self.arrow.inverse_D * self._gradient - to_cap
        return self.arrow.eliminate(free, answer, products=products, rough=self.likelihood.precision > 0.0)
