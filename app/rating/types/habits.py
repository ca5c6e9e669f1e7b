"""Every annotator's ability, readiness to tie and lean to a side at fixed scores, and the crowd's law of them."""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.special import betaln, expit

from app.rating.arrays import Floats, Indices, Mask, sum_by
from app.rating.exchange import anywhere, concatenated, join, place_among, total
from app.rating.model.kernels import SLIP, STRICT
from app.rating.threads import map_parts
from app.rating.types.kernels import MOST_NODES, add_tastes, climb, fill_nodes, fill_ties
from app.rating.types.law import (
    COIN,
    EQUAL,
    FOLLOWER,
    LEFT,
    LOG_PROPENSITY,
    RIGHT,
    TYPES,
    Table,
    TypeLaw,
    TypePosterior,
    fit_law,
    weigh_types,
)
from app.rating.votes.features import SidedCells

LEAST_UNIT = 0.1  # the fit refuses crowds with a lower typical ability
SPREADS = np.concatenate([[0.0], np.geomspace(0.03, 1.5, 20)])  # of leans over the crowd, log odds
LEANERS, LEANER_SD = np.array([0.02, 0.1, 0.3]), 1.5  # share of annotators who lean more, and how much
WORTH = 3.0  # log-likelihood that the crowd's leans must gain to be used
LARGEST, STEEPEST = 10.0, 2.0  # difference of scores, and slope of a lean: products of odds stay finite
ENOUGH = 2_000  # annotators that determine the crowd's law
ROUNDS, LEAST_SHARE = 20, 0.05  # of the search for the share of annotators with tastes
KNOWN = 1e-3  # information below which votes say nothing
SPACING, REACH, LEAST_NODES, FURTHEST_MODE = 1.3, 4.2, 8, 3.0  # of the nodes, as in `app.rating.model.crowd`
HONEST_END = 0.7  # ability up to which the nodes reach if so many nodes can
WIDEST, NARROW = 0.6, 0.3  # spread of honest abilities that the nodes reach over, and that they resolve
ALWAYS_TIES, FOLLOWER_TIES = 0.99, 0.01  # share of ties of who always ties, and of a follower
TINY = 1e-300
CERTAIN, OF_MEDIAN = 2.0, 1.2533  # standard errors from which tastes are used; those of a median, in a mean's


@dataclass(frozen=True)
class Habits:
    """Arrays of shape (n_annotators,), NaN for annotators without a vote between scored models.

    Abilities are in units of the mean honest annotator's.

    Attributes
    ----------
    ability, ability_se : mean and standard deviation of the posterior: coins and those who always choose a side or a
        tie have 0, followers what their votes alone say
    own, own_se : what the votes alone say: the mode under the wide prior N(1, 1), whatever the type, and its error.
        This and what follows is NaN for annotators that the crowd's law is not of
    tie_log, tie_se : log of the tie propensity ν, and its standard error; −∞ and 0 where the crowd has no tie
    lean, lean_se : log odds of decided votes that the side adds, positive for the left; 0 where leans are not used
    typical : the unit in terms of the scores
    lean_sd : of the crowd's leans; 0 where they are not used
    theta, step, weight : nodes of each ability, their distance, and their posterior with the types', (…, nodes)
    without : probability of the types whose ability is 0
    """

    ability: Floats
    ability_se: Floats
    own: Floats
    own_se: Floats
    tie_log: Floats
    tie_se: Floats
    lean: Floats
    lean_se: Floats
    typical: float
    lean_sd: float
    theta: Floats
    step: Floats
    weight: Floats
    without: Floats

    def probability_low(self, threshold: float) -> Floats:
        """Return P(θ ≤ threshold) by the posterior of `ability`, a follower not being low; NaN without a vote."""
        away = (threshold - self.theta) / self.step[:, None] + 0.5
        low: Floats = (self.weight * np.clip(away, 0.0, 1.0)).sum(axis=1)
        return np.where(np.isnan(self.ability), np.nan, np.clip(low + self.without * (threshold >= 0.0), 0.0, 1.0))


class Typing:
    """The annotators' votes at fixed scores: their modes, the law that the crowd follows, and the posteriors.

    Parameters
    ----------
    sided : votes between scored models
    R : natural units, shape (n_models,); only models in the cells are read
    crowd : annotators that the crowd's law is of, shape (n_annotators,); default all

    Attributes
    ----------
    sides, tying : whether sides are known, and whether any vote is a tie
    scale : factor that makes the median ability 1, decided votes being steeper than votes with ties as half
    d, decided, won : of each cell: scaled difference of scores, decided votes, those that the first model won
    at, inverse : modes (θ, λ) under the wide prior, and θθ, θλ and λλ of the inverse Hessian there
    slope : dλ/dθ of the likeliest lean
    tie_share : of the crowd's votes
    leans : variances and shares of the two parts of their law, the crowd's and a wide one; empty without sides
    caution, gain : because of tastes: factor on the variance of each ability, and log-likelihood that they add at the
        mode; 1 and 0 where the crowd has none
    """

    def __init__(self, sided: SidedCells, R: Floats, crowd: Mask | None = None) -> None:
        cells = self.cells = sided.cells
        self.parts, self.side, self.known = cells.split_annotators(), sided.side, np.diff(cells.starts) > 0
        self.crowd = self.known if crowd is None else self.known & crowd
        self.decided, self.won, self.scale = cells.n - cells.ties, cells.wins_a, 1.0
        self.d = np.clip(R[cells.model_a] - R[cells.model_b], -LARGEST, LARGEST)
        self.at = np.tile([1.0, 0.0], (cells.n_annotators, 1))
        self._climb(0.0)
        judged = self.crowd & (self.inverse[:, 0] < 1.0)  # with a decided vote
        self.scale = join(_find_unit, self.at[judged, 0])
        self.d, self.at[:, 0] = np.clip(self.d * self.scale, -LARGEST, LARGEST), self.at[:, 0] / self.scale
        self.leans, self.sides, self.tying = np.empty(0), anywhere(sided.known), anywhere(cells.ties)
        if self.sides:
            self._climb(LEANER_SD, NARROW)  # a lean is what abilities like the crowd's do not explain
            self.leans = self._find_leans()
        self._climb(float(np.sqrt(self.leans[:2] @ self.leans[2:])))
        self.caution, self.gain = self._find_tastes()
        self.table = self._fill()
        counted = self.crowd[cells.annotator]
        ties, votes = total(np.array([float(some[counted].sum()) for some in (cells.ties, cells.n)])).tolist()
        self.tie_share = ties / max(votes, 1.0)
        share = float(np.clip(self.tie_share, 0.003, 0.9))
        law = partial(fit_law, ties=float(np.log(2.0 * share / (1.0 - share))))
        self.law: TypeLaw = join(law, self.table.where(some_of(self.crowd)))
        self.posterior: TypePosterior = weigh_types(self.table, self.law)

    def _climb(self, lean_sd: float, ability_sd: float = 1.0) -> None:
        precision, information = 1.0 / max(lean_sd, 1e-6) ** 2, np.zeros((len(self.at), 3))
        of_ability = ability_sd**-2
        leans = lean_sd > 0.0
        map_parts(
            lambda part: climb(
                *part, self.cells.starts, self.d, self.side, self.decided, self.won, leans, precision, of_ability,
                self.at, information,
            ),
            self.parts,
        )  # fmt: skip
        own, mixed, other = information[:, 0] + of_ability, information[:, 1] * leans, information[:, 2] + precision
        size = own * other - mixed**2
        self.inverse = np.column_stack([other / size, -mixed / size, own / size * leans])
        self.slope = np.clip(-mixed / other, -STEEPEST, STEEPEST)

    def _find_leans(self) -> Floats:
        """Return the likeliest law of leans: variances and shares of those like the crowd, and of others."""
        own = 1.0 / self.inverse[:, 2] - LEANER_SD**-2
        some = some_of(self.crowd & (own > KNOWN))
        return join(_find_leans, np.stack([1.0 / own[some], self.at[some, 1] / self.inverse[some, 2] / own[some]]))

    def _find_tastes(self) -> tuple[Floats, Floats]:
        """Return 1 + τ² pull/variance of each ability, and how much tastes explain of each annotator's votes."""
        gathered = self._gather_tastes(0.0)
        taste = join(_find_taste_variance, gathered[:3, self.crowd])
        gain = self._gather_tastes(taste)[4] if taste else gathered[4]
        return 1.0 + taste * gathered[3] / self.inverse[:, 0], gain

    def _gather_tastes(self, taste: float) -> Floats:
        """Return the sums of `add_tastes`, and set `judges`, the effective number of each model's."""
        sums, cells = np.zeros((5, len(self.at))), self.cells

        def gather(part: tuple[int, int]) -> Floats:
            judges = np.zeros((2, cells.n_models))
            add_tastes(
                *part, self.cells.starts, cells.model_a, cells.model_b, self.d, self.side, self.decided, self.won,
                self.at, self.inverse, taste, self.crowd, judges, sums,
            )  # fmt: skip
            return judges

        votes, squares = total(np.sum(map_parts(gather, self.parts), axis=0))
        self.judges: Floats = votes**2 / np.maximum(squares, TINY)
        return sums

    def _with_tastes(self, nodes: Floats) -> Floats:
        """Return the log-likelihoods at the nodes where a share of the annotators has tastes, which flatten them."""
        share, judged = 0.5, self.crowd & (self.caution > 1.0)
        if not (number := total(int(judged.sum()))):
            return nodes
        for _ in range(ROUNDS):
            share = total(float(expit(self.gain[judged] + np.log(share) - np.log1p(-share)).sum())) / number
            share = min(max(share, LEAST_SHARE), 1.0 - LEAST_SHARE)
        top = nodes.max(axis=1, keepdims=True)
        flat = (nodes - top) / self.caution[:, None] + top + self.gain[:, None]
        mixed: Floats = np.logaddexp(nodes + np.log1p(-share), flat + np.log(share))
        return mixed

    def _fill(self) -> Table:
        """Return the likelihoods at nodes that cover the votes' likelihood and the honest law, also mirrored."""
        cells, number = self.cells, self.cells.n_annotators
        information = 1.0 / self.inverse[:, 0] - 1.0
        wide = REACH * np.sqrt(self.inverse[:, 0] * self.caution)
        mode = np.clip(self.at[:, 0], -FURTHEST_MODE, FURTHEST_MODE)
        low = np.maximum(mode - wide, np.minimum(-1.0 - 3.0 * WIDEST, mode))
        high = np.minimum(mode + wide, np.maximum(1.0 + 3.0 * WIDEST, mode))
        spacing = SPACING / np.sqrt(1.0 / NARROW**2 + information / self.caution)
        high = np.maximum(high, np.minimum(HONEST_END, low + (MOST_NODES - 1) * spacing))
        size = self.size = np.clip(np.ceil((high - low) / spacing).astype(np.int64), LEAST_NODES, MOST_NODES)
        step = (high - low) / (size - 1)
        nodes, coins = self._integrate(low, step, size), self._integrate(0.0 * low, step, np.ones_like(size))
        ties, decided = (sum_by(cells.annotator, one, number) for one in (cells.ties, self.decided))
        fixed = np.zeros((number, len(TYPES)))
        left = sum_by(cells.annotator, np.where(self.side > 0.0, self.won, self.decided - self.won), number)
        fixed[:, COIN] = coins[:, 0]
        p = (1.0 - SLIP) * expit(STRICT * self.d) + SLIP / 2.0
        follower = sum_by(cells.annotator, self.won * np.log(p) + (self.decided - self.won) * np.log1p(-p), number)
        follower += ties * np.log(FOLLOWER_TIES) + decided * np.log(1.0 - FOLLOWER_TIES) * self.tying
        fixed[:, FOLLOWER] = np.where(self.at[:, 0] > 1.0, follower, -1e9)
        for which, good in ((LEFT, left), (RIGHT, decided - left)):
            fixed[:, which] = _slip(good, decided) if self.sides else -1e9
        fixed[:, EQUAL] = ties * np.log(ALWAYS_TIES) + decided * np.log((1.0 - ALWAYS_TIES) / 2.0)
        theta = low[:, None] + np.arange(MOST_NODES) * step[:, None]
        return Table(theta, step, self._with_tastes(nodes), fixed, self._weigh_ties())

    def _integrate(self, low: Floats, step: Floats, size: Indices) -> Floats:
        """Return the log-likelihoods of the decided votes at nodes, leans integrated out; −∞ where there is no node."""
        nodes = np.full((len(low), MOST_NODES), -np.inf)
        map_parts(
            lambda part: fill_nodes(
                *part, self.cells.starts, self.d, self.side, self.decided, self.won, self.at, self.slope, low, step,
                size, self.leans, nodes,
            ),
            self.parts,
        )  # fmt: skip
        return nodes

    def _weigh_ties(self) -> Floats:
        """Return the log-likelihoods that votes are ties or not for each of `LOG_PROPENSITY`; 0 without any tie."""
        cells = self.cells
        tied = np.zeros((cells.n_annotators, len(LOG_PROPENSITY)))
        if self.tying:
            map_parts(
                lambda part: fill_ties(
                    *part, cells.starts, self.d, self.side, cells.n, cells.ties, self.at, np.exp(LOG_PROPENSITY), tied,
                ),
                self.parts,
            )  # fmt: skip
        return tied

    @cached_property
    def propensity(self) -> Floats:
        """TypePosterior mean of log ν, for an honest annotator."""
        mean: Floats = self.posterior.ties @ LOG_PROPENSITY
        return mean

    def count_judges(self) -> Floats:
        """Return the effective number of judges of each annotator's models, the mean by vote; NaN outside the crowd.

        That of a model is (Σ_k n_k)²/Σ_k n_k², n_k the decided votes of annotator k on it.
        """
        cells, size = self.cells, self.cells.n_annotators
        both = cells.n * (self.judges[cells.model_a] + self.judges[cells.model_b])
        votes = np.where(self.crowd, cells.votes_by_annotator(), np.nan)
        mean: Floats = 0.5 * sum_by(cells.annotator, both, size) / votes
        return mean

    def habits(self) -> Habits:
        """Return what is read off the posteriors."""
        blank, ties, unit = np.where(self.crowd, 1.0, np.nan), self.tying, self.law.mean
        tie_se = np.sqrt(np.maximum(self.posterior.ties @ LOG_PROPENSITY**2 - self.propensity**2, 0.0))
        theta, step, types = self.table.theta / unit, self.table.step / unit, self.posterior.types
        own, own_se = self.at[:, 0] / unit, np.sqrt(self.inverse[:, 0] * self.caution) / unit
        mean = (self.posterior.nodes * theta).sum(axis=1) + types[:, FOLLOWER] * own
        square = (self.posterior.nodes * theta**2).sum(axis=1) + types[:, FOLLOWER] * (own**2 + own_se**2)
        return Habits(
            ability=np.where(self.known, mean, np.nan),
            ability_se=np.where(self.known, np.sqrt(np.maximum(square - mean**2, 0.0)), np.nan),
            own=own * blank,
            own_se=own_se * blank,
            tie_log=(self.propensity if ties else np.full(len(blank), -np.inf)) * blank,
            tie_se=tie_se * ties * blank,
            lean=self.at[:, 1] * blank,
            lean_se=np.sqrt(self.inverse[:, 2]) * blank,
            typical=unit * self.scale,
            lean_sd=float(np.sqrt(self.leans[0])) if len(self.leans) else 0.0,
            theta=theta,
            step=step,
            weight=self.posterior.nodes,
            without=types[:, [COIN, LEFT, RIGHT, EQUAL]].sum(axis=1),
        )


def some_of(annotators: Mask) -> Indices:
    """Return those marked, in a large crowd an even selection that determines a law."""
    marked = np.flatnonzero(annotators)
    before, number = place_among(len(marked))
    step = 1 + number // ENOUGH
    return marked[-before % step :: step]


def _find_unit(abilities: list[Floats]) -> float:
    known = concatenated(abilities)
    return max(float(np.median(known)), LEAST_UNIT) if len(known) else 1.0


def _find_leans(known: list[Floats]) -> Floats:
    variance, value = concatenated(known)
    log = _log_normal(value[:, None], SPREADS**2 + variance[:, None])[:, :, None] + np.log1p(-LEANERS)
    others = _log_normal(value, LEANER_SD**2 + variance)[:, None, None] + np.log(LEANERS)
    found = np.logaddexp(log, others).sum(axis=0)
    found[1:] -= WORTH
    spread, share = np.unravel_index(found.argmax(), found.shape)
    return np.array([SPREADS[spread] ** 2, LEANER_SD**2, 1.0 - LEANERS[share], LEANERS[share]])


def _find_taste_variance(gathered: list[Floats]) -> float:
    return find_taste_variance(*concatenated(gathered))


def find_taste_variance(excess: Floats, exposure: Floats, noise: Floats) -> float:
    """Return the weighted median of excess/exposure, 0 where it is not two standard errors above 0.

    The weights are 1/√(error² + the median error²), so that no annotator has more than 1.4 times the weight of the
    median one, however many votes. Parameters are those of `add_tastes`, shape (n_annotators,) each.
    """
    some = exposure > KNOWN
    if not some.any():
        return 0.0
    ratio, error = excess[some] / exposure[some], np.sqrt(noise[some]) / exposure[some]
    weight = 1.0 / np.sqrt(error**2 + np.median(error) ** 2)
    order = np.argsort(ratio, kind="stable")
    place = int(np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2.0))
    median = float(ratio[order][min(place, len(order) - 1)])
    se = OF_MEDIAN * float(np.sqrt(weight**2 @ error**2)) / float(weight.sum())
    return median if median > CERTAIN * se else 0.0


def _slip(good: Floats, decided: Floats) -> Floats:
    """Return log ∫ P(so many good votes | slips) dBeta(slips; 1, 19)."""
    many = 1.0 / SLIP - 1.0
    log: Floats = np.subtract(betaln(good + many, decided - good + 1.0), betaln(many, 1.0))
    return log


def _log_normal(away: Floats, variance: Floats) -> Floats:
    log: Floats = -0.5 * (away**2 / variance + np.log(variance))
    return log
