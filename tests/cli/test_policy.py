import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

RunCli = Callable[..., Any]


@pytest.fixture
def arena(on_database: None, vote_file: Path, run_cli: RunCli) -> None:
    """The vote file in a database of its own, which the commands are pointed at."""
    assert run_cli("import", vote_file).exit_code == 0


@pytest.mark.usefixtures("on_database")
def test_show_and_set(run_cli: RunCli) -> None:
    assert "Version 1, set by migration: defaults" in run_cli("policy").stdout
    result = run_cli(
        "policy",
        "set",
        "min_votes=20",
        "on_low_ability=exclude",
        "influence_limit=null",
        "min_probability=0.8",
        "--reason",
        " try ",
    )
    assert result.exit_code == 0, result.stderr
    policy = json.loads(run_cli("policy", "--format", "json").stdout)
    assert json.loads(run_cli("policy", "show", "--format", "json").stdout) == policy
    assert (policy["version"], policy["reason"], policy["created_by"]) == (2, "try", "command line")
    changed = {"min_votes": 20, "on_low_ability": "exclude", "influence_limit": None, "min_ability": 0.2,
               "min_probability": 0.8}  # fmt: skip
    assert changed.items() <= policy["settings"].items()


@pytest.mark.usefixtures("arena")
def test_preview_changes_nothing(run_cli: RunCli) -> None:
    result = run_cli("policy", "preview", "min_votes=20", "on_low_ability=exclude")
    assert result.exit_code == 0, result.stderr
    assert "Compared with the next refit under the policy in force" in result.stdout
    assert "Standings that would change: 0 flagged, 1 excluded, 0 pending, 0 back in, 0 cleared." in result.stdout
    assert "wait for review" not in result.stdout
    assert "… and 5 more" in run_cli("policy", "preview", "min_votes=50").stdout, "as in force: what the refit would do"
    seen = json.loads(run_cli("policy", "preview", "min_votes=50", "--format", "json").stdout)
    assert seen["counts"] == {"flagged": 1, "excluded": 0, "pending": 0, "back_in": 24, "cleared": 0}
    assert "Version 1" in run_cli("policy").stdout


@pytest.mark.usefixtures("arena")
def test_preview_counts_cleared_flags(run_cli: RunCli) -> None:
    everybody = ("flag_rule=threshold", "min_ability=100")
    assert run_cli("policy", "set", *everybody, "--reason", "flag all").exit_code == 0
    assert run_cli("refit").exit_code == 0
    result = run_cli("policy", "preview", "min_ability=-5")
    assert "Standings that would change: 0 flagged, 0 excluded, 0 pending, 0 back in, 25 cleared." in result.stdout
    assert "… and 5 more" in result.stdout


@pytest.mark.usefixtures("arena")
def test_preview_says_why_the_refit_would_wait(run_cli: RunCli) -> None:
    result = run_cli("policy", "preview", "min_votes=20", "on_low_ability=exclude", "max_excluded_share=0.01")
    told = " ".join(result.stdout.split())
    reason = "it would newly exclude 4.0% of the votes (60 of 1,500), more than the policy's 1.0%"
    assert f"The refit would wait for review: {reason}." in told


@pytest.mark.usefixtures("on_database")
def test_set_says_what_it_changed(run_cli: RunCli) -> None:
    said = run_cli("policy", "set", "min_votes=20", "influence_limit=null", "--reason", "x").stdout
    assert said == "Version 1 → 2: min_votes 50 → 20, influence_limit 1.25 → null\n"
    assert run_cli("policy", "set", "min_votes=20", "--reason", "x").stdout == "Version 2 → 3: the same settings\n"
    whole = json.loads(run_cli("policy", "set", "min_votes=9", "--reason", "x", "--format", "json").stdout)
    assert (whole["version"], whole["settings"]["min_votes"]) == (4, 9)


@pytest.mark.usefixtures("on_database", "own_folder")
def test_four_colleagues_get_ranks_by_the_preset_alone(run_cli: RunCli) -> None:
    """Each votes once on every pair of four models: the first two in the alphabet win two battles each."""
    lines = ["annotator,model_a,model_b,winner"]
    for name in ("ada", "bea", "cem", "dov"):
        lines += [
            f"{name},{a},{b},{'model_b' if (a, b) == ('ash', 'elm') else 'model_a'}"
            for a, b in combinations(("ash", "birch", "cedar", "elm"), 2)
        ]
    Path("votes.csv").write_text("\n".join(lines), encoding="utf-8")
    assert run_cli("import", "votes.csv").exit_code == 0
    assert run_cli("refit").exit_code == 1
    ranks = {}
    for chosen in (("min_votes=0", "min_board_annotators=1", "min_board_votes=1"), ("--preset", "small-team")):
        assert run_cli("policy", "set", *chosen, "--reason", "x").exit_code == 0
        board = json.loads(run_cli("refit", "--format", "json").stdout)
        ranks[chosen[0]] = {row["model"]: row["rank"] for row in board["models"]}
    assert set(ranks["min_votes=0"].values()) == {None}
    assert ranks["--preset"] == {"ash": 1, "birch": 1, "cedar": 3, "elm": 3}


@pytest.mark.usefixtures("on_database")
def test_settings_that_follow_a_preset_hold(run_cli: RunCli) -> None:
    run_cli("policy", "set", "min_model_votes=7", "--preset", "small-team", "--reason", "x")
    settings = json.loads(run_cli("policy", "--format", "json").stdout)["settings"]
    assert (settings["min_model_votes"], settings["min_model_annotators"]) == (7, 1)
    assert run_cli("policy", "set", "--reason", "x").exit_code == 2
    assert run_cli("policy", "preview").exit_code == 2


@pytest.mark.usefixtures("on_database")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("min_votes", "is not NAME=VALUE"),
        ("min_vote=3", "there is no setting 'min_vote'"),
        ("min_votes=-1", "min_votes"),
        ("prior_sd=0.7", "prior_sd"),
        ("ability_cap=2", "ability_cap was a setting of releases up to 0.2.0"),
        ("bias_correction=false", "bias_correction was a setting of releases up to 0.2.0"),
        ("on_low_ability=warn", "on_low_ability"),
    ],
)
def test_what_is_no_change(run_cli: RunCli, change: str, words: str) -> None:
    result = run_cli("policy", "set", change, "--reason", "x")
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


@pytest.mark.usefixtures("on_database")
def test_a_reason_is_needed(run_cli: RunCli) -> None:
    assert run_cli("policy", "set", "min_votes=3").exit_code == 2
    assert run_cli("policy", "set", "min_votes=3", "--reason", " ").exit_code == 2
