import numpy as np
import pytest

from app.rating.votes.cells import Cells, aggregate, pool_annotators
from app.rating.votes.graph import FEW_MODELS, follow_wins, strong_classes


def draw_cells(seed: int, n_votes: int, n_models: int) -> Cells:
    """Draw votes of one annotator on the first 50 of the models, a few of them ties."""
    generator = np.random.default_rng(seed)
    model_a = generator.integers(50, size=n_votes)
    model_b = (model_a + generator.integers(1, 50, size=n_votes)) % 50
    outcome = generator.choice([0.0, 0.5, 1.0], size=n_votes, p=[0.45, 0.1, 0.45])
    return aggregate(np.zeros(n_votes, dtype=int), model_a, model_b, outcome, n_annotators=1, n_models=n_models)


@pytest.mark.parametrize("n_votes", [0, 30, 60, 90, 300])
def test_few_models_have_the_classes_that_they_have_among_many(n_votes: int) -> None:
    few = strong_classes(draw_cells(n_votes, n_votes, 50))
    many = strong_classes(draw_cells(n_votes, n_votes, FEW_MODELS + 1))[:50]
    np.testing.assert_array_equal(few[:, None] == few, many[:, None] == many)
    assert (len(np.unique(few)) == 1) == (n_votes == 300)


@pytest.mark.parametrize("seed", range(20))
def test_values_follow_the_wins(seed: int) -> None:
    """Where votes lead from one model to another and none back, it is above; classes keep their differences."""
    pairs, generator = pool_annotators(draw_cells(seed, 20 + 2 * seed, 50)), np.random.default_rng(seed)
    value = generator.normal(size=50).round(1)
    found, strong = follow_wins(pairs, value), strong_classes(pairs)
    reaches = np.eye(50, dtype=bool)
    reaches[pairs.model_a[pairs.s > 0], pairs.model_b[pairs.s > 0]] = True
    reaches[pairs.model_b[pairs.s < pairs.n], pairs.model_a[pairs.s < pairs.n]] = True
    for model in range(50):
        reaches |= np.outer(reaches[:, model], reaches[model])
    above = reaches & ~reaches.T
    assert (found[:, None] > found)[above].all()
    same = strong[:, None] == strong
    np.testing.assert_allclose((found[:, None] - found)[same], (value[:, None] - value)[same], atol=1e-12)
    assert (found >= value).all()
    np.testing.assert_array_equal(found[~above.any(axis=1)], value[~above.any(axis=1)])
