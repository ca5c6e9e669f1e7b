"""How uncertain scores are where annotators count alike, whatever their abilities."""

import numpy as np

from app.rating.data.arrays import Floats
from app.rating.data.sums import sum_by
from app.rating.data.threads import map_parts
from app.rating.data.votes import Cells
from app.rating.detection.habits import Habits
from app.rating.detection.score_kernels import add_doubts, add_gradients
from app.rating.settings import LoopSettings
from app.rating.solver.rows import CellRows
from app.rating.solver.weights import weigh_votes

OPPOSED = 0.5  # adjusted ability below which votes oppose the scores, so that these are in doubt
RIDGE = 1e-9  # of the mean information on a model: makes the information of separate groups of models invertible


def score_covariance(cells: Cells, R: Floats) -> Floats:
    """Return the covariance of scores over samples of annotators who count alike, shape (n_models, n_models).

    H⁻¹ (Σ_k g_k g_k′) H⁻¹, g_k the gradient of annotator k's votes at ability 1 and the limit of influence, H the
    information of all; 0 for models without votes. It asks how far the scores could move if other annotators of this
    crowd had voted, and an annotator who contradicts them is believed as much as one who agrees.

    Parameters
    ----------
    cells : sorted by annotator
    R : natural units, shape (n_models,)

    Notes
    -----
    The fit's own covariance takes abilities as they were estimated. Where attackers outvote the few judges of some
    models, these judges have low abilities, and the fit is sure of the attackers' order.
    """
    limited = weigh_votes(cells, np.ones(cells.n_annotators), LoopSettings.influence_limit or np.inf)
    cells = cells if limited is None else limited.cells
    rows, size = CellRows(cells), cells.n_models

    def sum_part(part: tuple[int, int]) -> Floats:
        sums = np.zeros((2, size, size))
        add_gradients(*part, rows.starts, cells.model_a, cells.model_b, cells.n, cells.s, R, sums[0], sums[1])
        return sums

    first, *others = map_parts(sum_part, rows.parts)
    information, meat = sum(others, first)
    judged = np.ix_(*[np.flatnonzero(np.diag(information))] * 2)  # models without votes change nothing
    information, found = information[judged], np.zeros((size, size))
    ridge = RIDGE * np.trace(information) / max(len(information), 1)
    bread = np.linalg.inv(information + ridge * np.eye(len(information)))
    found[judged] = bread @ meat[judged] @ bread
    return found


def doubt_scores(cells: Cells, R: Floats, lean: Floats, habits: Habits, ability: Floats) -> Floats:
    """Return what the errors of the scores add to log-likelihoods, shape (n_annotators, abilities).

    log ∫ P(votes of k | a, R + t b_k) dN(t) − log P(votes of k | a, R), see `add_doubts`; 0 where the votes do not ask
    the scores to move by a standard error.

    Parameters
    ----------
    lean : as for `fit_null_model`
    ability : natural units
    """
    rows, R, out = CellRows(cells), np.nan_to_num(R), np.zeros((cells.n_annotators, len(ability)))
    errors, tied = score_covariance(cells, R), sum_by(cells.annotator, cells.ties, cells.n_annotators)
    own = 2.0 * tied / (cells.votes_by_annotator() - tied + 1.0)  # not drawn to the crowd's: some always tie
    tie_propensity = np.maximum(np.exp(np.nan_to_num(habits.tie_log)), own)
    map_parts(
        lambda part: add_doubts(
            *part, rows.starts, cells.model_a, cells.model_b, cells.wins_a, cells.ties, cells.wins_b, R, lean,
            habits.ability < OPPOSED, habits.typical, tie_propensity, errors, ability, out,
        ),
        rows.parts,
    )  # fmt: skip
    return out
