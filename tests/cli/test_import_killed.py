"""SIGKILL while a file is imported: whoever imports it next finds every row once."""

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.database.engine import Database

RunCli = Callable[..., Any]

RUN = """
import sys
from app.imports import loading
from app.imports.formats import csv
csv.ROWS_PER_BATCH, loading.CHUNK_BYTES = 500, 1  # many chunks to be killed in
from app.cli.command import run
run()
"""


@pytest.fixture
def votes_to_import(on_database: None, tmp_path: Path) -> Path:
    """Votes of which some share a battle with an earlier one, some say nothing new, and many are the same row."""
    rows = [f"k{i % 97},m{i % 5},m{5 + i % 3},model_a,{f'b{i}' if i % 2 else ''}" for i in range(30_000)]
    rows += [row.replace("model_a", "model_b") for row in rows[1::300]]
    path = tmp_path / "votes.csv"
    path.write_text("\n".join(["annotator,model_a,model_b,winner,battle_id", *rows]) + "\n")
    return path


def progress(database: Database) -> int:
    with database.read() as conn:
        return int(conn.execute(text("SELECT coalesce(max(rows_done), 0) FROM imports")).scalar_one())


def kill_and_import_again(database: Database, run_cli: RunCli, path: Path, kills: int, seed: int) -> None:
    choose = random.Random(seed)  # noqa: S311  nothing is secret here
    killed = 0
    pause = threading.Event()
    while killed < kills:
        process = subprocess.Popen([sys.executable, "-c", RUN, "import", str(path)], stdout=subprocess.DEVNULL)
        wanted = progress(database) + choose.randrange(1, 3 * 30_100 // (2 * kills))
        while process.poll() is None and progress(database) < wanted:
            pause.wait(0.002)
        pause.wait(choose.random() * 0.02)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        if progress(database) >= 30_100:
            break
    result = run_cli("import", path)
    assert result.exit_code == 0, result.stderr
    assert killed >= min(kills, 2)
    print(f"{killed} kills")
    with database.read() as conn:
        row = conn.execute(text("SELECT state, rows_done, counts FROM imports")).one()
        votes, battles = conn.execute(text("SELECT count(*), count(DISTINCT battle_id) FROM votes")).one()
        first = conn.execute(
            text("SELECT count(*) FROM votes WHERE battle_id IS NOT NULL AND outcome <> 0")
        ).scalar_one()
        faults = conn.execute(text("SELECT count(*) FROM import_faults WHERE place LIKE 'line %'")).scalar_one()
    assert row.state == "done"
    assert row.rows_done == 30_100
    none = dict.fromkeys(("replaced", "duplicates", "retracted", "rejected", "skipped"), 0)
    assert row.counts == {"rows": 30_100, "created": 30_000, "conflicts": 100, **none}
    assert (votes, battles, first, faults) == (30_000, 15_000, 0, 100)


@pytest.mark.campaign
@pytest.mark.skipif(sys.platform == "win32", reason="kills with SIGKILL")
def test_a_few_kills(database: Database, run_cli: RunCli, votes_to_import: Path) -> None:
    kill_and_import_again(database, run_cli, votes_to_import, kills=2, seed=1)


@pytest.mark.soak
@pytest.mark.skipif(sys.platform == "win32", reason="kills with SIGKILL")
@pytest.mark.parametrize("seed", range(10))
def test_many_kills(database: Database, run_cli: RunCli, votes_to_import: Path, seed: int) -> None:
    kill_and_import_again(database, run_cli, votes_to_import, kills=6, seed=seed)
