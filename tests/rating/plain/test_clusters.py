import numpy as np
import pytest

from app.rating.model.score_kernels import LARGEST_SHARE
from app.rating.plain.clusters import sum_clusters
from app.rating.votes.cells import aggregate


@pytest.mark.parametrize("models", [4, 60])
def test_the_sums_are_those_of_whole_rows(models: int) -> None:
    """With 60 models annotators of few votes add products of their own models, the others rows of all models."""
    random = np.random.default_rng(models)
    who = np.repeat(np.arange(700), random.choice([1, 2, 60], 700)).astype(np.int32)
    a = random.integers(0, models, len(who)).astype(np.int32)
    b = (a + random.integers(1, models, len(who)).astype(np.int32)) % np.int32(models)
    cells = aggregate(who, a, b, random.integers(0, 2, len(who)).astype(float), n_annotators=700, n_models=models)
    contribution, information = random.normal(size=len(cells.n)), random.exponential(size=len(cells.n))
    whole, pull = random.uniform(1.0, 4.0, models), random.normal(size=700)

    rows, share = np.zeros((2, 700, models))
    for sign, model in ((1.0, cells.model_a), (-1.0, cells.model_b)):
        np.add.at(rows, (cells.annotator, model), sign * contribution)
        np.add.at(share, (cells.annotator, model), information / whole[model])
    rows /= np.sqrt(1.0 - np.minimum(share, LARGEST_SHARE))
    assert (share > LARGEST_SHARE).any()
    found = sum_clusters(cells, contribution, information, whole, pull)
    assert found.meat == pytest.approx(rows.T @ rows, abs=1e-9)
    assert found.with_pull == pytest.approx(rows.T @ pull, abs=1e-9)
    assert found.shares == pytest.approx((share**2).sum(axis=0))
    assert found.judges.tolist() == (share > 0.0).sum(axis=0).tolist()
