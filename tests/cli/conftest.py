import os
import signal
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli.command import application

RunCli = Callable[..., Result]


@pytest.fixture(autouse=True)
def _as_from_a_terminal() -> Iterator[None]:
    """Start processes that heed SIGHUP, whoever started the tests: `nohup` would have them ignore it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def run_cli() -> RunCli:
    """Run `stable-arena` with these arguments in this process; the result has exit_code, stdout and stderr."""

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(application, [str(argument) for argument in arguments])

    return run


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real vote files; skips where it is not set."""
    folder = os.environ.get("STABLE_ARENA_DATA")
    if not folder:
        pytest.skip("STABLE_ARENA_DATA is not set: no real votes")
    return Path(folder)


@pytest.fixture
def vote_file(tmp_path: Path) -> Path:
    """Write votes on five models: 24 annotators follow one order, one votes against it, one has few votes."""
    models = ["ant", "bee=2", "=cat", "[red]dog", "eel"]
    lines = ["annotator,model_a,model_b,winner"]
    for k in range(25):
        for number, (i, j) in enumerate(combinations(range(5), 2)):
            for turn in range(6):
                winner = "model_a" if (k + number + turn) % 4 else "model_b"
                winner = "tie" if (k + 2 * number + turn) % 7 == 0 else winner
                if k == 24:
                    winner = {"model_a": "model_b", "model_b": "model_a"}.get(winner, winner)
                lines.append(f"k{k:02},{models[i]},{models[j]},{winner}")
    lines += ["few,ant,eel,model_b"] * 3
    path = tmp_path / "votes.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
