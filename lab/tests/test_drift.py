"""The experiment on drift: what its annotators are like, and what its command prints."""

import json
from collections.abc import Callable

import numpy as np
import pytest
from typer.testing import Result

from app.rating.types.drift import ABILITIES
from stable_arena_lab.defences.drift import BEHAVIOURS, LEVELS, Watch, draw_annotator, watch_all

TYPICAL, CONTRARY = (int(np.argmin(np.abs(ABILITIES - ability))) for ability in (1.0, -1.0))


def test_abilities_change_at_half_or_vote_by_vote() -> None:
    age = np.array([0.0, 0.25, 0.5, 0.75])
    assert BEHAVIOURS["one ability"].abilities(1.2, age).tolist() == [1.2] * 4
    assert BEHAVIOURS["becomes a coin"].abilities(1.2, age).tolist() == [1.2, 1.2, 0.0, 0.0]
    assert BEHAVIOURS["was a coin"].abilities(1.2, age).tolist() == [0.0, 0.0, 1.2, 1.2]
    assert BEHAVIOURS["becomes a coin slowly"].abilities(1.2, age) == pytest.approx([1.2, 0.9, 0.6, 0.3])


def test_votes_are_likelier_with_the_ability_that_they_are_cast_with() -> None:
    generator = np.random.default_rng(1)
    score = 140.0 * generator.standard_normal(20)
    table = draw_annotator(generator, Watch("turns against the ranking", 2_000, 140.0), score)
    assert table.shape[1] == len(ABILITIES)
    assert 500 < len(table) < 2_000  # ties are left out
    first, second = np.array_split(table, 2)
    assert first[:, TYPICAL].sum() > first[:, CONTRARY].sum() + 50.0
    assert second[:, CONTRARY].sum() > second[:, TYPICAL].sum() + 50.0


def test_a_change_is_found_at_its_time_and_none_where_the_ability_stays() -> None:
    kinds = ("one ability", "turns against the ranking")
    alarms = watch_all([Watch(kind, 200, 140.0, 20) for kind in kinds], seeds=range(3))
    steady, turned = ({one.level: one for one in alarms if one.watch.behaviour == kind} for kind in kinds)
    assert [one.annotators for one in alarms] == [60] * len(LEVELS) * 2
    assert steady[100.0].reached <= 0.02  # type: ignore[operator]  # a share, as votes were drawn
    assert turned[100.0].reached > 0.8  # type: ignore[operator]  # as above
    assert turned[100.0].reached <= turned[10.0].reached  # type: ignore[operator]  # as above
    assert turned[100.0].time == pytest.approx(0.5, abs=0.03)


def test_the_command(run_lab: Callable[..., Result]) -> None:
    words = ["drift", "--behaviour", "becomes a coin", "--votes-each", 51, "--annotators", 5, "--repeats", 2]
    rows = json.loads(run_lab(*words, "--processes", 1, "--format", "json").stdout)["alarms"]
    assert [(row["behaviour"], row["votes_each"], row["score_sd"], row["level"]) for row in rows] == [
        ("becomes a coin", 51, sd, level) for sd in (140.0, 70.0) for level in LEVELS
    ]
    assert "100 to 1" in run_lab(*words, "--processes", 1).stdout
    assert run_lab("drift", "--behaviour", "nothing").exit_code == 2
