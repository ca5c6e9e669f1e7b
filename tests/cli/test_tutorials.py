"""Tutorials of the command line, run as they are written: every command, and what it says."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from httpx import Client

RunCli = Callable[..., Any]
TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"


def run_commands(run_cli: RunCli, text: str) -> int:
    """Run what a tutorial shows, and return how many commands there are."""
    blocks = re.findall(r"```\n(\$ .*?)```", text, re.DOTALL)
    shown = [part.splitlines() for part in "".join(blocks).removeprefix("$ ").split("\n$ ")]
    for command, *said in shown:
        result = run_cli(*shlex.split(command)[1:])
        assert all(line in result.stdout + result.stderr for line in said), result.stdout + result.stderr
        assert result.exit_code == (2 if "error:" in "".join(said) else 0), result.stderr
    return len(shown)


@pytest.mark.parametrize(
    ("tutorial", "commands", "written"),
    [
        ("rate-your-own-votes.md", 9, ("board.svg", "board.html", "dataset/README.md", "votes.xlsx")),
        ("trust-a-judge.md", 2, ("judges.json",)),
    ],
)
@pytest.mark.usefixtures("on_database", "own_folder")
def test_every_command_says_what_the_tutorial_shows(
    run_cli: RunCli, tutorial: str, commands: int, written: tuple[str, ...]
) -> None:
    text = (TUTORIALS / tutorial).read_text(encoding="utf-8")
    (script,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(script, {})  # noqa: S102  the tutorial's own
    assert run_commands(run_cli, text) >= commands
    for name in written:
        assert Path(name).stat().st_size


@pytest.mark.usefixtures("on_database", "own_folder")
def test_a_first_vote_on_answers_of_ones_own(run_cli: RunCli, client: Client) -> None:
    text = (TUTORIALS / "vote-on-your-answers.md").read_text(encoding="utf-8")
    (answers,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    Path("answers.jsonl").write_text(answers, encoding="utf-8")
    assert run_commands(run_cli, text) > 4
    links = json.loads(run_cli("invitations", "list", "--format", "json").stdout)["invitations"]
    (link,) = [one for one in links if one["annotator"] == "ada"]
    shown = {"Authorization": f"Bearer {link['link'].partition('#')[2]}"}
    battle = client.post("/api/v1/battles", json={}, headers=shown).json()
    assert (battle["votes_left"], battle["left_answer"] != battle["right_answer"]) == (50, True)
    cast = client.post("/api/v1/votes", json={"token": battle["token"], "winner": "left"}).json()
    assert {cast["left"], cast["right"]} == {"ash", "birch"}
    assert "is revoked" in run_cli("invitations", "revoke", link["id"]).stdout
    assert '"answers": 2' in run_cli("answers", "coverage", "--format", "json").stdout
    assert run_cli("answers", "withdraw", "birch").stdout == "2 answers withdrawn.\n"
