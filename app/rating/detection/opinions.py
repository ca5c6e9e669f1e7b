"""How well honest annotators' own opinions of models explain their votes."""

import numpy as np

from app.rating.data.arrays import Floats, Indices
from app.rating.data.sums import log_sum_exp
from app.rating.data.threads import map_parts
from app.rating.data.votes import Cells
from app.rating.detection.habits import Habits
from app.rating.detection.null_model import ABILITY, COIN, FIRST_HONEST, LOG_ABILITY
from app.rating.detection.opinion_kernels import weigh_opinions
from app.rating.solver.gauge import ELO_PER_NATURAL
from app.rating.solver.rows import CellRows

SDS = np.array([0.0, 60.0, 120.0, 240.0]) / ELO_PER_NATURAL  # of an annotator's opinions around the scores
START = np.array([3.0, 1.0, 1.0, 1.0]) / 6.0  # shares of annotators with these before the votes are seen
ASSUMED = 2.0  # annotators that count as evidence for them
SPREAD = 0.5  # of log abilities around the typical one, while the shares are estimated
TIES_SD = 2.0  # of the prior that keeps tie propensities finite
ROUNDS = 30
ENOUGH = 2_000  # annotators that determine the shares and the crowd's mixture
OPPOSED = 0.5  # adjusted ability below which every annotator's tastes are weighed, however many there are
OF_CONTRARY = 0.1  # share of contrary annotators who turn opinions of their own over, and not the ranking alone
UNSEEN = -1e300  # log-likelihood of abilities that do not matter


def explain_by_opinions(cells: Cells, R: Floats, lean: Floats, habits: Habits, whose: Indices) -> Floats | None:
    """Return log Σ_s p_s ∫ P(votes of k | a, R + u) dN(u; 0, s²) without and with tastes; None in a crowd without any.

    u are the annotator's own opinions of the models, s one of `SDS` for each annotator. The shares p of the crowd are
    found by expectation-maximisation, so that a few attackers move them by their number alone. Of contrary annotators
    only a tenth are taken to turn opinions of their own over: opinions that oppose the ranking are honest first.

    Parameters
    ----------
    lean : as for `fit_null_model`
    whose : annotators to weigh; those who follow the ranking too closely are left out, as opinions explain mimics too

    Returns
    -------
    array
        Shape (2, n_annotators, abilities): log p_0, and the log of the other terms. NaN for annotators who are not
        weighed: in crowds of more than 2,000, most of those whose ability is not low.
    """
    if habits.taste_sd == 0.0:
        return None
    rows, known = CellRows(cells), whose[np.isfinite(habits.ability[whose])]
    look = np.zeros(cells.n_annotators, dtype=bool)
    look[known[:: 1 + len(known) // ENOUGH]] = True
    look[known[habits.ability[known] < OPPOSED]] = True
    log = np.full((cells.n_annotators, len(ABILITY), len(SDS)), UNSEEN)
    begin = np.searchsorted(ABILITY, np.nan_to_num(habits.ability) * habits.typical)
    begin = np.clip(begin, FIRST_HONEST, len(ABILITY) - 1)
    map_parts(
        lambda part: weigh_opinions(
            *part, rows.starts, cells.model_a, cells.model_b, cells.wins_a, cells.ties, cells.wins_b, lean,
            np.nan_to_num(R), np.nan_to_num(habits.tie_log, neginf=-np.inf), habits.ties.mean, 1.0 / TIES_SD**2, look,
            begin, ABILITY, COIN, SDS, log,
        ),
        rows.parts,
    )  # fmt: skip
    share = _find_shares(log[look], habits.typical)
    found = np.full((2, *log.shape[:2]), np.nan)
    found[0, look] = np.log(share[0])
    found[1, look] = log_sum_exp(log[look][:, :, 1:] + np.log(share[1:]))
    found[1, :, :COIN] += np.log(OF_CONTRARY)
    return found


def _find_shares(log: Floats, typical: float) -> Floats:
    """Return the share of annotators with each of `SDS`.

    Coins count too: any strength of opinions fits them about as well, so they hardly move the shares.
    """
    prior = -0.5 * ((LOG_ABILITY - np.log(typical)) / SPREAD) ** 2
    prior -= log_sum_exp(prior)
    of_sd, share = log_sum_exp((log[:, FIRST_HONEST:] + prior[:, None]).transpose(0, 2, 1)), START
    for _ in range(ROUNDS):
        weighed = of_sd + np.log(share)
        mass = np.exp(weighed - log_sum_exp(weighed)[:, None]).sum(axis=0) + ASSUMED * START
        share = mass / mass.sum()
    return share
