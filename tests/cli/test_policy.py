import json
from collections.abc import Callable
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
    result = run_cli("policy", "set", "min_votes=20", "on_low_ability=exclude", "ability_cap=null", "--reason", " try ")
    assert result.exit_code == 0, result.stderr
    policy = json.loads(run_cli("policy", "--format", "json").stdout)
    assert json.loads(run_cli("policy", "show", "--format", "json").stdout) == policy
    assert (policy["version"], policy["reason"], policy["created_by"]) == (2, "try", "command line")
    changed = {"min_votes": 20, "on_low_ability": "exclude", "ability_cap": None, "min_ability": 0.2}
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
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("min_votes", "is not NAME=VALUE"),
        ("min_vote=3", "there is no setting 'min_vote'"),
        ("min_votes=-1", "min_votes"),
        ("prior_sd=null", "  Policy: an ability_cap needs a prior_sd"),
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
