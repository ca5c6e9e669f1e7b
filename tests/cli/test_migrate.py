import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.database.engine import Database
from app.database.schema import OLDEST, needed_revision, require_current
from tests.fixtures.environment import Configure

RunCli = Callable[..., Any]


@pytest.fixture(autouse=True)
def _signals_as_they_were() -> Iterator[None]:
    """Keep pytest's Ctrl-C: serve sets handlers for the whole process."""
    handlers = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    yield
    for name, handler in handlers.items():
        signal.signal(name, handler)


def test_migrating_an_empty_database(run_cli: RunCli, empty_database_url: str, configure: Configure) -> None:
    configure(DATABASE_URL=empty_database_url)
    behind = run_cli("keys", "list")
    assert behind.exit_code == 1
    assert behind.stderr == (
        f"error: the schema is empty, this version needs {needed_revision()}: run stable-arena migrate\n"
    )
    for _ in range(2):
        result = run_cli("migrate")
        assert (result.exit_code, result.stdout) == (0, f"The schema is at {needed_revision()}.\n")
    with Database(empty_database_url) as database:
        require_current(database)
    assert run_cli("keys", "list").exit_code == 0


@pytest.mark.own_database
def test_going_back_and_forth(run_cli: RunCli, database_url: str, configure: Configure) -> None:
    configure(DATABASE_URL=database_url)
    for revision in ("9999", "head", "-1", "", needed_revision() + "0"):
        refused = run_cli("migrate", f"--to={revision}")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert refused.stderr.startswith(f"error: the schema is at {needed_revision()}; it can go back to ")
        assert refused.stderr.endswith(f"{OLDEST}\n")
    # Before the first release: the audit log would be lost on the way.
    assert run_cli("migrate", "--to", "0020", "--delete-votes").exit_code == 2
    assert run_cli("migrate", "--to", "base", "--delete-votes").exit_code == 2
    assert run_cli("migrate", "--delete-votes").exit_code == 2
    back = run_cli("migrate", "--to", OLDEST)
    assert (back.exit_code, back.stdout) == (0, f"The schema is at {OLDEST}.\n")
    assert run_cli("keys", "list").exit_code == 1
    assert run_cli("migrate", "--to", OLDEST).exit_code == 0
    assert run_cli("migrate", "--to", "0022").exit_code == 2  # that would be forward
    assert run_cli("migrate").exit_code == 0
    assert run_cli("keys", "list").exit_code == 0


@pytest.mark.own_database
def test_going_back_deletes_votes_only_where_it_is_asked(
    run_cli: RunCli, database_url: str, configure: Configure, ask: Callable[..., Any]
) -> None:
    configure(DATABASE_URL=database_url)
    vote = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "ann"}
    for criterion in (None, "style", "accuracy"):
        assert ask("POST", "/votes", json={**vote, "criterion": criterion}).status_code == 201
    refused = run_cli("migrate", "--to", OLDEST)
    assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert " 2 of the votes " in refused.stderr
    assert run_cli("keys", "list").exit_code == 0
    done = run_cli("migrate", "--to", OLDEST, "--delete-votes")
    assert (done.exit_code, done.stdout) == (0, f"The schema is at {OLDEST}.\n2 votes are deleted.\n")


@pytest.mark.parametrize("command", [["migrate"], ["keys", "list"], ["serve"], ["import", "votes.csv"], ["refit"]])
@pytest.mark.parametrize(
    ("url", "exit_code", "told"),
    [
        ("postgresql://u:hunter2@127.0.0.1:1/x", 1, "connection failed"),
        ("mysql://u:hunter2@127.0.0.1/x", 2, "must look like postgresql://"),
        ("postgresql://u:p@hunter2@127.0.0.1:1/x", 2, "more than one @"),
    ],
)
def test_a_database_that_cannot_be_used(
    run_cli: RunCli,
    configure: Configure,
    own_folder: Path,
    command: list[str],
    url: str,
    exit_code: int,
    told: str,
) -> None:
    configure(DATABASE_URL=url)
    Path("votes.csv").write_text("annotator,model_a,model_b,winner\nk,a,b,tie\n")
    result = run_cli(*command)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert told in result.stderr
    assert "hunter2" not in result.stderr


def test_settings_that_are_not_valid(run_cli: RunCli, configure: Configure) -> None:
    configure(SERVER__PORT="70000")
    result = run_cli("migrate")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "STABLE_ARENA_SERVER__PORT: input should be less than or equal to 65535" in result.stderr
