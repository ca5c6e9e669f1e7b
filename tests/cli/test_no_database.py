"""Commands that only read, or change what is recorded, do not make a database where there is none."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from tests.fixtures.environment import Configure

RunCli = Callable[..., Result]


@pytest.mark.parametrize(
    "command",
    [
        ["leaderboard"],
        ["annotators"],
        ["annotators", "show", "k"],
        ["annotators", "decide", "k", "exclude", "--reason", "r"],
        ["annotators", "pseudonymise"],
        ["policy"],
        ["policy", "preview", "min_votes=1"],
        ["models", "list"],
        ["models", "archive", "ant", "--reason", "x"],
        ["audit", "list"],
        ["audit", "verify"],
        ["keys", "list"],
        ["keys", "revoke", "sa_1"],
        ["export", "votes"],
        ["refit"],
        ["refit", "--reproduce", "1"],
    ],
    ids=" ".join,
)
def test_there_is_no_database_yet(run_cli: RunCli, configure: Configure, own_folder: Path, command: list[str]) -> None:
    configure(DATABASE_URL=None, DATA_DIR=own_folder / "data")
    result = run_cli(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"error: there is no database yet in {own_folder / 'data'}: start `stable-arena serve`, or import votes\n"
    )
    assert list(own_folder.iterdir()) == []
