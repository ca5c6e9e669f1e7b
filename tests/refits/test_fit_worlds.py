"""All that a refit computes, on votes that determine no score: it comes to its end, and warnings are errors here."""

import numpy as np
import pytest

from app.rating.settings import LoopSettings
from app.refits.fit.fitting import fit
from app.refits.fit.task import BoardName, FitTask

WORLDS = {
    "one vote": ([0], [1]),
    "one always won": ([0] * 50, [1] * 50),
    "one always won, in two halves": ([0, 2] * 25, [1, 3] * 25),
    "a chain": ([0, 1] * 25, [1, 2] * 25),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("exclude", [False, True])
def test_no_model_has_a_score(world: str, exclude: bool) -> None:
    left, right = (np.array(side, dtype=np.int32) for side in WORLDS[world])
    people, models = 5, int(right.max()) + 1
    nobody = np.zeros(people, dtype=np.bool_)
    task = FitTask(
        np.arange(len(left), dtype=np.int32) % people, left, right, np.ones(len(left)),
        np.arange(people, dtype=np.int32), np.arange(models, dtype=np.int32), nobody, nobody, nobody,
        LoopSettings(min_votes=0, flag_rule="evidence", exclude=exclude),
    )  # fmt: skip
    fitted = fit(task)
    assert not fitted.rating.models.identified.any()
    assert np.isnan(fitted.boards[BoardName("am-elo")].score).all()
    assert fitted.fragility is not None
    assert not len(fitted.fragility.upper)


def test_a_fit_without_comparisons_has_the_same_leaderboard() -> None:
    rng = np.random.default_rng(3)
    annotator, model_a = rng.integers(0, 5, 200, dtype=np.int32), rng.integers(0, 4, 200, dtype=np.int32)
    nobody = np.zeros(5, dtype=np.bool_)
    task = FitTask(
        annotator, model_a, ((model_a + rng.integers(1, 4, 200)) % 4).astype(np.int32), rng.integers(0, 3, 200) / 2.0,
        np.arange(5, dtype=np.int32), np.arange(4, dtype=np.int32), nobody, nobody, nobody, LoopSettings(min_votes=0),
    )  # fmt: skip
    whole, quick = fit(task), fit(task, comparisons=False)
    assert list(quick.boards) == [BoardName("am-elo")]
    assert {name.method for name in whole.boards} == {"am-elo", "m-elo", "m-elo-all", "elo"}
    assert (quick.fragility is None, whole.fragility is None) == (True, False)
    np.testing.assert_array_equal(quick.rating.models.score, whole.rating.models.score)
