import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from app.rating.settings import EVIDENCE_TESTS, LoopSettings
from stable_arena_lab.attacks.arena import Setup, Votes, draw_arena
from stable_arena_lab.defences.false_positives import (
    AS_VOTED,
    VARIATIONS,
    Variation,
    find_false_positives,
    fit_honest_model,
    resample,
)

SETTINGS = LoopSettings(min_votes=50, interval="none")


def crowd(strategy: str) -> Votes:
    return draw_arena(3, strategy, Setup(n_annotators=40, votes_each=60)).votes


def test_a_resampled_crowd_has_the_same_battles_and_is_honest() -> None:
    votes = crowd("flip")
    model = fit_honest_model(votes, SETTINGS)
    honest = resample(model, Variation(), 1)
    np.testing.assert_array_equal(honest.left, votes.left)
    assert (honest.outcome == resample(model, Variation(), 1).outcome).all()
    assert (honest.outcome != resample(model, Variation(), 2).outcome).any()
    for one, other in ((votes, False), (honest, True)):
        d = (model.R[one.left] - model.R[one.right])[one.annotator >= 36]
        agrees = np.sum(d * (one.outcome[one.annotator >= 36] - 0.5)) > 0
        assert agrees == other  # those who flipped follow the ranking now


def test_natures_are_what_they_say() -> None:
    model = fit_honest_model(crowd("none"), SETTINGS)
    plain, leaning = (resample(model, nature, 4).outcome for nature in (Variation(), Variation(side=2000.0)))
    spread = [np.bincount(model.votes.annotator, outcome).std() for outcome in (plain, leaning)]
    assert spread[1] > 3.0 * spread[0]
    same = resample(model, Variation(answers=5000.0), 4)
    low, high = np.minimum(same.left, same.right), np.maximum(same.left, same.right)
    won = np.where(same.left == low, same.outcome, 1.0 - same.outcome)
    busiest = np.bincount(low * 20 + high).argmax()
    assert len(set(won[low * 20 + high == busiest].tolist())) == 1  # all agree on a pair


def test_attackers_are_marked_and_the_honest_are_not() -> None:
    rows = find_false_positives(crowd("equal"), SETTINGS, seeds=range(2), variations=("as the tests suppose",))
    share = {(row.nature, row.rule): row.share for row in rows}
    assert {row.rule for row in rows} == {"ε", *EVIDENCE_TESTS, "any test"}
    assert share[AS_VOTED, "equal"] == pytest.approx(0.1)
    assert share[AS_VOTED, "any test"] >= 0.1
    assert share["as the tests suppose", "any test"] <= 0.05
    assert {row.annotators for row in rows} == {40}


def test_the_wronged_command(run_lab: Callable[..., Result], arena_file: Path, tmp_path: Path) -> None:
    figure = tmp_path / "wronged.svg"
    shown = run_lab("wronged", arena_file, "--repeats", 1, "--processes", 1, "--format", "json", "--figure", figure)
    assert (shown.exit_code, shown.stderr) == (0, "")
    rows = json.loads(shown.stdout)["rows"]
    assert {row["nature"] for row in rows} == {AS_VOTED, *VARIATIONS}
    assert {row["annotators"] for row in rows} == {42}  # the one with three votes is left out
    assert figure.exists()
    assert run_lab("wronged", arena_file, "--min-votes", 5000).exit_code == 2


@pytest.mark.soak
def test_honest_crowds_are_left_alone_at_the_stated_rate() -> None:
    """On crowds without bad annotators the service's tests mark at most one in a hundred of each test, as stated."""
    for votes_each in (51, 200):
        votes = draw_arena(9, "none", Setup(n_annotators=200, votes_each=votes_each)).votes
        rows = find_false_positives(votes, SETTINGS, seeds=range(20), variations=("as the tests suppose",))
        share = {row.rule: row.share for row in rows if row.nature != AS_VOTED}
        assert max(share[test] for test in EVIDENCE_TESTS) <= 0.01
        assert share["any test"] <= 0.02
