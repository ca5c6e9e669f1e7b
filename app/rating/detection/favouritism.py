from dataclasses import dataclass

import numpy as np

from app.rating.data.arrays import Floats
from app.rating.data.sums import log_sum_exp
from app.rating.data.threads import map_parts
from app.rating.data.votes import Cells
from app.rating.detection.favouritism_kernels import compare_models
from app.rating.detection.null_model import ABILITY, FIRST_HONEST, LOG_ALWAYS, LOG_SLIP, NullModel, follow
from app.rating.solver.gauge import ELO_PER_NATURAL
from app.rating.solver.rows import CellRows

OPINION_SD = 100.0 / ELO_PER_NATURAL  # sd of an honest annotator's own opinion of a model around its score
SHIFT = np.linspace(-4.0, 4.0, 17) * OPINION_SD


@dataclass(frozen=True)
class Favouritism:
    """Log-likelihood ratios against "honest", shape (n_annotators, n_models); 0 for models not seen.

    Attributes
    ----------
    favour : always for the model, honest about all others
    against : always against it, honest about all others
    mimic : always for it, following the ranking about all others
    """

    favour: Floats
    against: Floats
    mimic: Floats


def find_favouritism(cells: Cells, R: Floats, null_model: NullModel, lean: Floats | None = None) -> Favouritism:
    """Compare, for every annotator and model, "always for it" and "always against it" with "honest".

    An honest minority opinion is not evidence. An annotator who only likes a model better than others do still lets it
    lose, and every loss and tie speaks for honesty. Votes that an own opinion of the model explains as well count as
    honest; opinions are normal around the model's score with a standard deviation of 100 Elo points.

    Parameters
    ----------
    cells : as for `fit_null_model`
    R : as for `fit_null_model`, NaN for models without a score
    null_model : from `fit_null_model`
    lean : as for `fit_null_model`

    Notes
    -----
    The ability is integrated out, so the annotator's votes on other models count. The tie propensity is taken at its
    posterior mean. O(n_cells × 24 + n_annotators × n_models × 120).
    """
    win, loss = cells.wins_a, cells.wins_b
    R = np.nan_to_num(R)
    lean = np.zeros(len(win)) if lean is None else lean
    rows = CellRows(cells)
    followed = follow(cells, R)
    favour, against, mimic = (np.zeros((cells.n_annotators, cells.n_models)) for _ in range(3))
    log_shift = -0.5 * (SHIFT / OPINION_SD) ** 2
    log_shift -= log_sum_exp(log_shift)
    log_weight = log_sum_exp(null_model.log_weight)
    map_parts(
        lambda part: compare_models(
            *part, rows.starts, cells.model_a, cells.model_b, win, cells.ties, loss, R, lean,
            ABILITY[FIRST_HONEST:], log_weight, null_model.tie_propensity, followed, LOG_ALWAYS, LOG_SLIP,
            SHIFT, log_shift, favour, against, mimic,
        ),
        rows.parts,
    )  # fmt: skip
    return Favouritism(favour, against, mimic)
