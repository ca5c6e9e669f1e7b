"""Measure `stable-arena import`: a million votes of CSV, with battles and without, into a new embedded database.

`python -m benchmarks.imports [votes]`. Prints the seconds of the whole command, rows a second, the seconds that the
process itself was computing (the rest is PostgreSQL's, and other users of the machine), and its peak memory.
"""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

MODELS, ANNOTATORS = 200, 20_000
WINNERS = np.array(["model_a", "model_b", "tie", "tie (bothbad)"])


@dataclass(frozen=True)
class Measured:
    """One run: wall seconds of the whole command, its own computing, and the most memory that it held."""

    seconds: float
    computing: float
    megabytes: float
    created: int


# The process says it of itself: what wait4 says of a child's memory includes the child's children, PostgreSQL.
COMMAND = """
import atexit, resource, sys
def tell():
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, file=sys.stderr)
atexit.register(tell)
from app.cli.command import run
run()
"""


def write_votes(path: Path, count: int, *, battles: bool) -> None:
    """Write votes of a plausible arena, in the service's own format."""
    random = np.random.default_rng(1)
    model_a = random.integers(0, MODELS, count)
    model_b = (model_a + random.integers(1, MODELS, count)) % MODELS
    moments = np.datetime64("2026-01-01", "ms") + random.integers(0, 10**10, count)
    columns = {
        "annotator": [f"annotator-{i}" for i in random.integers(0, ANNOTATORS, count)],
        "model_a": [f"model-{i}" for i in model_a],
        "model_b": [f"model-{i}" for i in model_b],
        "winner": WINNERS[random.integers(0, 4, count)],
        "timestamp": pl.Series(moments).dt.to_string("%Y-%m-%dT%H:%M:%SZ"),
    }
    if battles:
        columns["battle_id"] = [f"battle-{i:08x}" for i in random.permutation(count)]
    pl.DataFrame(columns).write_csv(path)


def run_import(path: Path, data_dir: Path) -> Measured:
    """Import a file by the command line, in a process of its own that is measured."""
    command = [sys.executable, "-c", COMMAND, "import", str(path), "--again", "--format", "json"]
    environment = {**os.environ, "STABLE_ARENA_DATA_DIR": str(data_dir)}
    environment.pop("STABLE_ARENA_DATABASE_URL", None)
    before = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - before
    computing, megabytes = map(float, done.stderr.split()[-2:])
    return Measured(seconds, computing, megabytes, json.loads(done.stdout)["created"])


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    spawn = multiprocessing.get_context("spawn")
    folder = Path(tempfile.mkdtemp(prefix="stable-arena-bench-"))
    folder.chmod(0o711)  # the embedded server runs as another user under root
    try:
        write_votes(folder / "warm.csv", 1, battles=False)
        run_import(folder / "warm.csv", folder / "data")  # makes the database, which is not what is measured
        print(f"{count:,} votes of CSV, {MODELS} models, {ANNOTATORS:,} annotators, {os.cpu_count()} cores")
        for battles in (False, True):
            name = "with battle_id" if battles else "without battle_id"
            path = folder / f"{'battles' if battles else 'plain'}.csv"
            # In a process of its own: a child process inherits the peak memory of its parent.
            writing = spawn.Process(target=write_votes, args=(path, count), kwargs={"battles": battles})
            writing.start()
            writing.join()
            done = run_import(path, folder / "data")
            assert done.created == count  # noqa: S101
            rate = count / done.seconds
            own = f"{done.computing:5.1f} s computing, {done.megabytes:4.0f} MB at most"
            print(f"{name:18} {done.seconds:6.1f} s  {rate:9,.0f} rows/s  {own}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
