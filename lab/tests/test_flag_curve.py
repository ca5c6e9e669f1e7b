"""The curve of `min_probability`: what is planted, what is flagged, and whether stated probabilities hold."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from app.rating.errors import VotesError
from app.rating.verdict.round import run_round
from stable_arena_lab.arenas import paper_arena
from stable_arena_lab.defences.flag_curve import EDGES, PROBABILITIES, draw_crowd, plant, trace
from stable_arena_lab.defences.gains import SERVICE

DRAW = partial(draw_crowd, annotators=100, votes_each=60)


def test_a_planted_file_keeps_the_votes_of_all_others() -> None:
    arena = paper_arena(1)
    planted = plant(arena, 2)
    assert (planted.coins.sum(), planted.contrary.sum(), planted.low) == (4, 1, None)
    assert not (planted.coins & planted.contrary).any()
    changed = planted.votes.outcome != arena.outcome
    assert set(arena.annotator[changed]) == set(np.flatnonzero(planted.coins | planted.contrary))
    contrary = planted.contrary[arena.annotator]
    np.testing.assert_array_equal(planted.votes.outcome[contrary], 1.0 - arena.outcome[contrary])
    tied = [(votes[planted.coins[arena.annotator]] == 0.5).mean() for votes in (planted.votes.outcome, arena.outcome)]
    assert tied[0] == pytest.approx(tied[1], abs=0.08)
    with pytest.raises(VotesError):
        plant(arena.take(np.flatnonzero(arena.annotator < 2)).of_regulars(0), 0)


def test_the_truth_of_a_drawn_crowd_is_who_is_at_or_below_epsilon() -> None:
    drawn = DRAW(3)
    assert (drawn.coins.sum(), drawn.contrary.sum()) == (10, 3)
    assert drawn.low is not None
    np.testing.assert_array_equal(drawn.low, drawn.coins | drawn.contrary)


def test_the_curve_is_what_the_rule_flags_and_the_bins_have_everyone() -> None:
    curves, bins = trace("one", DRAW, range(2))
    assert [one.probability for one in curves if not one.tests] == list(PROBABILITIES)
    alone, tested = ([one.coins or 0.0 for one in curves if one.tests == tests] for tests in (False, True))
    assert alone == sorted(alone, reverse=True)
    assert alone[0] > alone[-1]
    assert all(one <= other for one, other in zip(alone, tested, strict=True))
    assert [(one.least, one.most) for one in bins] == list(pairwise(EDGES))
    assert sum(one.annotators for one in bins) == 200
    assert all(one.least <= one.stated <= one.most for one in bins if one.stated is not None)
    assert (bins[0].true or 0.0) < 0.1
    assert (bins[-1].true or 0.0) > 0.9

    drawn = DRAW(0)
    at = replace(SERVICE, min_probability=PROBABILITIES[1], evidence_ratio=1e300)
    flagged = run_round(drawn.votes.cells(), at).annotators.standing == "flagged"
    one = trace("one", DRAW, [0])[0][1]
    assert one.coins == pytest.approx(flagged[drawn.coins].mean(), abs=0.11), "but for the unit, one coin of ten"


def test_the_command_traces_crowds_and_files(run_lab: Callable[..., Result], arena_file: Path) -> None:
    words = ["--annotators", 60, "--votes-each", 30, "--repeats", 2, "--processes", 1]
    document = json.loads(run_lab("flags", arena_file, *words, "--format", "json").stdout)
    crowds = {row["crowd"] for row in document["curves"]}
    assert "60 × 30" in crowds
    assert any(crowd.startswith(arena_file.name) for crowd in crowds)
    assert {row["crowd"] for row in document["calibration"]} == {"60 × 30"}
    shown = run_lab("flags", *words).stdout
    assert "0.95, tests" in shown
    assert "Truly at or below ε" in shown
