"""The commands of a reviewer say what the API says."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import Result

RunCli = Callable[..., Result]
Ask = Callable[..., Any]


@pytest.fixture
def command(on_database: None, run_cli: RunCli) -> Callable[..., Any]:
    """Run a command on the test's database: with --format json the parsed result, else the text."""

    def run(*arguments: object, as_json: bool = True) -> Any:
        result = run_cli(*arguments, *(["--format", "json"] if as_json else []))
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout) if as_json else result.stdout

    return run


@pytest.mark.usefixtures("crowd")
def test_what_reviewers_see(ask: Ask, refit: Ask, command: Callable[..., Any]) -> None:
    refit()
    queue = ask("GET", "/reviews").json()["items"]
    assert {one["annotator"] for one in queue} == {"flip 12", "flip 13"}
    assert command("reviews")["reviews"] == queue
    assert queue[0]["evidence"]["words"][0] in command("reviews", as_json=False)

    listed = command("annotators")["annotators"]
    assert [one["strength"] for one in listed] == sorted((one["strength"] for one in listed), reverse=True)
    assert [one["reasons"] for one in listed[:2]] == [one["evidence"]["words"] for one in queue]
    assert all(one["reasons"] == [] for one in listed[2:])
    assert listed[0]["reasons"][0] in command("annotators", as_json=False)
    assert listed[0]["reasons"][0] in command("annotators", "--format", "csv", as_json=False).replace('""', '"')

    name = queue[0]["annotator"]
    assert command("impact", name) == ask("GET", f"/annotators/{queue[0]['id']}/impact").json()
    assert "model 0" in command("impact", name, as_json=False)

    assert ask("POST", f"/annotators/{queue[0]['id']}/appeals", json={"note": "I was [in] a hurry"}).status_code == 201
    assert command("appeals") == {"appeals": ask("GET", "/appeals").json()["items"]}
    assert "I was [in] a hurry" in command("appeals", as_json=False)
    command("annotators", "decide", name, "trust", "--reason", "asked", as_json=False)
    assert command("appeals")["appeals"] == []
    assert len(command("appeals", "--answered", "--annotator", name)["appeals"]) == 1

    refit()
    assert command("diff", 1, 2) == ask("GET", "/snapshots/1/diff/2").json()
    assert "Rank in 1" in command("diff", 1, 2, as_json=False)


@pytest.mark.usefixtures("crowd")
def test_retractions(ask: Ask, command: Callable[..., Any], run_cli: RunCli) -> None:
    done = command("retractions", "add", "annotator", "flip 12", "--reason", "a test")
    assert done["votes"] == 120
    assert command("retractions", "list")["retractions"] == ask("GET", "/retractions").json()["items"]
    assert "a test" in command("retractions", "list", as_json=False)
    taken_back = command("retractions", "withdraw", done["id"], "--reason", "not so")
    assert taken_back["withdrawn_at"] is not None
    assert "withdrawn: a test" in command("retractions", "list", as_json=False)
    assert run_cli("retractions", "add", "model", "no such", "--reason", "x").exit_code == 1


def test_webhooks(ask: Ask, command: Callable[..., Any], run_cli: RunCli) -> None:
    made = command("webhooks", "add", "https://93.184.216.34/hook", "--event", "snapshot.published")
    assert made["secret"].startswith("whsec_")
    (listed,) = command("webhooks", "list")["webhooks"]
    assert listed == ask("GET", "/webhooks").json()["items"][0]
    for action, state in (("pause", "paused"), ("resume", "sent")):
        command("webhooks", action, made["id"], as_json=False)
        assert state in command("webhooks", "list", as_json=False)
    command("webhooks", "test", made["id"], as_json=False)
    (message,) = command("webhooks", "deliveries", made["id"])["deliveries"]
    assert (message["event"], message["status"]) == ("test", "waiting")
    command("webhooks", "delete", made["id"], as_json=False)
    assert command("webhooks", "list")["webhooks"] == []
    assert run_cli("webhooks", "add", "https://93.184.216.34/", "--event", "no.such").exit_code == 2
