import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from typer.testing import Result

from stable_arena_lab.commands import EXPERIMENTS

RunLab = Callable[..., Result]

ONE = ["--processes", 1]
QUICK: dict[str, list[object]] = {
    "prediction": ["--simulated", "--repeats", 2, "--shuffles", 2, *ONE],
    "consistency": ["--simulated", "--repeats", 1, "--steps", 20, "--shuffles", 2, *ONE],
    "perturb": [
        "--simulated",
        "--repeats",
        1,
        "--shuffles",
        2,
        "--strategy",
        "flip",
        "--share",
        0,
        "--share",
        30,
        *ONE,
    ],
    "order": ["--simulated", "--repeats", 20, "--k", 4, "--k", 16, *ONE],
    "transitivity": ["--repeats", 2, *ONE],
    "bernoulli": ["--repeats", 10, "--k", 4, "--k", 16],
}
RESULTS = {
    "prediction": {"methods", "losses", "votes"},
    "consistency": {"looks", "endings", "references"},
    "perturb": {"stability", "detection", "abilities"},
    "order": {"elo", "order_free"},
    "transitivity": {"scores", "orders"},
    "bernoulli": {"differences", "trajectories"},
}


@pytest.mark.parametrize("experiment", QUICK)
def test_the_json_document_has_settings_results_and_notes(run_lab: RunLab, experiment: str) -> None:
    result = run_lab(experiment, *QUICK[experiment], "--seed", 3, "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    document: dict[str, Any] = json.loads(result.stdout)
    assert set(document) == {"experiment", "settings", "notes", "seconds"} | RESULTS[experiment]
    assert document["experiment"] == experiment
    assert document["settings"]["seed"] == 3
    assert document["settings"]["repeats"] == QUICK[experiment][QUICK[experiment].index("--repeats") + 1]
    for name in RESULTS[experiment]:
        assert document[name]
        assert len({tuple(row) for row in document[name]}) == 1  # the same fields in every row


@pytest.mark.parametrize("experiment", QUICK)
def test_the_table_and_the_figure(run_lab: RunLab, experiment: str, tmp_path: Path) -> None:
    figure = tmp_path / "found.svg"
    result = run_lab(experiment, *QUICK[experiment], "--figure", figure)
    assert (result.exit_code, result.stderr) == (0, "")
    assert not result.stdout.startswith("{")
    assert len(result.stdout.splitlines()) > 5
    root = ET.fromstring(figure.read_text(encoding="utf-8"))  # noqa: S314  what was just drawn here
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.findall(".//{http://www.w3.org/2000/svg}path")


def test_the_same_seed_finds_the_same(run_lab: RunLab) -> None:
    first, again, other = (
        json.loads(run_lab("prediction", *QUICK["prediction"], "--format", "json", "--seed", seed).stdout)
        for seed in (0, 0, 7)
    )
    assert first["methods"] == again["methods"] != other["methods"]


def test_a_vote_file_without_rare_annotators(run_lab: RunLab, arena_file: Path) -> None:
    result = run_lab("prediction", arena_file, "--repeats", 2, "--shuffles", 2, *ONE, "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    settings = json.loads(result.stdout)["settings"]
    assert settings["source"] == "arena.csv"
    assert (settings["annotators"], settings["models"], settings["votes"]) == (42, 20, 4321)


def test_the_files_votes_are_those_it_was_made_from(run_lab: RunLab, arena_file: Path) -> None:
    """Names sort as the indices do, so a file of the simulated votes gives the simulated result."""
    common = ["--repeats", 1, "--shuffles", 2, *ONE, "--format", "json"]
    from_file, simulated = (
        json.loads(run_lab("prediction", source, *common).stdout)["methods"] for source in (arena_file, "--simulated")
    )
    assert from_file == simulated


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["prediction"], "give either a vote FILE or --simulated"),
        (["prediction", "votes.csv", "--simulated"], "give either a vote FILE or --simulated"),
        (["prediction", "nowhere.csv"], "nowhere.csv"),
        (["perturb", "--simulated", "--strategy", "bribe"], "--strategy must be one of random, equal, flip, mixed"),
        (["perturb", "--simulated", "--share", 60], "--share must be 0 to 50"),
        (["order", "--simulated", "--k", 0], "--k must be greater than 0"),
        (["bernoulli", "--k", 1001], "--k must be greater than 0 and at most 1000"),
        (["transitivity", "--figure", "found.png"], "must end in .svg"),
        (["transitivity", "--figure", "no/such/folder/found.svg"], "does not exist"),
        (["consistency", "--simulated", "--min-votes", 500], "no annotator has more than 500 votes"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(run_lab: RunLab, arguments: list[object], words: str) -> None:
    result = run_lab(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_file_with_faulty_votes_is_refused_with_their_places(run_lab: RunLab, arena_file: Path) -> None:
    with arena_file.open("a", encoding="utf-8") as file:
        file.write("k00,m00,m01,whatever\n")
    result = run_lab("order", arena_file)
    assert result.exit_code == 2
    assert "1 of 4,325 records are not valid votes" in result.stderr
    assert "line 4326" in result.stderr


def test_help_lists_every_experiment(run_lab: RunLab) -> None:
    result = run_lab("--help")
    assert result.exit_code == 0
    for name in EXPERIMENTS:
        assert name in result.stdout
    assert run_lab("no-such-thing").exit_code == 2


def test_the_scores_and_win_rates_of_every_method(run_lab: RunLab, arena_file: Path, tmp_path: Path) -> None:
    figure = tmp_path / "scores.json"
    command = ["scores", arena_file, "--shuffles", 50]
    document = json.loads(run_lab(*command, "--format", "json", "--figure", figure).stdout)
    by_method: dict[str, dict[str, Any]] = {}
    for row in document["scores"]:
        by_method.setdefault(row["method"], {})[row["model"]] = row
    assert list(by_method) == ["elo", "elo bootstrap", "m-elo", "am-elo plain", "am-elo robust"]
    assert {len(models) for models in by_method.values()} == {20}
    assert min(row["sd"] for row in by_method["elo"].values()) > 1
    assert {row["sd"] for row in by_method["am-elo robust"].values()} == {0.0}
    loss = {row["method"]: row["loss"] for row in document["losses"]}
    assert loss["am-elo plain"] < loss["m-elo"] < loss["elo"]  # maximum likelihood, with abilities and without
    assert sum(pair["votes"] for pair in document["pairs"]) == 4321
    best = max(by_method["m-elo"], key=lambda name: by_method["m-elo"][name]["score"])
    for pair in document["pairs"]:
        if best in (pair["model_a"], pair["model_b"]):
            assert (pair["m_elo"] > 0.5) == (pair["model_a"] == best)
    assert json.loads(figure.read_text(encoding="utf-8"))["vconcat"]  # Vega-Lite, not drawn
    assert "m03" in run_lab(*command).stdout


def test_prediction_on_the_shape_of_chatbot_arena(run_lab: RunLab) -> None:
    quick = ["prediction", "--chatbot", "--repeats", 1, "--shuffles", 2, *ONE]
    settings = json.loads(run_lab(*quick, "--format", "json").stdout)["settings"]
    assert (settings["annotators"], settings["votes"]) == (42, 4_321)
    assert run_lab(*quick, "--simulated").exit_code == 2


def test_orders_are_of_the_votes_without_ties(run_lab: RunLab) -> None:
    """As in Elo Uncovered; about a quarter of the simulated votes are ties."""
    quick = ["order", *QUICK["order"], "--format", "json"]
    dropped, kept = (json.loads(run_lab(*quick, *more).stdout)["settings"] for more in ([], ["--keep-ties"]))
    assert kept["votes"] == 4_321
    assert 0.6 < dropped["votes"] / kept["votes"] < 0.9
    assert dropped["initial"] == 1_400


def test_the_methods_are_compared_on_crowds_and_on_a_file(run_lab: RunLab, tmp_path: Path) -> None:
    done = run_lab("coverage", "--repeats", 2, "--crowds", 1, *ONE, "--format", "json")
    rows = json.loads(done.stdout)["crowds"]
    scale = {row["method"]: row["scale"] for row in rows}
    assert list(scale) == ["am-elo", "m-elo", "plain"]
    assert 0.9 < scale["am-elo"] < 1.1
    assert scale["plain"] is None or scale["plain"] > 1.2, "few votes stretch what is maximised together"
    pairs = [(a, b) for a in "xyz" for b in "xyz" if a != b]
    votes = [f"k{k},{a},{b},model_{'a' if (a < b) == (k < 7) else 'b'}" for k in range(8) for a, b in pairs]
    file = tmp_path / "votes.csv"
    file.write_text("\n".join(["annotator,model_a,model_b,winner", *votes]))
    rows = json.loads(run_lab("coverage", file, "--repeats", 2, *ONE, "--format", "json").stdout)["held_out"]
    assert 0.0 < rows[0]["loss"] < 0.7
    assert rows[1]["lead"] == 0.0
