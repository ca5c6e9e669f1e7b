"""The mixture of behaviours in a crowd, fitted to annotators' likelihoods at nodes of ability and tie propensity."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from app.rating.arrays import Floats, Indices, Ints, log_sum_exp
from app.rating.compiled import compiled
from app.rating.threads import map_parts, split

BEHAVIOURS = ("honest", "coin", "contrary", "equal", "follower")
HONEST, COIN, CONTRARY = range(3)
START = np.array([0.95, 0.02, 0.01, 0.01, 0.01])  # their shares before the votes are seen
ASSUMED = 20.0  # annotators that count as evidence for these shares, for the spread before and for the crowd's ties
ASSUMED_SPREAD = 0.3
ASSUMED_TIES = 1.0  # annotators that count as evidence for the tie propensities before
OF_CROWD = 0.9  # share of bad annotators who are as ready to tie as the crowd before the votes; others as ready as any
ROUNDS = 200
CONVERGED = 1e-4  # change of the spread and of the share of coins in a round that ends the search
ENOUGH = 2_000  # annotators that determine a mixture; of more an even selection counts
LEAST_SPREAD, MOST_SPREAD = 0.15, 0.6
WORTH_A_THREAD = 4_000  # annotators; for fewer, starting a thread costs more than it saves


ROOM = 600.0  # log of the largest product; the factors of one more cell could overflow beyond it
FEW = 8.0  # votes of a cell that are multiplied one by one


@dataclass(frozen=True)
class Mixture:
    """The crowd.

    Attributes
    ----------
    nodes : log abilities of the honest nodes, shape (abilities,)
    centre, spread : mean and standard deviation of honest log abilities
    ties, bad_ties : of honest annotators, and of coins and contrary ones: share of each node of tie propensity
    share : of each of `BEHAVIOURS`
    """

    nodes: Floats
    centre: float
    spread: float
    ties: Floats
    bad_ties: Floats
    share: Floats

    @cached_property
    def log_weight(self) -> Floats:
        """Log probability of each node for an honest annotator, shape (abilities, tie propensities)."""
        ability = -0.5 * ((self.nodes - self.centre) / self.spread) ** 2
        log: Floats = (ability - log_sum_exp(ability))[:, None] + np.log(self.ties)
        return log


class Table:
    """Likelihoods at the nodes, each annotator's divided by the largest, so that a mixture is one matrix product.

    Likelihoods that underflow to 0 do not matter, because the weights of nodes are above e⁻⁴⁰⁰.

    Parameters
    ----------
    log_largest : of each annotator, shape (n_annotators,)
    share : likelihoods divided by the largest, shape (n_annotators, nodes)
    """

    def __init__(self, log_largest: Floats, share: Floats) -> None:
        self.log_largest, self.share = log_largest, share
        self._parts = split(len(share), WORTH_A_THREAD)

    @classmethod
    def of(cls, log_likelihood: Floats) -> "Table":
        """Return the table of log-likelihoods, shape (n_annotators, …)."""
        rows = log_likelihood.reshape(len(log_likelihood), -1)
        largest, share = rows.max(axis=1), np.empty_like(rows)

        def fill(part: tuple[int, int]) -> None:
            one = slice(*part)
            np.exp(rows[one] - largest[one, None], out=share[one])

        map_parts(fill, split(len(rows), WORTH_A_THREAD))
        return cls(largest, share)

    def where(self, few: Indices) -> "Table":
        """Return the table of these annotators."""
        return Table(self.log_largest[few], self.share[few])

    def mix(self, weight: Floats) -> Floats:
        """Return Σ weight · share over the nodes, for each annotator."""
        flat = weight.ravel()
        return np.concatenate(map_parts(lambda part: self.share[slice(*part)] @ flat, self._parts))

    def log_mix(self, weight: Floats) -> Floats:
        """Return the log-likelihood of each annotator's votes under a mixture of the nodes."""
        log: Floats = self.log_largest + np.log(self.mix(weight))
        return log

    def mass(self, weight: Floats, kind: Floats, log: Floats) -> Floats:
        """Return the expected number of annotators at each node, in the shape of `weight`.

        Parameters
        ----------
        kind : probability that an annotator is of this behaviour, shape (n_annotators,)
        log : log-likelihood of each annotator under it, shape (n_annotators,)
        """
        by_annotator = kind * np.exp(self.log_largest - log)
        sums = map_parts(lambda part: by_annotator[slice(*part)] @ self.share[slice(*part)], self._parts)
        mass: Floats = np.sum(sums, axis=0).reshape(weight.shape) * weight
        return mass


@dataclass(frozen=True)
class Nodes:
    """The likelihoods of annotators.

    Attributes
    ----------
    tables : of the honest nodes, of ability 0 and of the negative abilities
    fixed : log-likelihoods of the behaviours "equal" and "follower", shape (n_annotators, 2)
    """

    tables: tuple[Table, Table, Table]
    fixed: Floats

    def where(self, few: Indices) -> "Nodes":
        """Return the likelihoods of these annotators."""
        honest, coin, contrary = self.tables
        return Nodes((honest.where(few), coin.where(few), contrary.where(few)), self.fixed[few])

    def log_likelihoods(self, mixture: Mixture) -> Floats:
        """Return the log-likelihoods by behaviour, shape (n_annotators, behaviours)."""
        by_table = [table.log_mix(weight) for table, weight in zip(self.tables, self._weights(mixture), strict=True)]
        return np.column_stack([*by_table, self.fixed])

    def _weights(self, mixture: Mixture) -> list[Floats]:
        """Return the probabilities of each table's nodes, shape (abilities, tie propensities)."""
        ties = len(mixture.ties)
        opposed = self.tables[CONTRARY].share.shape[1] // ties
        of_opposed = np.tile(mixture.bad_ties / opposed, (opposed, 1))
        return [np.exp(mixture.log_weight), mixture.bad_ties[None, :], of_opposed]

    def behave(self, mixture: Mixture, log: Floats) -> Floats:
        """Return the probabilities of the behaviours of each annotator, shape (n_annotators, behaviours)."""
        joint = log + np.log(np.maximum(mixture.share, 1e-300))
        kind: Floats = np.exp(joint - log_sum_exp(joint)[:, None])
        return kind

    def masses(self, mixture: Mixture, kind: Floats, log: Floats) -> list[Floats]:
        """Return the expected number of annotators at each table's nodes."""
        return [
            table.mass(weight, kind[:, which], log[:, which])
            for which, (table, weight) in enumerate(zip(self.tables, self._weights(mixture), strict=True))
        ]


def fit_mixture(nodes: Nodes, log_ability: Floats, ties: Floats) -> Mixture:
    """Maximise Σ_k log Σ_b share_b P(votes of k | b) with assumed annotators: expectation-maximisation.

    The log abilities of honest annotators are normal; the tie propensities of honest ones have any distribution, and
    those of coins and contrary ones another, which is like the crowd's where few are bad.

    Parameters
    ----------
    nodes : of at least one annotator for votes to count
    log_ability : of the honest nodes, shape (abilities,)
    ties : shares of the tie propensities to begin from, shape (tie propensities,)

    Notes
    -----
    Where annotators have few votes, coins and a wide spread of honest abilities explain them nearly as well, and the
    search needs about a hundred rounds. ASSUMED annotators keep small crowds from learning shares by chance.
    """
    any_ties = np.full(len(ties), 1.0 / len(ties))
    mixture = Mixture(log_ability, 0.0, 0.4, ties, OF_CROWD * ties + (1.0 - OF_CROWD) * any_ties, START)
    annotators = len(nodes.fixed)
    if annotators == 0:
        return mixture
    nodes = nodes.where(np.arange(annotators)[:: 1 + annotators // ENOUGH])
    for _ in range(ROUNDS):
        before, log = mixture, nodes.log_likelihoods(mixture)
        kind = nodes.behave(mixture, log)
        honest, coin, contrary = nodes.masses(mixture, kind, log)
        by_ability, by_ties = honest.sum(axis=1), honest.sum(axis=0)
        centre = float(by_ability @ log_ability / by_ability.sum())
        squares = by_ability @ (log_ability - centre) ** 2 + ASSUMED * ASSUMED_SPREAD**2
        bad, crowd = coin.sum(axis=0) + contrary.sum(axis=0), _shares(by_ties + ASSUMED_TIES * ties)
        mixture = replace(
            mixture,
            centre=centre,
            spread=float(np.clip(np.sqrt(squares / (by_ability.sum() + ASSUMED)), LEAST_SPREAD, MOST_SPREAD)),
            ties=crowd,
            bad_ties=_shares(bad + ASSUMED * (OF_CROWD * crowd + (1.0 - OF_CROWD) * any_ties)),
            share=_shares(kind.sum(axis=0) + ASSUMED * START),
        )
        moved = abs(mixture.spread - before.spread), abs(mixture.share[COIN] - before.share[COIN])
        if max(moved) < CONVERGED:
            break
    return mixture


def _shares(amount: Floats) -> Floats:
    share: Floats = amount / amount.sum()
    return share


@compiled
def raise_odds(R: Floats, ability: Floats) -> tuple[Floats, Floats]:
    """Return e^{ability · R / 2} and its reciprocal, shape (n_models, abilities): a cell's odds are two products.

    Cells of models with scores so far apart that a power is cut off need logarithms, see `reach`.
    """
    raised = np.exp(np.clip(0.5 * np.outer(R, ability), -ROOM, ROOM))
    return raised, 1.0 / raised


@compiled
def reach(steepest: float, R: Floats, a: int, b: int, lean: float) -> float:
    """Return a bound of the logarithms of a cell's odds, and of the powers that `raise_odds` has for them."""
    bound: float = 0.5 * (steepest * (abs(R[a]) + abs(R[b])) + abs(lean))
    return bound


@compiled
def add_annotators(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats,
    R: Floats, lean: Floats, ability: Floats, tie_propensity: Floats, log_tie_propensity: Floats, out: Floats,
) -> None:  # fmt: skip
    """Add log-likelihoods of annotators first … last−1 to `out`, shape (annotators, abilities, tie propensities).

    lean: log odds that the side adds for model_a, shape (n_cells,). Multiplies the denominators and takes one
    logarithm of their product, because logarithms are slow.
    """
    nodes, steepest, widest = len(ability), np.abs(ability).max(), math.log(2.0 + tie_propensity.max())
    raised, lowered = raise_odds(R, ability)
    product, both = np.ones((len(tie_propensity), nodes)), np.empty(nodes)
    for k in range(first, last):
        slope, leaning, ties, room = 0.0, 0.0, 0.0, ROOM
        for cell in range(starts[k], starts[k + 1]):
            a, b = model_a[cell], model_b[cell]
            d, n = R[a] - R[b], win[cell] + tie[cell] + loss[cell]
            slope += 0.5 * (win[cell] - loss[cell]) * d
            leaning += 0.5 * (win[cell] - loss[cell]) * lean[cell]
            ties += tie[cell]
            largest = n * (reach(steepest, R, a, b, lean[cell]) + widest)
            if n > FEW or n != math.floor(n) or largest > ROOM:
                subtract_cell(n, d, lean[cell], ability, tie_propensity, out[k])
                continue
            if largest > room:
                take_log(product, out[k].T)
                room = ROOM
            room -= largest
            up = math.exp(0.5 * lean[cell])
            for i in range(nodes):
                both[i] = up * raised[a, i] * lowered[b, i] + lowered[a, i] * raised[b, i] / up
            put_denominators(n, both, tie_propensity, product)
        take_log(product, out[k].T)
        for i in range(nodes):
            for j in range(len(tie_propensity)):
                out[k, i, j] += slope * ability[i] + leaning + ties * log_tie_propensity[j]


@compiled
def put_denominators(n: float, both: Floats, tie_propensity: Floats, product: Floats) -> None:
    """Multiply `product`, shape (tie propensities, abilities), by a cell's denominators to the power n."""
    for _ in range(int(n)):
        for j in range(len(tie_propensity)):
            for i in range(len(both)):
                product[j, i] *= both[i] + tie_propensity[j]


@compiled
def subtract_cell(n: float, d: float, lean: float, ability: Floats, tie_propensity: Floats, out: Floats) -> None:
    """Subtract n times the logarithm of a cell's denominators."""
    for i in range(len(ability)):
        y = 0.5 * abs(ability[i] * d + lean)
        for j in range(len(tie_propensity)):
            out[i, j] -= n * (y + math.log1p(math.exp(-2.0 * y) + tie_propensity[j] * math.exp(-y)))


@compiled
def take_log(product: Floats, out: Floats) -> None:
    """Subtract the logarithm of the product from `out` and reset the product to 1."""
    for i in range(product.shape[0]):
        for j in range(product.shape[1]):
            out[i, j] -= math.log(product[i, j])
            product[i, j] = 1.0
