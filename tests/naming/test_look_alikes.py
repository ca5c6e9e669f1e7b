"""Names that look the same, where votes come in and where they are shown, with what joins them."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli.command import application
from app.database.engine import Database
from app.imports.runner import ImportRunner
from app.models.service import read_look_alikes
from app.naming.look_alikes import LookAlikes, appearance, find_look_alikes, quoted
from tests.fixtures.environment import Configure

Ask = Callable[..., Any]
SPELLINGS = [
    "Caf\u00e9 GPT-4", "cafe\u0301 gpt-4", "Caf\u00e9 GPT\u20114", "Caf\u00e9  GPT-4", "Caf\u00e9\u00a0GPT-4",
    "Caf\u00e9 GPT\u200b-4", "Caf\u00e9 \uff27PT-4",
]  # fmt: skip
"""One name in seven ways: case and NFD, hyphen, two blanks, hard blank, an invisible character, full width."""


def run(*arguments: object) -> Any:
    return CliRunner().invoke(application, [str(argument) for argument in arguments])


def file_of(names: list[str]) -> str:
    rows = [f"k,{name},other {i},{('model_a', 'model_b')[i % 2]}\n" for name in names for i in range(4)]
    return "annotator,model_a,model_b,winner\n" + "".join(rows)


def test_names_look_the_same_by_what_a_reader_sees() -> None:
    assert len({appearance(name) for name in SPELLINGS}) == 1
    assert len({appearance(name) for name in ("GPT-4", "GPT 4", "GPT4", "GPT-4o", "\u0413PT-4")}) == 5
    votes = dict.fromkeys(SPELLINGS, 1) | {SPELLINGS[2]: 9, "GPT-4": 99}
    assert find_look_alikes(votes) == [LookAlikes(SPELLINGS[2], sorted({*SPELLINGS} - {SPELLINGS[2]}))]


@pytest.mark.parametrize("name", [*SPELLINGS, "it's", "a\\b $HOME `x`", "\u6a21\u578b 1", "\U0001f469\u200d\U0001f4bb"])
def test_a_quoted_name_is_what_the_shell_reads(name: str) -> None:
    said = subprocess.run(
        ["bash", "-c", f"printf %s {quoted(name)}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert said.stdout.decode() == name


def as_typed(options: str) -> list[str]:
    """Return the words that a shell makes of the end of a notice."""
    printed = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {options}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    return printed.stdout.decode().split("\0")[:-1]


def rate(path: Path, *options: str) -> Any:
    return json.loads(run("rate", path, "--min-votes", 0, "--format", "json", *options).stdout)


def test_names_with_an_equals_sign_are_joined_as_the_notice_says(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(file_of(["GPT (t=0)", "gpt (t=0)"]), encoding="utf-8")
    notice = next(one for one in rate(path)["diagnostics"]["warnings"] if one["code"] == "look-alikes")
    assert len(rate(path, *as_typed(notice["detail"].partition(" add ")[2]))["models"]) == 1 + 4


@pytest.mark.parametrize("method", ["am-elo", "elo"])
def test_rate_says_what_joins_them(method: str, tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(file_of(SPELLINGS), encoding="utf-8")
    apart = rate(path, "--method", method)
    assert len(apart["models"]) == 7 + 4
    notice = next(one for one in apart["diagnostics"]["warnings"] if one["code"] == "look-alikes")
    assert sorted(notice["models"]) == sorted(SPELLINGS)
    joined = rate(path, "--method", method, *as_typed(notice["detail"].partition(" add ")[2]))
    assert len(joined["models"]) == 1 + 4
    assert max(row["votes"] for row in joined["models"]) == 28
    assert "look-alikes" not in [one["code"] for one in joined["diagnostics"]["warnings"]]


def test_votes_and_rankings_that_an_alias_joins_on_both_sides_are_left_out(tmp_path: Path) -> None:
    orders = [[["a"], ["b"], ["c"]], [["a"], ["A"]], [["b"], ["A"], ["c"]], [["c"], ["a", "b"]]]
    rankings = [{"annotator": "k", "item": i, "ranking": order} for i, order in enumerate(orders)]
    path = tmp_path / "rankings.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rankings))
    found = rate(path, "--alias", "A=a")
    assert {row["model"]: row["votes"] for row in found["models"]} == {"a": 6, "b": 6, "c": 6}
    for wrong in (("A=a", "A=b"), ("A=a", "a=b"), ("A",), ("none=a",)):
        options = [word for alias in wrong for word in ("--alias", alias)]
        assert run("rate", path, "--min-votes", 0, *options).exit_code == 2


def test_an_import_and_doctor_say_what_merges_them(
    ask: Ask, database: Database, database_url: str, configure: Configure
) -> None:
    ask("POST", "/models", json={"name": SPELLINGS[0]})
    headers = {"Content-Type": "text/csv"}
    content = file_of([SPELLINGS[2], "plain"]).encode()
    sent = ask("POST", "/imports", scope="ingest", content=content, headers=headers).json()["id"]
    ImportRunner(database, lease_seconds=30).run_next()
    note = ask("GET", f"/imports/{sent}", scope="ingest").json()["notes"][0]
    command = f"stable-arena models merge {quoted(SPELLINGS[2])} --into {quoted(SPELLINGS[0])}"
    assert note.endswith(f"run {command}")
    configure(DATABASE_URL=database_url)
    checks = {one["name"]: one for one in json.loads(run("doctor", "--format", "json").stdout)["checks"]}
    assert (checks["Models"]["tone"], checks["Models"]["remedy"].endswith(command)) == ("warn", True)
    assert run(*as_typed(command)[1:]).exit_code == 0
    with database.read() as conn:
        assert read_look_alikes(conn) == []
        assert read_look_alikes(conn, {SPELLINGS[2]: 3}) == [], "it is merged"
    checks = {one["name"]: one for one in json.loads(run("doctor", "--format", "json").stdout)["checks"]}
    assert checks["Models"]["tone"] == "good"
