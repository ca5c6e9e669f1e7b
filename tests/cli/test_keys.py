import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from app.auth.keys import authenticate
from app.auth.sessions.service import find_link
from app.database.engine import Database

RunCli = Callable[..., Any]


pytestmark = pytest.mark.usefixtures("on_database")


def test_the_key_alone_is_on_standard_output(run_cli: RunCli, database: Database) -> None:
    result = run_cli("keys", "create", "front end", "--scope", "ingest", "--scope", "read")
    assert result.exit_code == 0, result.stderr
    assert re.fullmatch(r"sa_\w{8}_\w{28}\n", result.stdout)
    assert "front end: ingest, read" in result.stderr
    with database.read() as conn:
        caller = authenticate(conn, result.stdout.strip())
    assert (caller.name, caller.scopes) == ("front end", {"ingest", "read"})


def test_keys_as_json(run_cli: RunCli) -> None:
    created = json.loads(run_cli("keys", "create", "k", "--scope", "admin", "--format", "json").stdout)
    assert created.keys() == {
        "id", "name", "prefix", "scopes", "created_at", "revoked_at", "expires_at", "replaced_by",
        "requests_per_minute", "key",
    }  # fmt: skip
    (listed,) = json.loads(run_cli("keys", "list", "--format", "json").stdout)["keys"]
    assert listed == {name: value for name, value in created.items() if name != "key"}


def test_listing_and_revoking(run_cli: RunCli) -> None:
    keys = [run_cli("keys", "create", name, "--scope", "read").stdout.strip() for name in ("first", "[red]second")]
    table = run_cli("keys", "list").stdout
    assert all(key.split("_")[1] in table and key not in table for key in keys)
    assert "[red]second" in table
    revoked = run_cli("keys", "revoke", keys[0].split("_")[1])
    assert (revoked.exit_code, "is revoked" in revoked.stdout) == (0, True)
    listed = json.loads(run_cli("keys", "list", "--format", "json").stdout)["keys"]
    assert [key["revoked_at"] is None for key in listed] == [False, True]


def test_rotating(run_cli: RunCli) -> None:
    arguments = ("--scope", "read", "--expires", "2999-12-31", "--requests-per-minute", "60", "--format", "json")
    old = json.loads(run_cli("keys", "create", "front end", *arguments).stdout)
    assert old["expires_at"] == "2999-12-31T00:00:00Z"
    new = json.loads(run_cli("keys", "rotate", old["prefix"], "--overlap", "60", "--format", "json").stdout)
    assert new["key"] != old["key"]
    assert (new["name"], new["scopes"], new["requests_per_minute"]) == ("front end", ["read"], 60)
    listed = json.loads(run_cli("keys", "list", "--format", "json").stdout)["keys"]
    assert [key["replaced_by"] for key in listed] == [new["id"], None]
    assert listed[0]["expires_at"] < "2999"
    assert run_cli("keys", "rotate", old["id"]).exit_code == 1
    plain = run_cli("keys", "rotate", new["id"])
    assert plain.stdout.startswith("sa_")
    assert "shown only now" in plain.stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code", "told"),
    [
        (["create", "k", "--scope", "read", "--expires", "2020-01-01"], 2, "expires_at: must be in the future"),
        (["rotate", "nothing"], 1, "no key has this prefix or id"),
        (
            ["create", "k", "--scope", "root"],
            2,
            "scopes: must be one or more of ingest, read, review:read, review, admin",
        ),
        (["create", " ", "--scope", "read"], 2, "name: must not be blank"),
        (["create", "k"], 2, "--scope"),
        (["revoke", "nothing"], 1, "no key has this prefix or id"),
    ],
)
def test_what_is_refused(run_cli: RunCli, arguments: list[str], exit_code: int, told: str) -> None:
    result = run_cli("keys", *arguments)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert told in result.stderr


@pytest.mark.parametrize("family", ["keys", "lab"])
def test_a_family_of_commands_by_itself_shows_its_help_and_no_error(run_cli: RunCli, family: str) -> None:
    result = run_cli(family)
    assert f"stable-arena {family}" in result.output
    assert "error:" not in result.output
    assert result.exit_code == 2


def test_a_sign_in_link(run_cli: RunCli, database: Database) -> None:
    prefix = run_cli("keys", "create", "reviewer", "--scope", "review").stdout.split("_")[1]
    printed = run_cli("keys", "sign-in-link", prefix, "--address", "https://arena.example/")
    assert printed.exit_code == 0, printed.stderr
    address, ticket = printed.stdout.strip().split("?ticket=")
    assert address == "https://arena.example/console/sign-in"
    with database.read() as conn:
        assert find_link(conn, ticket).name == "reviewer"
    assert run_cli("keys", "sign-in-link", prefix).stdout.startswith("http://127.0.0.1:8000/console/sign-in?ticket=")
    refused = run_cli("keys", "sign-in-link", "nothing")
    assert (refused.exit_code, refused.stdout) == (1, "")
