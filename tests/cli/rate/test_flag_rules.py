"""`rate` flags the annotators that a refit of the same votes flags."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from app.policy.schemas import Policy
from app.rating.settings import LoopSettings
from stable_arena_lab.attacks.arena import Arena, Setup, draw_arena
from tests.fixtures.fit_inputs import fit_main, make_fit_input

RunCli = Callable[..., Result]
WINNER = {1.0: "model_a", 0.5: "tie", 0.0: "model_b"}


def write_votes(arena: Arena, path: Path) -> Path:
    votes = arena.votes
    lines = ["annotator,model_a,model_b,winner"]
    columns = (votes.annotator.tolist(), votes.left.tolist(), votes.right.tolist(), votes.outcome.tolist())
    lines += [f"k{k:02},m{a:02},m{b:02},{WINNER[outcome]}" for k, a, b, outcome in zip(*columns, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_rule_of_the_service_is_the_default_everywhere() -> None:
    assert Policy().flag_rule == LoopSettings().flag_rule == "evidence"
    assert Policy().evidence_tests == LoopSettings().evidence_tests


@pytest.mark.parametrize(("strategy", "reasons"), [("mimic", {"favour", "follower"}), ("always-left", {"side"})])
def test_the_same_votes_have_the_same_flags(run_cli: RunCli, tmp_path: Path, strategy: str, reasons: set[str]) -> None:
    """The ability of a mimic is high; and only the order of the two models shows that someone always votes left."""
    arena = draw_arena(4, strategy, Setup(n_annotators=40, votes_each=100))
    file, votes = write_votes(arena, tmp_path / "votes.csv"), arena.votes

    def rate(*arguments: object) -> dict[str, dict[str, Any]]:
        document = json.loads(run_cli("rate", file, "--format", "json", *arguments).stdout)
        return {row["annotator"]: row for row in document["annotators"]}

    fit_input = make_fit_input(
        votes.annotator, votes.left, votes.right, votes.outcome,
        n_annotators=40, n_models=20, settings=Policy().loop_settings("am-elo"),
    )  # fmt: skip
    refit = fit_main(fit_input).annotators
    by_default = rate()
    assert [by_default[f"k{k:02}"]["standing"] for k in range(40)] == refit.standing.tolist()
    assert [by_default[f"k{k:02}"]["reason"] or "" for k in range(40)] == refit.rule.tolist()
    attackers = [f"k{k:02}" for k in range(40) if arena.attacker[k]]
    assert {by_default[k]["reason"] for k in attackers} <= reasons
    by_ability = rate("--flag-rule", "threshold")
    assert {by_ability[k]["reason"] for k in attackers} <= {None, "ability"}


def test_a_lower_probability_flags_more(run_cli: RunCli, tmp_path: Path) -> None:
    arena = draw_arena(4, "careful-mimic", Setup(n_annotators=40, votes_each=60))
    file = write_votes(arena, tmp_path / "votes.csv")
    flagged = []
    for least in (0.9, 0.5):
        options = ("--min-ability", 0.9, "--min-probability", least)
        document = json.loads(run_cli("rate", file, "--format", "json", *options).stdout)
        assert document["settings"]["min_probability"] == least
        likely = {row["annotator"] for row in document["annotators"] if row["probability_low"] >= least}
        assert {row["annotator"] for row in document["annotators"] if row["reason"] == "ability"} <= likely
        flagged.append({row["annotator"] for row in document["annotators"] if row["standing"] == "flagged"})
        assert likely <= flagged[-1]
    assert flagged[0] < flagged[1]


def test_the_paper_s_rule_and_the_confidence_are_options(run_cli: RunCli, vote_file: Path) -> None:
    def rate(*arguments: object) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(run_cli("rate", vote_file, "--format", "json", *arguments).stdout)
        return document

    by_threshold = rate("--flag-rule", "threshold")
    assert by_threshold["settings"]["flag_rule"] == "threshold"
    assert {row["reason"] for row in by_threshold["annotators"]} == {None, "ability"}
    wide, narrow = rate("--confidence", 0.99)["models"][0], rate("--confidence", 0.5)["models"][0]
    assert wide["score"] == narrow["score"]
    assert wide["upper"] - wide["lower"] > 3 * (narrow["upper"] - narrow["lower"])
    shown = run_cli("rate", vote_file, "--annotators", "--flag-rule", "threshold").stdout
    assert ["k24", "flagged", "ability"] in [[*line.split()[:1], *line.split()[-2:]] for line in shown.splitlines()]
