"""How uncertain scores are where annotators count alike, whatever their abilities."""

from dataclasses import dataclass

import numpy as np

from app.rating.data.arrays import Floats
from app.rating.data.compact import compact, pool_annotators
from app.rating.data.graph import find_components
from app.rating.data.sums import sum_by
from app.rating.data.threads import map_parts
from app.rating.data.votes import Cells
from app.rating.detection.habits import Habits
from app.rating.detection.score_kernels import TINY, add_doubts, add_gradients
from app.rating.errors import NotConvergedError
from app.rating.settings import LoopSettings
from app.rating.solver.fit import fit_m_elo_unchecked
from app.rating.solver.rows import CellRows
from app.rating.solver.weights import weigh_votes

OPPOSED = 0.5  # adjusted ability below which votes oppose the scores, so that these are in doubt
RIDGE = 1e-9  # of the mean information on a model: makes the information of separate groups of models invertible


@dataclass(frozen=True)
class ScoreErrors:
    """How uncertain scores are where annotators count alike.

    Attributes
    ----------
    inverse : H⁻¹, shape (n_models, n_models); 0 for models without votes
    covariance : of the scores over samples of annotators, of the same shape
    judges : effective number of annotators behind each model, (Σ_k n_k)²/Σ_k n_k², shape (n_models,)
    """

    inverse: Floats
    covariance: Floats
    judges: Floats


def limit_votes(cells: Cells) -> Cells:
    """Return the votes with the weights that the limit of influence gives where every ability is 1."""
    limited = weigh_votes(cells, np.ones(cells.n_annotators), LoopSettings.influence_limit or np.inf)
    return cells if limited is None else limited.cells


def find_score_errors(cells: Cells, R: Floats) -> ScoreErrors:
    """Return the errors of scores as if every ability were 1.

    The covariance is H⁻¹ (Σ_k g_k g_k′) H⁻¹, g_k the gradient of annotator k's votes at ability 1 and H the information
    of all. It asks how far the scores could move if other annotators of this crowd had voted, and an annotator who
    contradicts them is believed as much as one who agrees.

    Parameters
    ----------
    cells : from `limit_votes`, sorted by annotator
    R : natural units, shape (n_models,)

    Notes
    -----
    The fit's own covariance takes abilities as they were estimated. Where attackers outvote the few judges of some
    models, these judges have low abilities, and the fit is sure of the attackers' order.
    """
    rows, size = CellRows(cells), cells.n_models

    def sum_part(part: tuple[int, int]) -> Floats:
        sums = np.zeros((2 * size + 2, size))
        information, meat, votes = sums[:size], sums[size:-2], sums[-2:]
        add_gradients(
            *part, rows.starts, cells.model_a, cells.model_b, cells.n, cells.s, R, information, meat, votes
        )  # fmt: skip
        return sums

    first, *others = map_parts(sum_part, rows.parts)
    total = sum(others, first)
    information, half, (votes, squares) = total[:size], total[size:-2], total[-2:]
    meat = half + half.T
    judged = np.ix_(*[np.flatnonzero(np.diag(information))] * 2)  # models without votes change nothing
    information, inverse = information[judged], np.zeros((size, size))
    ridge = RIDGE * np.trace(information) / max(len(information), 1)
    inverse[judged] = np.linalg.inv(information + ridge * np.eye(len(information)))
    return ScoreErrors(inverse, inverse @ meat @ inverse, votes**2 / np.maximum(squares, TINY))


def fit_evenly(cells: Cells, R: Floats) -> Floats:
    """Return the Bradley-Terry scores, by a search from R; R itself where the search fails.

    Where they have no finite maximum, the search ends at large ones.

    Parameters
    ----------
    cells : from `limit_votes`
    """
    judged, even = compact(pool_annotators(cells)), R.copy()
    try:
        even[judged.models] = fit_m_elo_unchecked(judged.cells, find_components(judged.cells).label, R[judged.models]).R
    except NotConvergedError:
        return R
    return even


def doubt_scores(cells: Cells, R: Floats, lean: Floats, habits: Habits, ability: Floats) -> Floats:
    """Return what the errors of the scores add to log-likelihoods, shape (n_annotators, abilities).

    log ½ Σ_s ∫ P(votes of k | a, R_s + t b_s) dT(t) − log P(votes of k | a, R_0). R_0 are the scores of the fit, R_1
    those where annotators count alike, b_s is a standard error of theirs, and T is Student's distribution: see
    `add_doubts`. 0 where the votes do not ask the scores to move by three standard errors.

    Parameters
    ----------
    lean : as for `fit_null_model`
    ability : natural units
    """
    rows, R, out = CellRows(cells), np.nan_to_num(R), np.zeros((cells.n_annotators, len(ability)))
    asked = habits.ability < OPPOSED
    if not asked.any():
        return out
    limited, tied = limit_votes(cells), sum_by(cells.annotator, cells.ties, cells.n_annotators)
    scores = np.stack([R, fit_evenly(limited, R)])
    errors = [find_score_errors(limited, one) for one in scores]
    inverse, covariance = (np.stack([getattr(one, name) for one in errors]) for name in ("inverse", "covariance"))
    own = 2.0 * tied / (cells.votes_by_annotator() - tied + 1.0)  # not drawn to the crowd's: some always tie
    tie_propensity = np.maximum(np.exp(np.nan_to_num(habits.tie_log)), own)
    map_parts(
        lambda part: add_doubts(
            *part, rows.starts, cells.model_a, cells.model_b, cells.wins_a, cells.ties, cells.wins_b, limited.n,
            limited.s, scores, lean, asked, habits.typical, tie_propensity, inverse, covariance, errors[0].judges,
            ability, out,
        ),
        rows.parts,
    )  # fmt: skip
    return out
