"""The command `judges`, on made files and on public ones."""

import csv
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import Result

from app.imports.formats.options import ReadOptions
from app.imports.formats.whole import read_vote_file
from app.rating.judges.ballots import Ballots
from tests.fixtures.judged_votes import Voter, judge_votes

RunCli = Callable[..., Result]
WORDS = {1.0: "model_a", 0.5: "tie", 0.0: "model_b"}
VOTERS = [
    Voter("people", 4000, ties=0.2),
    Voter("left-judge", 4000, ability=0.4, lean=1.8, liking=0.6),
    Voter("good-judge", 4000, ability=1.0, lean=0.2),
    Voter("copied-judge", 2000, ability=0.8),
]


def rows_of(ballots: Ballots) -> Iterable[list[str]]:
    v = ballots.votes
    for k, a, b, outcome, battle in zip(v.annotator, v.model_a, v.model_b, v.outcome, ballots.battle, strict=True):
        yield [v.annotators[k], v.models[a], v.models[b], WORDS[float(outcome)], f"battle {battle}"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four voters on the same battles; the last also saw them with the sides exchanged, and says the left both times.

    With kinds, costs of the judges but for the exchanged copies, lengths of the judges' answers, and two categories.
    """
    judged = judge_votes(7, VOTERS, n_models=8, shared=0.5)
    path = tmp_path_factory.mktemp("judges") / "votes.csv"
    with path.open("w", newline="", encoding="utf-8") as out:
        write = csv.writer(out)
        write.writerow(["annotator", "model_a", "model_b", "winner", "battle_id", "annotator_kind", "cost",
                        "length_a", "length_b", "category"])  # fmt: skip
        for (annotator, left, right, winner, battle), longer in zip(
            rows_of(judged.ballots), judged.longer, strict=True
        ):
            kind, cost = "human" if annotator == "people" else "judge", "0.01" if annotator != "people" else ""
            lengths = [f"{100 * (1 + sign * longer):.3f}" if cost else "" for sign in (1, -1)]
            category = "even" if battle[-1] in "02468" else "odd"
            write.writerow([annotator, left, right, winner, battle, kind, cost, *lengths, category])
            if annotator == "copied-judge":
                write.writerow([annotator, right, left, "model_a", battle, kind, "", *lengths[::-1], category])
    return path


@pytest.fixture(scope="module")
def report(file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    from typer.testing import CliRunner  # noqa: PLC0415

    from app.cli.command import application  # noqa: PLC0415

    result = CliRunner().invoke(application, ["judges", str(file), "--format", "json", "--family", "good-*=mine",
                                              "--family", "model 00=mine", "--family", "left-judge=other",
                                              "--family", "copied-judge=other"])  # fmt: skip
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_every_judge_has_its_figures(report: dict[str, Any]) -> None:
    judges = {row["annotator"]: row for row in report["judges"]}
    assert list(judges) == sorted(judges, key=lambda name: -judges[name]["ability"])
    for voter in VOTERS[1:3]:
        row = judges[voter.name]
        assert row["ability"] == pytest.approx(voter.ability, abs=0.15)
        assert row["ability_lower"] < row["ability"] < row["ability_upper"]
        assert row["side_lean"] == pytest.approx(400 / np.log(10) * voter.lean, abs=35)
        assert row["side_lean_lower"] < row["side_lean"] < row["side_lean_upper"]
        assert row["votes"] == row["battles"] == row["compared"] == 4000
        assert row["swap_consistency"] is None
        assert row["cost"] == pytest.approx(40.0)
    assert judges["left-judge"]["left_share"] > 0.8
    assert judges["good-judge"]["agreement"] > judges["left-judge"]["agreement"]
    assert judges["good-judge"]["agreement_far"] > judges["good-judge"]["agreement_close"]
    assert judges["good-judge"]["family"] == "mine"
    assert judges["good-judge"]["own_family_lower"] < judges["good-judge"]["own_family"] == pytest.approx(0.0, abs=60.0)
    by_judges = [judges["good-judge"][f"own_family_by_judges{end}"] for end in ("_lower", "", "_upper")]
    assert by_judges == sorted(by_judges)
    assert by_judges[1] == pytest.approx(0.0, abs=100.0)
    assert judges["left-judge"]["own_family"] is judges["left-judge"]["own_family_by_judges"] is None


def test_a_judge_is_known_by_gap_category_and_style(report: dict[str, Any]) -> None:
    judges = {row["annotator"]: row for row in report["judges"]}
    for row in judges.values():
        assert [one["low"] for one in row["by_gap"]] == [0, 50, 100, 200]
        assert row["by_gap"][-1]["high"] is None
        assert sum(one["compared"] for one in row["by_gap"]) == row["compared"]
        assert [one["category"] for one in row["by_category"]] == ["even", "odd"]
        assert sum(one["votes"] for one in row["by_category"]) == row["votes"]
        assert all(one["ability_lower"] < row["ability"] < one["ability_upper"] for one in row["by_category"])
    good = judges["good-judge"]["by_gap"]
    assert good[0]["agreement"] < report["judges"][0]["agreement"] < good[3]["agreement"]
    (liked,), (not_liked,) = judges["left-judge"]["style"], judges["good-judge"]["style"]
    assert liked["feature"] == "length"
    assert liked["points"] == pytest.approx(400 / np.log(10) * 0.6, abs=25)
    assert not_liked["points_lower"] < 0.0 < not_liked["points_upper"]
    assert report["people"]["style"] == [], "their lengths are not known"
    assert [one["votes"] for one in report["people"]["by_category"]] == [2000, 2000]


def test_repeated_answers_are_one_with_their_share(tmp_path: Path, run_cli: RunCli) -> None:
    """Five answers of a judge on every battle, and a file with the share of those for the left."""
    generator, judged = np.random.default_rng(3), judge_votes(3, VOTERS[:3], n_models=6, shared=0.5)
    kept = judged.ballots.where(judged.ballots.battle < 400)
    named = list(rows_of(kept))
    head = "annotator,model_a,model_b,winner,battle_id,annotator_kind"
    repeated, shares = [head], [head]
    for row in named:
        kind, (who, left, right, winner, battle) = "human" if row[0] == "people" else "judge", row
        said = (generator.random(5) < generator.random()) if kind == "judge" else np.array([winner == "model_a"])
        repeated += [f"{who},{left},{right},{'model_a' if one else 'model_b'},{battle},{kind}" for one in said]
        shares.append(f"{who},{left},{right},{said.mean():.1f},{battle},{kind}")
    repeated.append(f"people,{named[0][1]},{named[0][2]},{WORDS[1.0 - (named[0][3] == 'model_a')]},{named[0][4]},human")
    found = []
    for name, lines, options in (("five", repeated, ()), ("one", shares, ("--soft", "--verdict", "1=left,0=right"))):
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
        result = run_cli("judges", tmp_path / f"{name}.csv", *options, "--format", "json")
        assert result.exit_code == 0, result.stderr
        found.append(json.loads(result.stdout))
    five, one = found
    certain = [each["people"]["order_certainty"] for each in found]
    assert certain[0] == pytest.approx(certain[1]), "of a person the first vote counts"
    for key in ("score", "lower", "upper"):
        assert [row[key] for row in five["models"]] == pytest.approx([row[key] for row in one["models"]], abs=1e-6)
    names = ("ability", "ability_upper", "side_lean_upper", "agreement", "left_share", "battles")
    for mine, theirs in zip(five["judges"], one["judges"], strict=True):
        assert [mine[name] for name in names] == pytest.approx([theirs[name] for name in names], abs=1e-6)
        assert (mine["votes"], theirs["votes"]) == (2000, 400)


def test_a_question_alone_names_the_battle(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "votes.csv"
    other.write_text(file.read_text().replace("battle_id", "question_id", 1))
    named, asked = (read_vote_file(one, ReadOptions(judged=True)).frame for one in (file, other))
    assert asked["question"].to_list() == named["battle_id"].to_list()
    assert not named["question"].count()


def test_swapped_copies_are_kept_and_are_one_battle(report: dict[str, Any]) -> None:
    row = next(row for row in report["judges"] if row["annotator"] == "copied-judge")
    assert (row["votes"], row["battles"], row["swapped_battles"]) == (4000, 2000, 2000)
    assert row["swap_consistency"] == pytest.approx(0.5, abs=0.05), "the left, where it had said the left"


def test_the_people_are_left_out_of_the_judges_own_leaderboard(report: dict[str, Any]) -> None:
    assert [row["rank"] for row in report["models"]] == list(range(1, 9))
    assert sum(row["votes"] for row in report["models"]) == 2 * (4000 + 4000 + 2000)
    assert all(row["lower"] < row["score"] < row["upper"] for row in report["models"])
    people = report["people"]
    assert (people["annotators"], people["votes"], people["method"]) == (1, 4000, "m-elo")
    assert people["agreement"] is None, "one person agrees with no other on a battle"
    assert 0.4 < people["agreement_by_pair"] < 0.8


def test_panels_are_compared_with_the_people(report: dict[str, Any]) -> None:
    panels = report["panels"]
    assert len(panels["tried"]) == 7
    assert panels["enough"] in [one["judges"] for one in panels["tried"]]
    assert panels["tried"][0]["cost"] == pytest.approx(sum({"copied-judge": 40.0}.get(one, 40.0)
                                                          for one in panels["tried"][0]["judges"]))  # fmt: skip


def test_people_may_be_named_instead(file: Path, run_cli: RunCli, report: dict[str, Any]) -> None:
    named = run_cli("judges", file, "--people", "peo*,unknown", "--format", "json")
    found = json.loads(named.stdout)
    assert [row["ability"] for row in found["judges"]] == [row["ability"] for row in report["judges"]]


def test_the_table_shows_judges_models_and_panels(file: Path, run_cli: RunCli, tmp_path: Path) -> None:
    shown = run_cli("judges", file, "--output", tmp_path / "judges.txt")
    assert shown.exit_code == 0, shown.stderr
    text = (tmp_path / "judges.txt").read_text(encoding="utf-8")
    assert all(len(line) <= 100 for line in text.partition("The judges' own")[0].splitlines())
    for part in (
        "Agrees by gap",
        "Category",
        "Likes",
        "left-judge",
        "The judges' own leaderboard",
        "Enough judges:",
        "the same battles",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--people", "none"), "no people"),
        (("--people", "*"), "no judges"),
        (("--family", "x"), "--family"),
        (("--confidence", "2"), "--confidence"),
        (("--style", "bold"), "bold_a"),
        (("--style", "side"), "the lean"),
        (("--by", "dataset"), "dataset"),
        (("--format", "json", "--columns", "annotator_kind=winner"), "human or judge"),
    ],
)
def test_what_cannot_be_compared_is_refused(file: Path, run_cli: RunCli, options: tuple[str, ...], word: str) -> None:
    result = run_cli("judges", file, *options)
    assert result.exit_code == 2
    assert word in result.stderr


def test_a_file_without_kinds_asks_who_is_a_person(vote_file: Path, run_cli: RunCli) -> None:
    result = run_cli("judges", vote_file)
    assert result.exit_code == 2
    assert "--people" in result.stderr
    by_pair = json.loads(run_cli("judges", vote_file, "--people", "k0*", "--format", "json").stdout)
    assert {row["agreement_by"] for row in by_pair["judges"]} == {"pair"}
    assert by_pair["judges"][-1]["ability"] < 0.0, "k24 votes against the order"


def test_judges_alone_are_compared_with_each_other(file: Path, run_cli: RunCli, tmp_path: Path) -> None:
    head, *lines = file.read_text().splitlines()
    alone = tmp_path / "judges.csv"
    alone.write_text("\n".join([head, *(line for line in lines if line[:6] != "people")]))
    families = ["--family=left-*=one", "--family=good-*=two", "--family=copied-*=three"]
    families += [f"--family=model 0{i}={family}" for i, family in enumerate(["one", "one", "two", "two", "three"])]
    result = run_cli("judges", alone, *families, "--format", "json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert len(found["models"]) == 8
    assert (found["people_models"], found["sharpened"], found["people"]["votes"]) == ([], None, 0)
    for row in found["judges"]:
        assert row["own_family"] is row["ability"] is row["agreement"] is None
        assert row["own_family_by_judges_lower"] < 0.0 < row["own_family_by_judges_upper"]
    shown = run_cli("judges", alone, *families)
    assert "By judges" in shown.stdout
    assert run_cli("judges", alone, "--plan", "100").exit_code == 2


def test_unknown_kinds_are_refused(tmp_path: Path, run_cli: RunCli) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("annotator,model_a,model_b,winner,annotator_kind\na,x,y,tie,human\nb,x,y,tie,robot\n")
    result = run_cli("judges", path)
    assert result.exit_code == 2
    assert "robot" in result.stderr


def test_a_baseline_always_on_the_left_tells_no_lean(data_folder: Path, tmp_path: Path, run_cli: RunCli) -> None:
    """Three set-ups of judges; the one with most votes stands for the people."""
    names = ["weighted_alpaca_eval_gpt4_turbo", "alpaca_eval_cot_gpt4_turbo_fn", "bedrock_claude"]
    votes, file = pl.read_csv(data_folder / "alpaca_eval_judges.csv"), tmp_path / "votes.csv"
    votes.filter(pl.col("annotator").is_in(names)).write_csv(file)
    result = run_cli("judges", file, "--people", "weighted_alpaca_eval_gpt4_turbo", "--format", "json")
    assert result.exit_code == 0, result.stderr
    judges = {row["annotator"]: row for row in json.loads(result.stdout)["judges"]}
    assert all(row["side_lean"] is None for row in judges.values())
    assert judges["alpaca_eval_cot_gpt4_turbo_fn"]["agreement"] > 0.9
    assert judges["alpaca_eval_cot_gpt4_turbo_fn"]["ability_lower"] < 1.1
    assert judges["bedrock_claude"]["ability"] is None, "no model in common"
    cot, prompts = judges["alpaca_eval_cot_gpt4_turbo_fn"], ["helpful_base", "koala", "oasst", "selfinstruct", "vicuna"]
    assert [one["category"] for one in cot["by_category"]] == prompts
    liked, peoples = (
        {one["feature"]: one for one in row["style"]} for row in (cot, json.loads(result.stdout)["people"])
    )
    assert liked["length"]["points_lower"] > peoples["length"]["points_upper"] > 0.0, "it likes length still more"
    assert liked["headers"]["points_lower"] < peoples["headers"]["points"] < liked["headers"]["points_upper"]


def test_three_people_agree_alike(data_folder: Path, run_cli: RunCli) -> None:
    file = data_folder / "pandalm_test.csv"
    result = run_cli("judges", file, "--people", "annotator1,annotator2", "--format", "json")
    (row,) = json.loads(result.stdout)["judges"]
    assert row["ability_lower"] < 1.0 < row["ability_upper"]
    assert row["side_lean_lower"] < 0.0 < row["side_lean_upper"]
