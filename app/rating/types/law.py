"""The crowd's law of types, abilities and ties, fitted to a table of every annotator's likelihoods."""

from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Indices, log_sum_exp
from app.rating.model.law import ASSUMED_SPREAD, SPREAD_VOTERS
from app.rating.settings import LEAST_SPREAD, MOST_SPREAD

TYPES = ("honest", "coin", "contrary", "follower", "left", "right", "equal")
HONEST, COIN, CONTRARY, FOLLOWER, LEFT, RIGHT, EQUAL = range(len(TYPES))
OWN_TIES = [FOLLOWER, EQUAL]  # types that are not as ready to tie as the crowd
ASSUMED = np.array([20.0, 0.4, 0.2, 0.1, 0.05, 0.05, 0.05])  # annotators of each type before any vote is seen
TIE_SHARE = np.array([0.003, 0.02, 0.06, 0.12, 0.2, 0.3, 0.42, 0.55, 0.7, 0.85, 0.93, 0.97])  # between equals
LOG_PROPENSITY: Floats = np.log(2.0 * TIE_SHARE / (1.0 - TIE_SHARE))
ASSUMED_TIES, TIE_VOTERS, UNUSUAL = 0.8, 4.0, 1e-3  # spread of log ν; share of annotators with any
ROUNDS, SETTLED = 200, 1e-4


@dataclass(frozen=True)
class Table:
    """Log-likelihoods of annotators' votes; arrays with n_annotators rows.

    Attributes
    ----------
    theta, step : abilities of the nodes, shape (n_annotators, nodes), and their distance
    nodes : of decided votes at the nodes, of the same shape, −∞ where there is no node
    fixed : of decided votes for each type without nodes, for those of `OWN_TIES` of all votes, shape (n_annotators,
        types)
    tied : that votes are ties or not, for each of `LOG_PROPENSITY`
    """

    theta: Floats
    step: Floats
    nodes: Floats
    fixed: Floats
    tied: Floats

    def columns(self) -> tuple[Floats, ...]:
        """Return the arrays."""
        return self.theta, self.step, self.nodes, self.fixed, self.tied

    def where(self, few: Indices) -> "Table":
        """Return the table of these annotators."""
        return Table(*(column[few] for column in self.columns()))


@dataclass(frozen=True)
class TypeLaw:
    """The crowd.

    Attributes
    ----------
    share : of each of `TYPES`
    centre, spread : log θ of the honest is N(log centre, spread²); θ of the contrary ones the same with the other sign
    ties, ties_spread : mean and standard deviation of honest log ν
    """

    share: Floats
    centre: float
    spread: float
    ties: float
    ties_spread: float

    @property
    def mean(self) -> float:
        """Mean honest ability."""
        return self.centre * float(np.exp(0.5 * self.spread**2))

    def log_density(self, theta: Floats) -> Floats:
        """Return the log density of |θ|."""
        y = np.log(np.maximum(np.abs(theta), 1e-9))
        log: Floats = -0.5 * ((y - np.log(self.centre)) / self.spread) ** 2 - y
        return log - float(np.log(self.spread) + 0.5 * np.log(2.0 * np.pi))

    def log_ties(self) -> Floats:
        """Return the log probability of each of `LOG_PROPENSITY`."""
        near = np.exp(-0.5 * ((LOG_PROPENSITY - self.ties) / self.ties_spread) ** 2)
        log: Floats = np.log((1.0 - UNUSUAL) * near / max(near.sum(), 1e-300) + UNUSUAL / len(near))
        return log


@dataclass(frozen=True)
class TypePosterior:
    """Each annotator's posterior.

    Attributes
    ----------
    log_odds : of each type against honesty, shape (n_annotators, types)
    types : probability of each type, of the same shape
    nodes : of each node, shape (n_annotators, nodes); with the types without a node they add up to 1
    ties : of each of `LOG_PROPENSITY`, for an honest annotator
    """

    log_odds: Floats
    types: Floats
    nodes: Floats
    ties: Floats


def weigh_types(table: Table, law: TypeLaw) -> TypePosterior:
    """Return the posteriors under a law."""
    log_share, tied = np.log(law.share), table.tied + law.log_ties()
    ready = log_sum_exp(tied)[:, None]
    able = table.theta > 0.0
    nodes = table.nodes + law.log_density(table.theta) + np.log(table.step)[:, None] + ready
    nodes += np.where(able, log_share[HONEST], log_share[CONTRARY])
    top = nodes.max(axis=1, keepdims=True)
    weight = np.exp(nodes - top)
    joint = table.fixed + log_share + np.where(np.isin(range(len(TYPES)), OWN_TIES), 0.0, ready)
    for which, some in ((HONEST, able), (CONTRARY, ~able)):
        joint[:, which] = top[:, 0] + np.log(np.maximum((weight * some).sum(axis=1), 1e-300))
    total = log_sum_exp(joint)[:, None]
    return TypePosterior(
        joint - joint[:, :1], np.exp(joint - total), weight * np.exp(np.minimum(top - total, 0.0)), np.exp(tied - ready)
    )


def fit_law(tables: list[Table], ties: float) -> TypeLaw:
    """Maximise Σ_k log P(votes of k) with assumed annotators, by expectation-maximisation.

    Parameters
    ----------
    tables : of annotators with votes
    ties : log ν of the crowd, where the search begins
    """
    table = Table(*(np.concatenate(column) for column in zip(*map(Table.columns, tables), strict=True)))
    law = TypeLaw(ASSUMED / ASSUMED.sum(), 1.0, ASSUMED_SPREAD, ties, ASSUMED_TIES)
    for _ in range(ROUNDS if len(table.step) else 0):
        before, law = law, _maximise(table, weigh_types(table, law), law)
        changes = law.centre - before.centre, law.spread - before.spread, *(law.share - before.share)
        if max(map(abs, changes)) < SETTLED:
            break
    return law


def _maximise(table: Table, found: TypePosterior, law: TypeLaw) -> TypeLaw:
    y, number = np.log(np.maximum(np.abs(table.theta), 1e-9)), found.types.sum(axis=0) + ASSUMED
    able = float(found.nodes.sum()) + SPREAD_VOTERS
    centre = (float((found.nodes * y).sum()) + SPREAD_VOTERS * np.log(law.centre)) / able
    square = float((found.nodes * (y - centre) ** 2).sum())
    spread = np.sqrt((square + SPREAD_VOTERS * ASSUMED_SPREAD**2) / able)
    centre = float(np.exp(centre))
    ready = found.types[:, HONEST] @ found.ties
    known = float(ready.sum()) + TIE_VOTERS
    ties = (float(ready @ LOG_PROPENSITY) + TIE_VOTERS * law.ties) / known
    away = (float(ready @ (LOG_PROPENSITY - ties) ** 2) + TIE_VOTERS * ASSUMED_TIES**2) / known
    return TypeLaw(
        number / number.sum(), centre, float(np.clip(spread, LEAST_SPREAD, MOST_SPREAD)), ties,
        float(np.sqrt(away)),
    )  # fmt: skip
