import json
from collections.abc import Callable
from typing import Any

import pytest

from app.database.engine import Database
from app.models.service import find_model, list_aliases

RunCli = Callable[..., Any]


pytestmark = pytest.mark.usefixtures("on_database")


@pytest.fixture
def printed(run_cli: RunCli) -> Callable[..., str]:
    """Run `models …` and return what it says."""

    def run(*arguments: str) -> str:
        result = run_cli("models", *arguments)
        assert result.exit_code == 0, result.stderr
        return str(result.stdout)

    return run


def listed(printed: Callable[..., str], *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(printed("list", "--format", "json", *options))["models"]
    return found


def test_a_model_s_life(printed: Callable[..., str], database: Database) -> None:
    assert printed("add", "ant", "--license", "MIT") == "ant was added.\n"
    assert printed(
        "set", "ant", "--link", "https://ant.example", "--released", "2026-01-31", "--price", "2.5"
    ).startswith("ant: recorded link, rel")
    assert printed("rename", "ant", "[red]ant").startswith("ant is now [red]ant;")
    assert printed("alias", "ant", "latest", "--from", "2026-01-01T00:00:00Z") == (
        "latest means ant from 2026-01-01 00:00 UTC.\n"
    )
    assert printed("set", "latest", "--license", "") == "[red]ant: recorded license.\n"
    (model,) = listed(printed)
    assert (model["name"], model["license"], model["released"], model["price"]) == ("[red]ant", None, "2026-01-31", 2.5)
    assert "[red]ant" in printed("list")
    assert printed("archive", "ant", "--reason", "no longer served") == "[red]ant is archived.\n"
    assert listed(printed, "--archived")[0]["archive_reason"] == "no longer served"
    assert (listed(printed), len(listed(printed, "--archived"))) == ([], 1)
    assert printed("archive", "ant", "--undo") == "[red]ant is shown on leaderboards again.\n"
    with database.read() as conn:
        assert [one.name for one in list_aliases(conn, find_model(conn, "ant"))] == ["ant", "latest"]


def test_a_codename_until_it_is_published(printed: Callable[..., str]) -> None:
    printed("add", "lynx", "--unreleased")
    assert [one["unreleased"] for one in listed(printed)] == [True]
    assert printed("publish", "lynx", "--as", "Lynx 2") == "Lynx 2 is public, and ranked from the next refit on.\n"
    assert [(one["name"], one["unreleased"]) for one in listed(printed)] == [("Lynx 2", False)]


def test_two_spellings_of_one_model(printed: Callable[..., str]) -> None:
    for name in ("ant", "Ant", "bee"):
        printed("add", name)
    assert printed("merge", "Ant", "--into", "ant", "--reason", "spelling") == (
        "Votes on Ant count for ant from the next refit on.\n"
    )
    assert {one["name"]: one["merged_into"] for one in listed(printed)} == {"Ant": "ant", "ant": None, "bee": None}
    assert printed("unmerge", "Ant") == "Votes on Ant count for itself from the next refit on.\n"
    assert not any(one["merged_into"] for one in listed(printed))


def test_a_model_changes_and_has_not_changed(printed: Callable[..., str]) -> None:
    printed("add", "ant", "--license", "MIT")
    assert printed("changed", "ant", "--at", "2026-02-01", "--reason", "new weights") == (
        "Votes on ant before 2026-02-01 count for ant (before 2026-02-01) from the next refit on.\n"
    )
    assert {one["name"]: one["license"] for one in listed(printed)} == {"ant": "MIT", "ant (before 2026-02-01)": "MIT"}
    assert printed("changed", "ant", "--at", "2026-02-01T00:00:00Z", "--undo") == (
        "Votes before 2026-02-01T00:00:00Z count for ant from the next refit on.\n"
    )


def test_what_is_refused(run_cli: RunCli, printed: Callable[..., str]) -> None:
    printed("add", "ant")
    printed("add", "bee")
    for arguments, exit_code, said in (
        (["rename", "nothing", "x"], 1, "there is no model 'nothing'"),
        (["changed", "ant", "--at", "2199-01-01"], 2, "the time lies in the future"),
        (["merge", "ant", "--into", "ant"], 1, "'ant' cannot be merged into itself"),
        (["rename", "ant", "bee"], 1, "there is a model 'bee' already"),
        (["add", "ant"], 1, "there is a model 'ant' already"),
        (["add", " "], 2, "name: must not be blank"),
        (["alias", "ant", "bee"], 1, "'bee' is the name of a model"),
        (["alias", "ant", "x", "--until", "soon"], 2, "valid_until"),
        (["alias", "ant", "x", "--until", "2026-01-01T00:00:00"], 2, "valid_until: input should have timezone info"),
        (["set", "ant", "--link", "ftp://x.example"], 2, "link: must begin with http:// or https://"),
        (["set", "ant"], 2, "nothing to set"),
        (["archive", "ant"], 2, "say why with --reason"),
        (["archive", "ant", "--undo", "--reason", "x"], 2, "--reason does not go with --undo"),
        (["publish", "nothing"], 1, "there is no model 'nothing'"),
        (["archive", "nothing", "--reason", "x"], 1, "there is no model 'nothing'"),
    ):
        result = run_cli("models", *arguments)
        assert (result.exit_code, result.stdout) == (exit_code, ""), arguments
        assert said in result.stderr
