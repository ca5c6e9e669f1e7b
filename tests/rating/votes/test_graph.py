import numpy as np
import pytest

from app.rating.votes.cells import Cells, aggregate
from app.rating.votes.graph import FEW_MODELS, strong_classes


def draw_cells(seed: int, n_votes: int, n_models: int) -> Cells:
    """Draw votes of one annotator on the first 50 of the models, a few of them ties."""
    generator = np.random.default_rng(seed)
    model_a = generator.integers(50, size=n_votes)
    model_b = (model_a + generator.integers(1, 50, size=n_votes)) % 50
    outcome = generator.choice([0.0, 0.5, 1.0], size=n_votes, p=[0.45, 0.1, 0.45])
    return aggregate(np.zeros(n_votes, dtype=int), model_a, model_b, outcome, n_annotators=1, n_models=n_models)


@pytest.mark.parametrize("n_votes", [0, 30, 60, 90, 300])
def test_few_models_have_the_classes_that_they_have_among_many(n_votes: int) -> None:
    few = strong_classes(draw_cells(n_votes, n_votes, 50), np.ones(1))
    many = strong_classes(draw_cells(n_votes, n_votes, FEW_MODELS + 1), np.ones(1))[:50]
    np.testing.assert_array_equal(few[:, None] == few, many[:, None] == many)
    assert (len(np.unique(few)) == 1) == (n_votes == 300)
