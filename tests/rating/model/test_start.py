import numpy as np

from app.rating.model.start import fit_bradley_terry
from app.rating.votes.cells import pool_annotators
from tests.rating.model.crowds import draw


def test_bradley_terry_scores_beside_known_ones_maximise_the_same_objective() -> None:
    """Known scores stay as they are; beside all others of the solution the last one is the solution's too."""
    pairs = pool_annotators(draw(20, 30).cells)
    whole = fit_bradley_terry(pairs)
    known = whole.copy()
    known[3] = np.nan
    np.testing.assert_allclose(fit_bradley_terry(pairs, known), whole, atol=1e-7)
    np.testing.assert_array_equal(fit_bradley_terry(pairs, whole + 1.0), whole + 1.0)
