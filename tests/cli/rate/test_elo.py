import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from app.rating.plain.elo import fit_elo

RunCli = Callable[..., Result]

KEYS = ["model", "score", "sem", "sd", "recorded", "votes", "wins", "ties", "losses", "rank"]


def test_elo_says_what_the_order_does(run_cli: RunCli, vote_file: Path) -> None:
    arguments = ("rate", vote_file, "--method", "elo", "--shuffles", 20, "--seed", 3, "--format", "json")
    document = json.loads(run_cli(*arguments).stdout)
    assert all(list(row) == KEYS for row in document["models"])
    assert [row["rank"] for row in document["models"]] == [1, 2, 3, 4, 5]
    assert (document["votes"]["read"], document["votes"]["used"]) == (1503, 1500)
    assert (document["settings"]["k"], document["settings"]["shuffles"], document["settings"]["seed"]) == (4.0, 20, 3)
    assert document["diagnostics"]["components"] == 1
    assert {row["standing"] for row in document["annotators"]} == {"active", "pending"}
    assert all(row["sem"] == pytest.approx(row["sd"] / np.sqrt(20)) for row in document["models"])
    again = json.loads(run_cli(*arguments).stdout)
    assert again["models"] == document["models"]


def test_elo_as_recorded_is_the_ratings_own(run_cli: RunCli, tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("annotator,model_a,model_b,winner\nk,b,a,model_a\nk,a,c,tie\nk,c,b,model_b\nrare,z,a,model_a\n")
    arguments = ("--method", "elo", "--min-votes", 1, "--shuffles", 5, "--base", 1500, "--format", "json")
    rows = {row["model"]: row for row in json.loads(run_cli("rate", path, *arguments).stdout)["models"]}
    own = fit_elo(
        np.array([1, 0, 2]), np.array([0, 2, 1]), np.array([1.0, 0.5, 0.0]), n_models=3, initial=1500.0, shuffles=5
    )
    assert [rows[name]["recorded"] for name in "abc"] == pytest.approx(own.recorded)
    assert [rows[name]["score"] for name in "abc"] == pytest.approx(own.score)
    assert [(rows[name]["wins"], rows[name]["ties"], rows[name]["losses"]) for name in "abc"] == [
        (0, 1, 1), (2, 0, 0), (0, 1, 1),
    ]  # fmt: skip
    assert "z" not in rows  # its only voter has too few votes


def test_elo_moves_to_its_anchor(run_cli: RunCli, vote_file: Path) -> None:
    arguments = ("rate", vote_file, "--method", "elo", "--shuffles", 5, "--anchor", "eel=0", "--format", "json")
    rows = json.loads(run_cli(*arguments).stdout)["models"]
    assert rows[-1]["model"] == "eel"
    assert rows[-1]["score"] == pytest.approx(0)


def test_elo_warns_of_groups_never_compared_and_shows_a_table(run_cli: RunCli, tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("annotator,model_a,model_b,winner\nk,a,b,model_a\nk,x,y,tie\n")
    result = run_cli("rate", path, "--method", "elo", "--min-votes", 0, "--shuffles", 2)
    assert result.exit_code == 0
    assert result.stdout.split()[:6] == ["Rank", "Model", "Mean", "SEM", "SD", "As"]
    assert "warning: no vote links 2 groups of models" in result.stdout


@pytest.mark.parametrize(
    ("anchor", "message"),
    [
        ("z=1000", "the anchor model has no counted votes"),
        ("nobody=1000", "the file has no model 'nobody', which --anchor names"),
    ],
)
def test_an_anchor_without_counted_votes_is_refused(run_cli: RunCli, tmp_path: Path, anchor: str, message: str) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("annotator,model_a,model_b,winner\nk,a,b,model_a\nk,a,b,tie\nrare,z,a,model_a\n")
    result = run_cli("rate", path, "--method", "elo", "--min-votes", 1, "--anchor", anchor)
    assert result.exit_code == 2
    assert result.stderr == f"error: {message}\n"


def test_no_vote_left_is_refused(run_cli: RunCli, vote_file: Path) -> None:
    result = run_cli("rate", vote_file, "--method", "elo", "--min-votes", 1_000)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: no vote is left: no annotator has more than 1000 votes; the most that one")
