"""The screen that lists the commands, and what is imported to show it."""

import gc
import inspect
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import command as command_room
from app.cli.command import COMMANDS, Listed, application, importing_much, load_command
from stable_arena_lab.commands import EXPERIMENTS

ENTER = "from app.cli.command import run; run()"


def help_screen(*family: str, watched: bool, **environment: str) -> str:
    """Return what `--help` prints, into a pipe or on a terminal, without colours."""
    command = [sys.executable, "-c", ENTER, *family, "--help"]
    variables = {"TERM": "xterm", **os.environ, **environment}
    if not watched:
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout
    master, terminal = pty.openpty()
    with subprocess.Popen(command, env=variables, stdout=terminal) as process:
        os.close(terminal)
        shown = b""
        while chunk := read_some(master):
            shown += chunk
    os.close(master)
    assert process.returncode == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())


def read_some(master: int) -> bytes:
    """Read from the terminal; at its end Linux raises EIO, others return nothing."""
    try:
        return os.read(master, 65_536)
    except OSError:
        return b""


def listed(screen: str) -> list[str]:
    """Return the names in the first column of the list of commands."""
    commands = screen.partition("Commands")[2]
    return re.findall(r"^│ (\S+)", commands, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("watched", "environment"),
    [
        (False, {}),
        (False, {"COLUMNS": "40"}),
        (True, {"COLUMNS": "100"}),
        (True, {"COLUMNS": "40", "NO_COLOR": "1"}),
    ],
)
def test_every_command_is_listed_by_its_name(watched: bool, environment: dict[str, str]) -> None:
    assert listed(help_screen(watched=watched, **environment)) == list(COMMANDS)


def test_every_experiment_is_listed_by_its_name() -> None:
    assert listed(help_screen("lab", watched=False)) == list(EXPERIMENTS)


@pytest.mark.parametrize("table", [COMMANDS, EXPERIMENTS], ids=["commands", "experiments"])
def test_the_list_says_what_the_commands_own_help_says(table: dict[str, Listed]) -> None:
    for name, listed in table.items():
        own = load_command(name, listed).help
        assert inspect.cleandoc(own).partition("\n\n")[0].replace("\n", " ") == listed.line


def enter(*arguments: str, **environment: str) -> tuple[set[str], str]:
    """Return the modules that `stable-arena` with these arguments imports, and how many threads linear algebra has."""
    code = (
        "import sys\n"
        "from app.cli.command import run\n"
        "try: run()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print(*sys.modules, file=sys.stderr)\n"
        "import numpy, threadpoolctl\n"
        "print(*{one['num_threads'] for one in threadpoolctl.threadpool_info()})"
    )
    variables = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    command = [sys.executable, "-c", code, *arguments]
    ran = subprocess.run(command, env=variables | environment, capture_output=True, text=True, check=True)
    return set(ran.stderr.split()), ran.stdout.splitlines()[-1]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["lab", "--help"]])
def test_the_help_imports_no_command(arguments: list[str]) -> None:
    """The help takes 0.3 s instead of 2: it lists the commands from a table."""
    modules, _ = enter(*arguments)
    assert {name for name in modules if name.partition(".")[0] == "app"} <= {
        "app",
        "app.cli",
        "app.cli.command",
        "app.cli.failures",
        "app.cli.stopping",
        "app.errors",
        "app.rating",
        "app.rating.errors",
    }
    assert not modules & {"numpy", "numba", "scipy", "polars", "sqlalchemy", "fastapi"}


def test_without_the_laboratory_its_command_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_room, "entry_points", lambda **_: ())  # as on a machine that has the service alone
    with pytest.raises(SystemExit) as end:
        application(["lab", "prediction"])
    assert end.value.code == 2
    assert "pip install ./lab" in " ".join(capsys.readouterr().err.split())


def test_rate_imports_what_rating_needs_and_starts_one_thread_of_the_linear_algebra(vote_file: Path) -> None:
    """No database, no server, and of scipy what every fit needs. The other threads would spin at the start."""
    modules, threads = enter("rate", str(vote_file), "--output", os.devnull)
    assert threads == "1"
    assert not modules & {
        "sqlalchemy",
        "psycopg",
        "alembic",
        "fastapi",
        "starlette",
        "uvicorn",
        "httpx",
        "pydantic_settings",
        "prometheus_client",
        "scipy.stats",
        "scipy.optimize",
        "scipy.sparse",
        "rich.progress",
    }


def test_who_runs_a_command_may_set_the_threads_of_the_linear_algebra() -> None:
    _, threads = enter("--help", OPENBLAS_NUM_THREADS="2")
    assert threads == str(min(2, os.cpu_count() or 1))


def test_garbage_is_collected_again_after_an_import_even_one_that_fails() -> None:
    frozen = gc.get_freeze_count()
    try:
        with importing_much():
            assert not gc.isenabled()
        assert gc.isenabled()
        with pytest.raises(ImportError), importing_much():
            raise ImportError
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()
        gc.enable()
