from app.rating.data.arrays import Floats
from app.rating.data.sums import sum_by
from app.rating.data.votes import Cells
from app.rating.detection.null_model import LOG_ALWAYS, LOG_SLIP, NullModel


def always_one_side(cells: Cells, null_model: NullModel, left_wins: Floats) -> tuple[Floats, Floats]:
    """Compare "always the left answer" and "always the right answer" with "honest".

    Parameters
    ----------
    left_wins : votes of each annotator for the model shown on the left, between models with a score,
        shape (n_annotators,)

    Returns
    -------
    left, right : log-likelihood ratios, shape (n_annotators,)
    """
    decided = sum_by(cells.annotator, cells.wins_a + cells.wins_b, cells.n_annotators)
    ties = sum_by(cells.annotator, cells.ties, cells.n_annotators)
    right_wins = decided - left_wins
    honest = null_model.log_likelihood[:, 0]
    left = left_wins * LOG_ALWAYS + (ties + right_wins) * LOG_SLIP - honest
    right = right_wins * LOG_ALWAYS + (ties + left_wins) * LOG_SLIP - honest
    return left, right
