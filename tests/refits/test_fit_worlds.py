"""All that a refit computes, on votes that determine no score: it comes to its end, and warnings are errors here."""

from dataclasses import replace

import numpy as np
import pytest

from app.rating.settings import LoopSettings
from app.refits.fit.fit import fit_snapshot
from app.refits.fit.interface import LeaderboardName
from app.refits.fragility import measure_fragility
from tests.fixtures.fit_inputs import make_fit_input

WORLDS = {
    "one vote": ([0], [1]),
    "one always won": ([0] * 50, [1] * 50),
    "one always won, in two halves": ([0, 2] * 25, [1, 3] * 25),
    "a chain": ([0, 1] * 25, [1, 2] * 25),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("prompted", [False, True])
def test_no_model_has_a_score(world: str, exclude: bool, prompted: bool) -> None:
    left, right = (np.array(side, dtype=np.int32) for side in WORLDS[world])
    people, models = 5, int(right.max()) + 1
    fit_input = make_fit_input(
        np.arange(len(left)) % people,
        left,
        right,
        np.ones(len(left)),
        n_annotators=people,
        n_models=models,
        settings=LoopSettings(min_votes=0, flag_rule="evidence", exclude=exclude),
    )
    fit_input = replace(fit_input, prompts=np.arange(len(left)) % 3 - 1 if prompted else None)
    output = fit_snapshot(fit_input)
    assert not output.models.identified.any()
    assert np.isnan(output.leaderboards[LeaderboardName("am-elo")].score).all()
    everything = np.ones(people, dtype=bool)
    fragility = measure_fragility(fit_input, everything, np.ones(models, dtype=bool))
    assert fragility is not None
    assert not len(fragility.upper)
    assert not len(fragility.best.dropped)


def test_a_fit_without_comparisons_has_the_same_leaderboard() -> None:
    rng = np.random.default_rng(3)
    annotator, model_a = rng.integers(0, 5, 200, dtype=np.int32), rng.integers(0, 4, 200, dtype=np.int32)
    fit_input = make_fit_input(
        annotator,
        model_a,
        (model_a + rng.integers(1, 4, 200)) % 4,
        rng.integers(0, 3, 200) / 2.0,
        n_annotators=5,
        n_models=4,
        settings=LoopSettings(min_votes=0),
    )
    whole, quick = fit_snapshot(fit_input), fit_snapshot(fit_input, comparisons=False)
    assert list(quick.leaderboards) == [LeaderboardName("am-elo")]
    assert {name.method for name in whole.leaderboards} == {"am-elo", "m-elo", "m-elo-all", "elo"}
    np.testing.assert_array_equal(quick.models.score, whole.models.score)
