"""The null model of detection: how honest annotators vote, fitted to the votes; and the simple other behaviours."""

from dataclasses import dataclass

import numpy as np

from app.rating.data.arrays import Floats, Mask
from app.rating.data.sums import log_sum_exp, sum_by
from app.rating.data.threads import map_parts, one_blas_thread, split
from app.rating.data.votes import Cells
from app.rating.detection.kernels import add_annotators
from app.rating.solver.rows import CellRows

LOG_ABILITY = np.linspace(np.log(0.12), np.log(6.0), 24)  # nodes of honest abilities
CONTRARY = -np.exp(np.linspace(np.log(2.0), np.log(0.25), 7))
ABILITY = np.concatenate([CONTRARY, [0.0], np.exp(LOG_ABILITY)])
COIN, FIRST_HONEST = len(CONTRARY), len(CONTRARY) + 1
TIE_SHARE = np.array([0.003, 0.02, 0.06, 0.12, 0.2, 0.3, 0.42, 0.55, 0.7, 0.85])  # of ties between equals
TIE_PROPENSITY = 2.0 * TIE_SHARE / (1.0 - TIE_SHARE)
ALWAYS, SLIP = 0.95, 0.025  # P(usual answer), P(either other answer) of an annotator who always answers the same
LOG_ALWAYS, LOG_SLIP = float(np.log(ALWAYS)), float(np.log(SLIP))
STRICTNESS = 8.0  # ability of an annotator who follows the ranking: undecided only between near-equals
FOLLOWS, TIES_ANYWAY = 0.95, 0.01
ROUNDS = 25
LEAST_SPREAD, MOST_SPREAD = 0.15, 0.6
WORTH_A_THREAD = 4_000  # annotators; for fewer, starting a thread costs more than it saves
CELLS_WORTH_A_THREAD = 50_000
BEHAVIOURS = ("honest", "coin", "contrary", "equal", "follower")
START = np.array([0.875, 0.05, 0.025, 0.025, 0.025])  # their shares before the votes are seen
ASSUMED = 20.0  # annotators that the shares before count as, and the spread of abilities before
ASSUMED_SPREAD = 0.3
OF_CROWD = 0.9  # share of annotators who vote badly and yet are as ready to tie as the crowd; others as ready as any


@dataclass(frozen=True)
class NullModel:
    """The distribution of honest annotators, and every annotator's likelihood under each behaviour.

    A vote with score difference d is won, tied, lost with weights e^{ad/2} : v : e^{−ad/2} (Davidson 1970), with a the
    annotator's ability and v the tie propensity.

    Attributes
    ----------
    log_weight : log probability of each node for an honest annotator, shape (abilities, tie propensities)
    typical, spread : of honest log abilities: exp(mean), standard deviation
    share : share of annotators with each behaviour, in the order of BEHAVIOURS
    log_likelihood : of each annotator's votes under each behaviour, shape (n_annotators, behaviours)
    ability, tie_propensity : posterior means of each annotator, if honest, shape (n_annotators,)
    posterior : probability of each node of ability given the votes and the crowd, shape (n_annotators, abilities); what
        is missing to 1 is the probability of behaviours without an ability
    """

    log_weight: Floats
    typical: float
    spread: float
    share: Floats
    log_likelihood: Floats
    ability: Floats
    tie_propensity: Floats
    posterior: Floats

    def probability_low(self, threshold: float) -> Floats:
        """Return the probability that the ability is at most `threshold`, natural units, shape (n_annotators,).

        A node of ability stands for the abilities that are nearer to it than to other nodes.
        """
        middle = (ABILITY[1:] + ABILITY[:-1]) / 2.0
        edges = np.concatenate([[2.0 * ABILITY[0] - middle[0]], middle, [2.0 * ABILITY[-1] - middle[-1]]])
        below = np.clip((threshold - edges[:-1]) / np.diff(edges), 0.0, 1.0)
        low: Floats = self.posterior @ below
        return low

    def ratio(self, behaviour: str) -> Floats:
        """Return the log-likelihood ratio of a behaviour against "honest", shape (n_annotators,)."""
        log = self.log_likelihood
        ratio: Floats = log[:, BEHAVIOURS.index(behaviour)] - log[:, 0]
        return ratio


def fit_null_model(
    cells: Cells, R: Floats, *, lean: Floats | None = None, caution: Floats | None = None, taste: Floats | None = None
) -> NullModel:
    """Fit the honest annotators' abilities and tie propensities in a mixture of behaviours.

    Honest: log-normal ability, any distribution of tie propensity. Coin: ability 0. Contrary: negative ability. Equal:
    always ties. Follower: always for the model that the ranking has higher, except near-equals. The other behaviours
    are in the mixture so that their annotators do not widen the distribution of honest ones.

    Parameters
    ----------
    cells : votes between models that have a score, sorted by annotator
    R : natural units of the typical annotator, shape (n_models,); only models in cells are read
    lean : log odds that the side adds for the first model of each cell, shape (n_cells,); default 0
    caution : divisor of the log-likelihoods of each annotator, shape (n_annotators,); default 1
    taste : log-likelihood that tastes add, which only a coin has none of, shape (n_annotators,); default 0

    Notes
    -----
    Expectation-maximisation, 25 rounds, on a grid of 32 × 10 nodes; O(n_cells × 320).
    """
    win, loss = cells.wins_a, cells.wins_b
    rows, log_tie_propensity = CellRows(cells), np.log(TIE_PROPENSITY)
    nodes = np.zeros((cells.n_annotators, len(ABILITY), len(TIE_PROPENSITY)))
    R = np.nan_to_num(R)
    lean = np.zeros(len(win)) if lean is None else lean
    map_parts(
        lambda part: add_annotators(
            *part, rows.starts, cells.model_a, cells.model_b, win, cells.ties, loss, R, lean,
            ABILITY, TIE_PROPENSITY, log_tie_propensity, nodes,
        ),
        rows.parts,
    )  # fmt: skip
    votes = cells.votes_by_annotator()
    ties = sum_by(cells.annotator, cells.ties, cells.n_annotators)
    equal = ties * LOG_ALWAYS + (votes - ties) * LOG_SLIP
    follower = sum_by(cells.annotator, follow(cells, R), cells.n_annotators)
    if caution is not None:
        nodes /= caution[:, None, None]
        equal, follower = equal / caution, follower / caution
    if taste is not None:
        nodes[:, COIN] -= taste[:, None]
    with one_blas_thread():
        return _separate(nodes, equal, follower, votes > 0)


def follow(cells: Cells, R: Floats) -> Floats:
    """Return the log-likelihood of each cell for an annotator who follows the ranking, shape (n_cells,)."""
    win, loss, log = cells.wins_a, cells.wins_b, np.empty(len(cells.n))
    either = (1.0 - FOLLOWS - TIES_ANYWAY) / 2.0

    def fill(part: tuple[int, int]) -> None:
        one = slice(*part)
        d = R[cells.model_a[one]] - R[cells.model_b[one]]
        first = 1.0 / (1.0 + np.exp(-np.clip(STRICTNESS * d, -700.0, 700.0)))
        log[one] = (
            win[one] * np.log(FOLLOWS * first + either)
            + loss[one] * np.log(FOLLOWS * (1.0 - first) + either)
            + cells.ties[one] * np.log(TIES_ANYWAY)
        )

    map_parts(fill, split(len(log), CELLS_WORTH_A_THREAD))
    return log


class _Table:
    """Likelihoods at the nodes, each annotator's divided by the largest, so that a mixture is one matrix product.

    Likelihoods that underflow to 0 do not matter, because the weights of nodes are above e⁻⁴⁰⁰.
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
        """Return Σ weight · share over the nodes, for each annotator."""
        flat = weight.ravel()
        return np.concatenate(map_parts(lambda part: self.share[slice(*part)] @ flat, self._parts))

    def gather(self, by_annotator: Floats) -> Floats:
        """Return Σ value · share over the annotators, for each node."""
        sums = map_parts(lambda part: by_annotator[slice(*part)] @ self.share[slice(*part)], self._parts)
        total: Floats = np.sum(sums, axis=0)
        return total

    def log_mix(self, weight: Floats) -> Floats:
        """Return the log-likelihood of each annotator's votes under a mixture of the nodes."""
        log: Floats = self.log_largest + np.log(self.mix(weight))
        return log


def _separate(nodes: Floats, equal: Floats, follower: Floats, known: Mask) -> NullModel:
    honest, coin, contrary = _Table(nodes[:, FIRST_HONEST:]), _Table(nodes[:, COIN]), _Table(nodes[:, :COIN])
    centre, spread = 0.0, 0.4
    tie_share = np.full(len(TIE_PROPENSITY), 1.0 / len(TIE_PROPENSITY))
    share = START

    def likelihoods() -> tuple[Floats, Floats]:
        """Return the log weights of the honest nodes, and the log-likelihoods by behaviour."""
        ability = -0.5 * ((LOG_ABILITY - centre) / spread) ** 2
        log_weight = (ability - log_sum_exp(ability))[:, None] + np.log(tie_share)
        any_ties = OF_CROWD * tie_share + (1.0 - OF_CROWD) / len(tie_share)
        opposed = np.tile(any_ties / len(CONTRARY), len(CONTRARY))
        by_table = honest.log_mix(np.exp(log_weight)), coin.log_mix(any_ties), contrary.log_mix(opposed)
        return log_weight, np.stack([*by_table, equal, follower], axis=1)

    log_weight, log = likelihoods()
    for _ in range(ROUNDS if known.any() else 0):  # without annotators the prior distribution stays
        joint = log + np.log(np.maximum(share, 1e-300))
        kind = np.exp(joint - log_sum_exp(joint)[:, None])
        share = (kind[known].sum(axis=0) + ASSUMED * START) / (known.sum() + ASSUMED)
        is_honest = np.where(known, kind[:, 0], 0.0) * np.exp(honest.log_largest - log[:, 0])
        mass = honest.gather(is_honest).reshape(log_weight.shape) * np.exp(log_weight)
        by_ability = mass.sum(axis=1) / mass.sum()
        centre = float(by_ability @ LOG_ABILITY)
        squares = mass.sum() * by_ability @ (LOG_ABILITY - centre) ** 2 + ASSUMED * ASSUMED_SPREAD**2
        spread = float(np.clip(np.sqrt(squares / (mass.sum() + ASSUMED)), LEAST_SPREAD, MOST_SPREAD))
        tie_share = (mass.sum(axis=0) + 0.1) / (mass.sum() + 0.1 * len(tie_share))
        log_weight, log = likelihoods()
    weight = np.exp(log_weight)
    total = honest.mix(weight)
    ability = honest.mix(weight * np.exp(LOG_ABILITY)[:, None]) / total
    tie_propensity = honest.mix(weight * TIE_PROPENSITY) / total
    posterior = _posterior((contrary, coin, honest), weight, tie_share, share, log)
    return NullModel(log_weight, float(np.exp(centre)), spread, share, log, ability, tie_propensity, posterior)


def _posterior(
    tables: tuple[_Table, _Table, _Table], weight: Floats, tie_share: Floats, share: Floats, log: Floats
) -> Floats:
    """Return the probability of each node of ability, shape (n_annotators, abilities)."""
    joint = log + np.log(np.maximum(share, 1e-300))
    total = log_sum_exp(joint)
    any_ties = OF_CROWD * tie_share + (1.0 - OF_CROWD) / len(tie_share)
    of_node = (
        share[BEHAVIOURS.index("contrary")] / len(CONTRARY) * np.tile(any_ties, (len(CONTRARY), 1)),
        share[BEHAVIOURS.index("coin")] * any_ties[None, :],
        share[0] * weight,
    )
    columns = []
    for table, prior in zip(tables, of_node, strict=True):
        by_ability = np.einsum("kij,ij->ki", table.share.reshape(len(log), *prior.shape), prior)
        columns.append(by_ability * np.exp(table.log_largest - total)[:, None])
    return np.concatenate(columns, axis=1)
