"""What honest annotators of this crowd do, and what they do not: the likelihoods every test compares."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from app.rating.data.arrays import Floats, Mask
from app.rating.data.sums import sum_by
from app.rating.data.threads import map_parts, one_blas_thread, split
from app.rating.data.votes import Cells
from app.rating.detection.kernels import add_annotators
from app.rating.solver.partition import CellRows

LOG_ABILITY = np.linspace(np.log(0.12), np.log(6.0), 24)  # nodes of honest abilities
CONTRARY = -np.exp(np.linspace(np.log(0.25), np.log(2.0), 7))
ABILITY = np.concatenate([CONTRARY, [0.0], np.exp(LOG_ABILITY)])
COIN, FIRST_HONEST = len(CONTRARY), len(CONTRARY) + 1
EVEN_SHARE = np.array([0.003, 0.02, 0.06, 0.12, 0.2, 0.3, 0.42, 0.55, 0.7, 0.85])  # of ties between equals
EVENNESS = 2.0 * EVEN_SHARE / (1.0 - EVEN_SHARE)
ALWAYS, SLIP = 0.95, 0.025  # what somebody who always answers the same way does, and does not, in one vote
LOG_ALWAYS, LOG_SLIP = float(np.log(ALWAYS)), float(np.log(SLIP))
STRICTNESS = 8.0  # ability of one who follows the ranking: only near-equals are open
FOLLOWS, TIES_ANYWAY = 0.95, 0.01
ROUNDS = 25
LEAST_SPREAD, MOST_SPREAD = 0.15, 0.6
WORTH_A_THREAD = 4_000  # annotators; below it starting a thread costs more than it saves
BEHAVIOURS = ("honest", "coin", "contrary", "equal", "follower")


@dataclass(frozen=True)
class NullModel:
    """The crowd's honest annotators, and every annotator's likelihood under each behaviour.

    A vote with score difference d is won, tied, lost with weights e^{ad/2} : v : e^{−ad/2} (Davidson 1970), a the
    annotator's ability, v how readily they call a tie.

    Attributes
    ----------
    log_weight : log probability that an honest annotator has the ability and evenness of a node,
        shape (abilities, evennesses)
    typical, spread : of honest log abilities: exp(mean), standard deviation
    share : of the annotators with each behaviour, as in BEHAVIOURS
    log_likelihood : of each annotator's votes under each behaviour, shape (n_annotators, behaviours)
    ability, evenness : of each annotator if honest: posterior means given the own votes, shape (n_annotators,)
    """

    log_weight: Floats
    typical: float
    spread: float
    share: Floats
    log_likelihood: Floats
    ability: Floats
    evenness: Floats

    def ratio(self, behaviour: str) -> Floats:
        """Log-likelihood ratio of a behaviour against honest, shape (n_annotators,)."""
        log = self.log_likelihood
        ratio: Floats = log[:, BEHAVIOURS.index(behaviour)] - log[:, 0]
        return ratio


def fit_null_model(cells: Cells, R: Floats) -> NullModel:
    """Fit the honest annotators' abilities and ties as one part of a mixture of behaviours.

    Honest: log-normal ability, any distribution of ties. Coin: ability 0. Contrary: negative ability. Equal: always
    ties. Follower: the ranking's favourite wins but for near-equals. The other behaviours are in the mixture so that
    they do not widen what passes for honest.

    Parameters
    ----------
    cells : votes between models that have a score, sorted by annotator
    R : natural units of the typical annotator, shape (n_models,); read where cells point only

    Notes
    -----
    Expectation-maximisation, 25 rounds, on a grid of 32 × 10 nodes; O(n_cells × 320).
    """
    win, loss = outcomes(cells)
    rows, log_evenness = CellRows(cells), np.log(EVENNESS)
    nodes = np.zeros((cells.n_annotators, len(ABILITY), len(EVENNESS)))
    R = np.nan_to_num(R)
    map_parts(
        lambda part: add_annotators(
            *part, rows.starts, cells.model_a, cells.model_b, win, cells.ties, loss, R,
            ABILITY, EVENNESS, log_evenness, nodes,
        ),
        rows.parts,
    )  # fmt: skip
    votes = cells.votes_by_annotator()
    ties = sum_by(cells.annotator, cells.ties, cells.n_annotators)
    equal = ties * LOG_ALWAYS + (votes - ties) * LOG_SLIP
    follower = sum_by(cells.annotator, follow(cells, R), cells.n_annotators)
    with one_blas_thread():
        return _separate(nodes, equal, follower, votes > 0)


def outcomes(cells: Cells) -> tuple[Floats, Floats]:
    """Votes that model_a won and lost in each cell."""
    return cells.s - cells.ties / 2.0, cells.n - cells.s - cells.ties / 2.0


def follow(cells: Cells, R: Floats) -> Floats:
    """Log-likelihood of each cell for one who follows the ranking, shape (n_cells,)."""
    win, loss = outcomes(cells)
    d = R[cells.model_a] - R[cells.model_b]
    first = 1.0 / (1.0 + np.exp(-np.clip(STRICTNESS * d, -700.0, 700.0)))
    either = (1.0 - FOLLOWS - TIES_ANYWAY) / 2.0
    log: Floats = (
        win * np.log(FOLLOWS * first + either)
        + loss * np.log(FOLLOWS * (1.0 - first) + either)
        + cells.ties * np.log(TIES_ANYWAY)
    )
    return log


class _Table:
    """Likelihoods at some of the nodes, each annotator's divided by the largest, so that any mixture is one product.

    What falls below the smallest number there is does not count: a node's weight is above e⁻⁴⁰⁰.
    """

    def __init__(self, log_likelihood: Floats) -> None:
        rows = log_likelihood.reshape(len(log_likelihood), -1)
        self.log_largest = rows.max(axis=1)
        self.share = np.empty_like(rows)
        self._parts = split(len(rows), WORTH_A_THREAD)

        def fill(part: tuple[int, int]) -> None:
            one = slice(*part)
            np.exp(rows[one] - self.log_largest[one, None], out=self.share[one])

        map_parts(fill, self._parts)

    def mix(self, weight: Floats) -> Floats:
        """Σ_node weight · share, for each annotator."""
        flat = weight.ravel()
        return np.concatenate(map_parts(lambda part: self.share[slice(*part)] @ flat, self._parts))

    def gather(self, by_annotator: Floats) -> Floats:
        """Σ_annotator of their number · share, for each node."""
        sums = map_parts(lambda part: by_annotator[slice(*part)] @ self.share[slice(*part)], self._parts)
        total: Floats = np.sum(sums, axis=0)
        return total

    def log_mix(self, weight: Floats) -> Floats:
        """Log-likelihood of each annotator's votes under a mixture of the nodes."""
        log: Floats = self.log_largest + np.log(self.mix(weight))
        return log


def _separate(nodes: Floats, equal: Floats, follower: Floats, known: Mask) -> NullModel:
    honest, coin, contrary = _Table(nodes[:, FIRST_HONEST:]), _Table(nodes[:, COIN]), _Table(nodes[:, :COIN])
    centre, spread = 0.0, 0.4
    even = np.full(len(EVENNESS), 1.0 / len(EVENNESS))
    share = np.array([0.9, *[0.1 / (len(BEHAVIOURS) - 1)] * (len(BEHAVIOURS) - 1)])

    def likelihoods() -> tuple[Floats, Floats]:
        """Weights of the honest nodes, and log-likelihoods by behaviour."""
        ability = -0.5 * ((LOG_ABILITY - centre) / spread) ** 2
        log_weight = (ability - logsumexp(ability))[:, None] + np.log(even)
        anybody = 0.5 * even + 0.5 / len(even)  # an attacker's ties need not be like the crowd's
        opposed = np.tile(anybody / len(CONTRARY), len(CONTRARY))
        by_table = honest.log_mix(np.exp(log_weight)), coin.log_mix(anybody), contrary.log_mix(opposed)
        return log_weight, np.stack([*by_table, equal, follower], axis=1)

    log_weight, log = likelihoods()
    for _ in range(ROUNDS if known.any() else 0):  # nobody says nothing of the crowd: it stays as it is assumed
        joint = log + np.log(np.maximum(share, 1e-300))
        kind = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        share = kind[known].mean(axis=0)
        is_honest = np.where(known, kind[:, 0], 0.0) * np.exp(honest.log_largest - log[:, 0])
        mass = honest.gather(is_honest).reshape(log_weight.shape) * np.exp(log_weight)
        by_ability = mass.sum(axis=1) / mass.sum()
        centre = float(by_ability @ LOG_ABILITY)
        spread = float(np.clip(np.sqrt(by_ability @ (LOG_ABILITY - centre) ** 2), LEAST_SPREAD, MOST_SPREAD))
        even = (mass.sum(axis=0) + 0.1) / (mass.sum() + 0.1 * len(even))
        log_weight, log = likelihoods()
    weight = np.exp(log_weight)
    total = honest.mix(weight)
    ability = honest.mix(weight * np.exp(LOG_ABILITY)[:, None]) / total
    evenness = honest.mix(weight * EVENNESS) / total
    return NullModel(log_weight, float(np.exp(centre)), spread, share, log, ability, evenness)
