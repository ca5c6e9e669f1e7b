"""The experiment on honest habits: what its crowds are like, and what its command prints."""

import json
from collections.abc import Callable

import numpy as np
import pytest
from typer.testing import Result

from stable_arena_lab.defences.habits import BAD, MODELS, Crowd, draw, judge_crowds


def test_crowds_have_the_habits_that_they_are_named_by() -> None:
    def shares(world: str, outcome: float) -> np.ndarray:
        k, _, _, W, _ = draw(1, Crowd(world, annotators=60, votes_each=300))
        return np.bincount(k, outcome == W) / 300

    assert np.std(shares("readiness to tie, sd 1.5", 0.5)) > 3 * np.std(shares("alike", 0.5))
    assert np.std(shares("lean, sd 300", 1.0)) > 4 * np.std(shares("alike", 1.0))
    few = Crowd("one in 14 leans 300 points", annotators=60)
    moved = shares(few.world, 1.0) - shares("alike", 1.0)
    assert np.flatnonzero(moved).tolist() == np.flatnonzero(few.leaners).tolist() == [0, 1, 2, 3]
    assert np.sign(moved[:4]).tolist() == [1, -1, 1, -1]


@pytest.mark.parametrize("bad", BAD)
def test_bad_annotators_are_a_tenth_and_vote_as_they_are_named(bad: str) -> None:
    k, left, right, W, marked = draw(2, Crowd(bad=bad, votes_each=200))
    honest = draw(2, Crowd(votes_each=200))[3]
    assert marked.sum() == 4
    np.testing.assert_array_equal(W[~marked[k]], honest[~marked[k]])
    assert (W[marked[k]] != honest[marked[k]]).mean() > 0.2
    assert left.max() == right.max() == MODELS - 1


def test_the_rule_finds_more_of_those_who_answer_at_random_than_the_bare_threshold() -> None:
    judged = judge_crowds([Crowd(bad="coin"), Crowd("lean, sd 300")], seeds=range(3))
    found = {(one.crowd.world, one.rule): one for one in judged}
    assert found["alike", "the service's"].found > 1.3 * found["alike", "bare ε"].found  # type: ignore[operator]
    assert all(one.wronged < 0.03 and one.found is None for one in judged if not one.crowd.bad)  # type: ignore[operator]


def test_the_command_prints_a_row_for_each_crowd_and_rule(run_lab: Callable[..., Result]) -> None:
    words = ["--repeats", "1", "--votes-each", "51", "--score-sd", "140", "--world", "alike", "--bad", "coin"]
    rows = json.loads(run_lab("habits", *words, "--processes", "1", "--format", "json").stdout)["rows"]
    assert {(row["bad"], row["rule"]) for row in rows} == {
        (bad, rule) for bad in ("", "coin") for rule in ("bare ε", "the service's")
    }
    assert "Found / wronged" in run_lab("habits", *words, "--processes", "1").stdout


def test_an_unknown_crowd_is_refused(run_lab: Callable[..., Result]) -> None:
    assert run_lab("habits", "--world", "nobody").exit_code == 2
