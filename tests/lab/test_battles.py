"""Battle policies on simulated arenas: what the simulation draws, and what the policies save."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from app.cli.command import application
from app.lab.attacks.arena import Setup
from app.lab.battles.calibration import Detection, find_least_votes
from app.lab.battles.comparison import PolicyRow, compare_policies, summarise
from app.lab.battles.policies import COMPARED, coval
from app.lab.battles.pooled_arena import pooled_arena, simulated_arena
from app.lab.battles.rounds import draw_battles
from app.lab.battles.sealed import measure_gains
from app.lab.battles.votes_needed import VotesNeeded, count_votes
from app.lab.simulate import NATURAL_PER_ELO, World
from app.rating.sampling.pair_weights import uniform_weights


def test_pooled_votes_are_those_of_the_annotators() -> None:
    """The same mean and the same share of ties as votes of the World drawn one by one."""
    score, ability = np.array([0.6, -0.6]), np.exp(0.3 * np.random.default_rng(1).standard_normal(400))
    arena = pooled_arena(score, ability, 0.35, bad=0.3)
    role = np.array(["honest"] * 280 + ["random"] * 40 + ["flip"] * 40 + ["equal"] * 40)
    theta = np.where(role == "honest", ability, np.where(role == "flip", -ability, 0.0))
    world = World(score / NATURAL_PER_ELO, theta, role, 0, 0.35)
    annotator = np.tile(np.arange(400), 500)
    first, second = np.zeros(len(annotator), dtype=int), np.ones(len(annotator), dtype=int)
    outcome = world.vote(annotator, first, second, np.random.default_rng(2))
    assert arena.won[0, 1] == pytest.approx((outcome == 1.0).mean(), abs=0.005)
    assert arena.tied[0, 1] == pytest.approx((outcome == 0.5).mean(), abs=0.005)
    assert arena.won[0, 1] + arena.won[1, 0] + arena.tied[0, 1] == pytest.approx(1.0)
    battles = np.array([[0, 100_000], [0, 0]], dtype=float)
    wins, ties = arena.vote(battles, np.random.default_rng(3))
    assert wins[0, 1] + wins[1, 0] + ties[0, 1] == 100_000
    assert wins[0, 1] / 100_000 == pytest.approx(arena.won[0, 1], abs=0.005)
    np.testing.assert_array_equal(ties, ties.T)


def saved(arenas: int, *policies: str) -> dict[str, PolicyRow]:
    found = compare_policies(partial(simulated_arena, n_models=20), seeds=range(arenas), policies=policies)
    return {row.policy: row for row in found}


def test_the_default_needs_fewer_votes_than_uniform_pairs() -> None:
    rows = saved(3, "mixed")
    assert list(rows) == ["uniform", "mixed"]
    assert rows["uniform"].top_ratio == rows["uniform"].ranking_ratio == 1.0
    assert rows["mixed"].top_ratio <= 0.40
    assert rows["mixed"].wrong == 0.0


@pytest.mark.soak
def test_what_the_policies_save() -> None:
    """With 20 models: the first three with a third of the votes, the ranking with no more than uniform pairs."""
    rows = saved(30, "information", "top_k", "mixed")
    assert rows["top_k"].top_ratio <= 0.30
    assert rows["mixed"].top_ratio <= 0.40
    assert rows["mixed"].ranking_ratio <= 1.5
    assert rows["information"].ranking_ratio <= 1.0
    assert max(row.wrong for row in rows.values()) <= 0.1


def test_answers_are_those_that_stay() -> None:
    arena = simulated_arena(3, 8, bad=0.1)
    one, again = (count_votes(arena, "mixed", seed=5, k=2) for _ in range(2))
    assert one == again
    assert count_votes(arena, "mixed", seed=6, k=2) != one
    close = pooled_arena(np.array([1.0, 0.0, 0.0]), np.ones(1), 0.3)  # the second place is never decided
    stuck = count_votes(close, "top_k", seed=1, k=2)
    assert stuck.top == 1e10


def test_the_summary_compares_within_each_arena() -> None:
    found = [VotesNeeded("uniform", 9, i, 100.0 * i, 10.0 * i, False) for i in (1, 2, 3)]
    found += [VotesNeeded("top_k", 9, i, 300.0, 5.0 * i, i == 1) for i in (1, 2, 3)]
    uniform, top = summarise(found)
    assert (uniform.ranking, uniform.top, uniform.ranking_ratio) == (200.0, 20.0, 1.0)
    assert (top.ranking, top.ranking_ratio, top.ranking_low, top.ranking_high) == (300.0, 1.5, 1.25, 2.25)
    assert (top.top_ratio, top.wrong, top.arenas) == (0.5, pytest.approx(1 / 3), 3)


def test_coval_prefers_close_pairs_with_wide_intervals() -> None:
    R = np.array([0.0, 0.0, 300.0 * NATURAL_PER_ELO])
    weights = coval(R, np.diag([4.0, 1.0, 1.0]), np.zeros((3, 3)), 1)
    np.testing.assert_allclose(weights, [[0, 3, 3 / np.e], [3, 0, 2 / np.e], [3 / np.e, 2 / np.e, 0]])
    assert "coval" in COMPARED


def simulate(*arguments: object) -> Result:
    return CliRunner().invoke(application, ["battles", "simulate", *(str(argument) for argument in arguments)])


def test_the_command_simulates_worlds_and_files(arena_file: Path, tmp_path: Path) -> None:
    quick = ("--repeats", 1, "--policy", "mixed", "--processes", 1)
    result = simulate("--world", 5, "--world", 6, "--bad", 0.1, *quick, "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert [(row["models"], row["policy"]) for row in document["policies"]] == [
        (5, "uniform"), (5, "mixed"), (6, "uniform"), (6, "mixed"),
    ]  # fmt: skip
    figure = tmp_path / "figure.json"
    of_file = simulate(arena_file, *quick, "--figure", figure)
    assert (of_file.exit_code, of_file.stderr) == (0, "")
    assert "arena.csv" in of_file.stdout
    assert json.loads(figure.read_text(encoding="utf-8"))["hconcat"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "either a vote FILE or --world"),
        (("--world", 3), "--world must be at least 4 models, is 3"),
        (("--world", 9, "--top", 9), "--world must be at least 10 models, is 9"),
        (("--world", 9, "--policy", "best"), "--policy must be one of uniform"),
    ],
)
def test_what_cannot_be_simulated(arguments: tuple[object, ...], named: str) -> None:
    result = simulate(*arguments)
    assert result.exit_code == 2
    assert named in " ".join(result.stderr.split())


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
        "sealed", "--repeats", 1, "--annotators", 40, "--votes-each", 20, "--target", 3, "--processes", 1,
        "--format", "json",
    )  # fmt: skip
    assert (sealed.exit_code, sealed.stderr) == (0, "")
    assert len(json.loads(sealed.stdout)["gains"]) == 2 * 4 * 5
    calibration = run_lab("calibration", "--repeats", 1, "--votes", 10, "--votes", 20, "--share", 0.5, "--processes", 1)
    assert (calibration.exit_code, calibration.stderr) == (0, "")
    assert "Least votes for the same error rates" in calibration.stdout
    assert run_lab("sealed", "--target", 20).exit_code == 2
    assert run_lab("calibration", "--votes", 10).exit_code == 2
    assert run_lab("calibration", "--share", 1.5).exit_code == 2
