"""The command `judges`: people and judges together, and the plan of votes."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

from tests.fixtures.judged_arena import make_arena

RunCli = Callable[..., Result]
WORDS = {1.0: "model_a", 0.5: "tie", 0.0: "model_b"}
ARENA = make_arena(1, "good", battles=2000)


def write(path: Path, chance: np.ndarray | None = None) -> Path:
    """Write the judges' votes and 300 of people, on random battles unless `chance` says otherwise."""
    ballots, human = ARENA.ask(1, 300, chance=chance)
    v = ballots.votes
    with path.open("w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out)
        rows.writerow(["annotator", "annotator_kind", "battle_id", "model_a", "model_b", "winner"])
        for k, a, b, W, battle in zip(v.annotator, v.model_a, v.model_b, v.outcome, ballots.battle, strict=True):
            kind = "human" if human[k] else "judge"
            rows.writerow([v.annotators[k], kind, battle, v.models[a], v.models[b], WORDS[float(W)]])
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("judges") / "votes.csv")


def report_of(run_cli: RunCli, *options: object) -> dict[str, Any]:
    result = run_cli("judges", *options, "--format", "json")
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_report_has_both_leaderboards(file: Path, run_cli: RunCli) -> None:
    found = report_of(run_cli, file)
    people, together = ({row["model"]: row for row in found[name]} for name in ("people_models", "sharpened"))
    assert people.keys() == together.keys()
    assert all(row.keys() == {"model", "score", "lower", "upper"} for row in found["sharpened"])
    assert all(row["lower"] < row["score"] < row["upper"] for row in found["sharpened"])
    assert found["people_votes"] == 300
    assert 310 < found["people_votes_worth"] < 600
    width = {
        name: np.mean([row["upper"] - row["lower"] for row in found[name]]) for name in ("people_models", "sharpened")
    }
    assert width["sharpened"] < 0.98 * width["people_models"]
    about = found["sharpening"]
    assert (about["judged_battles"], about["people_battles"], about["by_propensity"]) == (2000, 300, False)
    assert about["random_part_p"] > 0.001
    assert [one["annotator"] for one in about["judges"]] == list(ARENA.verdicts)
    assert found["plan"] is None


def test_the_text_says_what_it_is_and_when_it_holds(file: Path, run_cli: RunCli) -> None:
    text = run_cli("judges", file).stdout
    assert "People and judges together" in text
    assert "your 300 votes of people count like" in text
    assert "300 of the 2,000 that judges saw, are a random part" in text


def test_chosen_battles_are_refused_and_the_people_stay(tmp_path: Path, run_cli: RunCli) -> None:
    first, second = list(ARENA.verdicts.values())[:2]
    path = write(tmp_path / "chosen.csv", np.where(first == second, 20.0, 1.0))
    found = report_of(run_cli, path, "--plan", 100)
    assert found["sharpened"] is None
    assert found["people_votes_worth"] is None
    assert len(found["people_models"]) == 12
    (warning,) = [one for one in found["warnings"] if one["board"] == "people+judges"]
    assert warning["code"] == "battles-not-random"
    assert found["plan"]["people_alone"] > 0
    assert found["plan"]["people_with_judges"] is None
    text = run_cli("judges", path).stdout
    assert "People and judges together" not in text
    assert "battles-not-random" in text


def test_without_common_battles_there_is_nothing_to_sharpen_by(file: Path, tmp_path: Path, run_cli: RunCli) -> None:
    path = tmp_path / "apart.csv"
    path.write_text(file.read_text().replace("battle_id", "row", 1))
    found = report_of(run_cli, path)
    assert found["sharpened"] is None
    assert "few-shared-battles" in [one["code"] for one in found["warnings"]]


def test_votes_are_planned(file: Path, run_cli: RunCli) -> None:
    plan = report_of(run_cli, file, "--plan", 100, "--price", "people=0.5, judge=0.001")["plan"]
    assert plan["width"] == 100
    assert plan["sharpened_width"] < plan["people_width"]
    assert plan["people_with_judges"] < plan["people_alone"]
    best = plan["cheapest"]
    assert best["judge_votes"] == 3 * best["judged_battles"]
    assert best["cost"] == pytest.approx(0.5 * best["people_votes"] + 0.001 * best["judge_votes"])
    text = run_cli("judges", file, "--plan", 100, "--price", "people=0.5,judge=0.001").stdout
    assert f"{plan['people_alone']:,} votes of people alone, {plan['people_with_judges']:,} beside" in text
    assert f"Cheapest: {best['people_votes']:,} votes of people and" in text
    dear = run_cli("judges", file, "--plan", 100, "--price", "people=0.5,judge=9").stdout
    assert f"Cheapest: {plan['people_alone']:,} votes of people, and no judge" in dear


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--plan", 0), "--plan"),
        (("--plan", "nan"), "--plan"),
        (("--price", "people=1,judge=1"), "--plan"),
        (("--plan", 100, "--price", "people=1"), "--price"),
        (("--plan", 100, "--price", "people=1,judge=0"), "--price"),
        (("--plan", 100, "--price", "people=1,judge=x"), "--price"),
    ],
)
def test_wrong_plans_are_refused(file: Path, run_cli: RunCli, options: tuple[object, ...], word: str) -> None:
    result = run_cli("judges", file, *options)
    assert result.exit_code == 2
    assert word in result.stderr
