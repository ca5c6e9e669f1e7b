from app.rating.data.sums import Floats, sum_by
from app.rating.data.votes import Cells
from app.rating.detection.crowd import LOG_ALWAYS, LOG_SLIP, Crowd, outcomes


def always_one_side(cells: Cells, crowd: Crowd, left_wins: Floats) -> tuple[Floats, Floats]:
    """Compare "always the left" and "always the right answer" with honest.

    Parameters
    ----------
    left_wins : votes of each annotator that the model shown on the left won, between models with a score,
        shape (n_annotators,)

    Returns
    -------
    left, right : log-likelihood ratios, shape (n_annotators,)
    """
    win, loss = outcomes(cells)
    decided = sum_by(cells.annotator, win + loss, cells.n_annotators)
    ties = sum_by(cells.annotator, cells.ties, cells.n_annotators)
    right_wins = decided - left_wins
    honest = crowd.log_likelihood[:, 0]
    left = left_wins * LOG_ALWAYS + (ties + right_wins) * LOG_SLIP - honest
    right = right_wins * LOG_ALWAYS + (ties + left_wins) * LOG_SLIP - honest
    return left, right
