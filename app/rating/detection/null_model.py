"""The null model of detection: how honest annotators vote, fitted to the votes; and the simple other behaviours."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from app.rating.arrays import Floats, Mask, log_sum_exp, sum_by
from app.rating.detection.mixture import BEHAVIOURS, Nodes, Table, add_annotators, fit_mixture
from app.rating.fit.lean_spread import NO_SPREAD, Spread
from app.rating.fit.rows import CellRows
from app.rating.settings import EVEN_ODDS
from app.rating.threads import map_parts, one_blas_thread, split
from app.rating.votes.cells import Cells

LOG_ABILITY = np.linspace(np.log(0.12), np.log(6.0), 24)  # nodes of honest abilities
CONTRARY = -np.exp(np.linspace(np.log(2.0), np.log(0.25), 7))
ABILITY = np.concatenate([CONTRARY, [0.0], np.exp(LOG_ABILITY)])
COIN, FIRST_HONEST = len(CONTRARY), len(CONTRARY) + 1
COINS, CONTRARIES = BEHAVIOURS.index("coin"), BEHAVIOURS.index("contrary")
TIE_SHARE = np.array([0.003, 0.02, 0.06, 0.12, 0.2, 0.3, 0.42, 0.55, 0.7, 0.85, 0.93, 0.97])  # of ties between equals
TIE_PROPENSITY = 2.0 * TIE_SHARE / (1.0 - TIE_SHARE)
ALWAYS, SLIP = 0.95, 0.025  # P(usual answer), P(either other answer) of an annotator who always answers the same
LOG_ALWAYS, LOG_SLIP = float(np.log(ALWAYS)), float(np.log(SLIP))
EQUAL = 0.99  # the same of an annotator who always ties: 0.95 is the share of ties of a very careful honest one
STRICTNESS = 8.0  # ability of an annotator who follows the ranking: undecided only between near-equals
FOLLOWS, TIES_ANYWAY = 0.95, 0.01
CELLS_WORTH_A_THREAD = 50_000
UNUSUAL = 1e-3  # share of annotators who may have any tie propensity


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
    """

    log_weight: Floats
    typical: float
    spread: float
    share: Floats
    log_likelihood: Floats
    ability: Floats
    tie_propensity: Floats

    def coin_ratio(self) -> Floats:
        """Return `EVEN_ODDS` times the odds that the ability is 0 or below, as a logarithm, shape (n_annotators,).

        Unlike `ratio` it counts how many such annotators this crowd has.
        """
        log = self.log_likelihood + np.log(self.share)
        low = np.logaddexp(log[:, COINS], log[:, CONTRARIES])
        ratio: Floats = low - log_sum_exp(np.delete(log, (COINS, CONTRARIES), axis=1)) + np.log(EVEN_ODDS)
        return ratio

    def ratio(self, behaviour: str) -> Floats:
        """Return the log-likelihood ratio of a behaviour against "honest", shape (n_annotators,)."""
        log = self.log_likelihood
        ratio: Floats = log[:, BEHAVIOURS.index(behaviour)] - log[:, 0]
        return ratio


def fit_null_model(
    cells: Cells,
    R: Floats,
    *,
    lean: Floats | None = None,
    caution: Floats | None = None,
    opinions: Floats | None = None,
    doubt: Floats | None = None,
    ties: Spread = NO_SPREAD,
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
    opinions : in place of caution, from `explain_by_opinions`; default: annotators have none of their own
    doubt : log-likelihood that the errors of the scores add, shape (n_annotators, abilities); default 0
    ties : of log tie propensities over the crowd, where the search begins; default: any is as likely

    Notes
    -----
    On a grid of 32 × 12 nodes; O(n_cells × 384).
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
    tied = sum_by(cells.annotator, cells.ties, cells.n_annotators)
    equal = tied * np.log(EQUAL) + (votes - tied) * np.log((1.0 - EQUAL) / 2.0)
    follower = sum_by(cells.annotator, follow(cells, R), cells.n_annotators)
    if opinions is not None:
        _add_opinions(nodes, opinions)
    if doubt is not None:
        nodes += doubt[:, :, None]
    if caution is not None:
        nodes /= caution[:, None, None]
        equal, follower = equal / caution, follower / caution
    with one_blas_thread():
        tables = Table.of(nodes[:, FIRST_HONEST:]), Table.of(nodes[:, COIN]), Table.of(nodes[:, :COIN])
        return _separate(Nodes(tables, np.column_stack([equal, follower])), votes > 0, _begin(ties))


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


def _begin(ties: Spread) -> Floats:
    """Return the shares of the nodes of tie propensity in a crowd with this spread, shape (tie propensities,)."""
    even = np.full(len(TIE_PROPENSITY), 1.0 / len(TIE_PROPENSITY))
    if ties.sd == 0.0:
        return even
    log = np.log(TIE_PROPENSITY)
    below = ndtr(((log[1:] + log[:-1]) / 2.0 - ties.mean) / ties.sd)
    share: Floats = UNUSUAL * even + (1.0 - UNUSUAL) * np.diff(below, prepend=0.0, append=1.0)
    return share


def _add_opinions(nodes: Floats, opinions: Floats) -> None:
    """Add what opinions explain to the nodes of positive abilities: noise has none, nor has the ranking turned over.

    With opinions, tie propensities are as likely as at the annotator's likeliest ability without.
    """
    weighed = np.flatnonzero(np.isfinite(opinions[0, :, 0]))
    without, by_opinions = opinions[:, weighed]
    own = nodes[weighed]
    by_ties = own.max(axis=1)
    by_ties -= by_ties.max(axis=1, keepdims=True)
    mixed = np.logaddexp(own + without[:, :, None], by_opinions[:, :, None] + by_ties[:, None, :])
    mixed[:, :FIRST_HONEST] = own[:, :FIRST_HONEST]
    nodes[weighed] = mixed


def _separate(nodes: Nodes, known: Mask, ties: Floats) -> NullModel:
    mixture = fit_mixture(nodes.where(np.flatnonzero(known)), LOG_ABILITY, ties)
    weight, log, honest = np.exp(mixture.log_weight), nodes.log_likelihoods(mixture), nodes.tables[0]
    total = honest.mix(weight)
    return NullModel(
        mixture.log_weight, float(np.exp(mixture.centre)), mixture.spread, mixture.share, log,
        ability=honest.mix(weight * np.exp(LOG_ABILITY)[:, None]) / total,
        tie_propensity=honest.mix(weight * TIE_PROPENSITY) / total,
    )  # fmt: skip
