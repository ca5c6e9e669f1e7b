"""Battle policies on simulated arenas: what the simulation draws, and what the policies save."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import Result

from app.rating.sampling.pair_weights import uniform_weights
from app.rating.units import NATURAL_PER_ELO
from stable_arena_lab.attacks.arena import Setup
from stable_arena_lab.battles.calibration import Detection, find_least_votes
from stable_arena_lab.battles.rounds import draw_battles
from stable_arena_lab.battles.sealed import measure_gains


@pytest.mark.campaign
def test_taking_the_choice_of_battles_away_takes_most_of_an_attackers_gain() -> None:
    setup = Setup(n_annotators=100, votes_each=30, share=0.05)
    found = {
        (row.attack, row.choice, row.board): row
        for row in measure_gains(setup, seeds=range(2), targets=[10], attacks=["target-only"])
    }
    chosen, drawn = (found["target-only", choice, "m-elo"] for choice in ("chosen", "mixed"))
    assert chosen.shown == 1.0
    assert drawn.shown is not None
    assert drawn.shown < 0.3
    assert chosen.points is not None
    assert drawn.points is not None
    assert chosen.points > 3.0 * drawn.points > 0.0


def test_calibration_battles_say_more_of_annotators() -> None:
    R = NATURAL_PER_ELO * np.linspace(-250.0, 250.0, 20)
    table = replace(uniform_weights(np.arange(20)), R=R)
    generator = np.random.default_rng(5)
    told = []
    for share in (0.0, 0.5):
        left, right = draw_battles(table, 4_000, generator, calibration=share)
        assert (left != right).all()
        d = R[left] - R[right]
        p = 1.0 / (1.0 + np.exp(-d))
        told.append((d**2 * p * (1.0 - p)).mean())
    assert told[1] > 1.15 * told[0]


def test_least_votes_are_where_the_curves_meet() -> None:
    """Log-odds linear in the logarithm of the votes, with calibration as after twice as many votes."""

    def share(votes: int, slope: float, factor: float) -> float:
        return 1.0 / (1.0 + np.exp(-slope * np.log(votes * factor / 40)))

    rows = [
        Detection(10_000, calibration, n, share(n, 1.0, factor), share(n, 1.5, factor), share(n, -2.0, factor))
        for calibration, factor in ((0.0, 1.0), (0.5, 2.0))
        for n in (15, 30, 51)
    ]
    none, half = find_least_votes(rows)
    assert [none.coins, none.contrary, none.wronged, none.all] == pytest.approx([51] * 4)
    assert [half.coins, half.contrary, half.wronged, half.all] == pytest.approx([25.5] * 4)


def test_the_commands_of_the_laboratory(run_lab: Callable[..., Result]) -> None:
    sealed = run_lab(
        "sealed", "--repeats", 1, "--annotators", 20, "--votes-each", 20, "--target", 3, "--processes", 1,
        "--format", "json",
    )  # fmt: skip
    assert (sealed.exit_code, sealed.stderr) == (0, "")
    assert len(json.loads(sealed.stdout)["gains"]) == 2 * 4 * 3
    calibration = run_lab("calibration", "--repeats", 1, "--votes", 10, "--votes", 20, "--share", 0.5, "--processes", 1)
    assert (calibration.exit_code, calibration.stderr) == (0, "")
    assert "Least votes for the same error rates" in calibration.stdout
    assert run_lab("sealed", "--target", 20).exit_code == 2
    assert run_lab("calibration", "--votes", 10).exit_code == 2
    assert run_lab("calibration", "--share", 1.5).exit_code == 2
