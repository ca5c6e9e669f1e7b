"""An arena of ten million votes, end to end: import, refit, pages, a million votes more, export, backup, restore.

    python -m benchmarks.at_scale [VOTES [MORE]]

Everything is done by the command line and over HTTP, on the embedded PostgreSQL and this machine: about eight minutes
and 15 GB of disk for ten million. 200 models (sd 100 Elo points), an annotator for every 200 votes, with a long tail of
votes; one in twenty votes at random, three in a hundred turn the ranking over. A row has the wall seconds of a step,
the most memory of one process of the service without PostgreSQL, and the size of the data directory.
"""

import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import httpx
import numpy as np
import polars as pl

from benchmarks.size import sized
from benchmarks.strangers import resident, started

MODELS, VOTES_EACH = sized((200, 200), (20, 50))
VOTES, MORE = sized((10_000_000, 1_000_000), (5_000, 0))
WINNERS = np.array(["model_b", "tie", "model_a"])
ASKED = sized(30, 2)  # times that a page is asked for


def write_votes(path: Path, first: int, count: int, annotators: int) -> None:
    """Write votes first … first+count−1 of the same arena as CSV."""
    same, random = np.random.default_rng(1), np.random.default_rng(2 + first)
    score, ability = same.normal(0.0, 100.0, MODELS), np.exp(0.3 * same.normal(size=annotators))
    kind = same.random(annotators)
    ability = np.where(kind < 0.05, 0.0, np.where(kind < 0.08, -ability, ability))
    tail = np.exp(1.5 * same.normal(size=annotators))
    who = random.choice(annotators, count, p=tail / tail.sum())
    a = random.integers(0, MODELS, count)
    b = (a + random.integers(1, MODELS, count)) % MODELS
    p = 1.0 / (1.0 + np.exp(-ability[who] * (score[a] - score[b]) * np.log(10.0) / 400.0))
    tie, draw = p * (1.0 - p), random.random(count)
    outcome = np.where(draw < p - tie / 2, 2, np.where(draw < p + tie / 2, 1, 0))
    votes = pl.DataFrame(
        {"who": who, "a": a, "b": b, "winner": WINNERS[outcome], "battle": np.arange(first, first + count)}
    )
    names = {"annotator": "who", "model_a": "a", "model_b": "b", "battle_id": "battle"}
    named = [pl.format(f"{name.split('_')[0]}-{{}}", column).alias(name) for name, column in names.items()]
    votes.select(*named, "winner").write_csv(path)


class Arena:
    """A data directory, and what was measured on it."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.environment = {**os.environ, "STABLE_ARENA_DATA_DIR": str(self.data)}
        self.environment.pop("STABLE_ARENA_DATABASE_URL", None)

    def run(self, *arguments: str, data: Path | None = None) -> str:
        """Run `stable-arena` and return what it printed."""
        environment = self.environment | ({"STABLE_ARENA_DATA_DIR": str(data)} if data else {})
        command = [sys.executable, "-m", "app.cli", *arguments]
        return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout

    def measure(self, what: str, work: Callable[[], object]) -> None:
        """Do it and print its row."""
        began = time.perf_counter()
        with most_memory(os.getpid()) as most:
            work()
        self.show(what, time.perf_counter() - began, most[0])

    def show(self, what: str, seconds: float, memory: float | None = None) -> None:
        """Print one row."""
        size = sum(path.lstat().st_size for path in self.data.rglob("*") if path.is_file()) / 1e9
        held = "" if memory is None else f"{memory:6.0f} MiB"
        print(f"{what:54}{seconds:9.3f} s{held:>12}{size:8.1f} GB", flush=True)


@contextmanager
def most_memory(parent: int) -> Iterator[list[float]]:
    """Look every fifth of a second for the most memory of one of the process' descendants, PostgreSQL's apart."""
    most, ended = [0.0], threading.Event()

    def look() -> None:
        while not ended.wait(0.2):
            most[0] = max([most[0], *map(_memory, _descendants(parent))])

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()


def _descendants(parent: int) -> list[int]:
    try:
        tasks = Path(f"/proc/{parent}/task").glob("*/children")
        children = [int(child) for task in tasks for child in task.read_text().split()]
    except OSError:  # it ended meanwhile
        return []
    return children + [one for child in children for one in _descendants(child)]


def _memory(process: int) -> float:
    try:
        is_postgres = Path(f"/proc/{process}/comm").read_text().startswith("postgres")
        return 0.0 if is_postgres else resident(process)
    except OSError:
        return 0.0


def measure_service(arena: Arena, api: httpx.Client, parent: int, title: str) -> None:
    """Refit, and ask for the pages."""
    with most_memory(parent) as most:
        refit = api.post("/refits").raise_for_status().json()
        while refit["finished_at"] is None:
            time.sleep(0.1)
            refit = api.get(f"/refits/{refit['id']}").raise_for_status().json()
    if refit["state"] != "done":
        sys.exit(f"the refit ended as {refit['state']}: {refit['detail']}")
    took = datetime.fromisoformat(refit["finished_at"]) - datetime.fromisoformat(refit["started_at"])
    arena.show(f"refit {title}", took.total_seconds(), most[0])
    print("   " + ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in refit["seconds"].items()), flush=True)
    for name, path in PAGES.items():
        times = []
        for _ in range(ASKED):
            began = time.perf_counter()
            with api.stream("GET", path) as answer:
                answer.raise_for_status()
                for number, _ in enumerate(answer.iter_raw()):
                    if number == 0:
                        times.append(time.perf_counter() - began)
        arena.show(f"   {name}: first byte, first time {times[0]:.3f}, then", statistics.median(times[1:]))


PAGES = {
    "leaderboard": "/leaderboard",
    "annotators, a page": "/annotators?limit=50",
    "annotators flagged": "/annotators?standing=flagged&limit=50",
    "review queue": "/reviews?limit=50",
    "matchups as CSV": "/matchups?format=csv",
}


def main() -> None:
    """Print the table."""
    given = [int(argument) for argument in sys.argv[1:3]]
    votes, more = (*given, *(VOTES, MORE)[len(given) :])
    annotators = votes // VOTES_EACH
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="stable-arena-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # under root the database runs as another user
        arena, files = Arena(folder), (folder / "votes.csv", folder / "more.csv")
        for file, first, count in ((files[0], 0, votes), (files[1], votes, more)):
            writing = spawn.Process(target=write_votes, args=(file, first, count, annotators))
            writing.start()
            writing.join()
        arena.run("migrate")
        print(f"{votes:,} votes, {annotators:,} annotators, {MODELS} models, {os.cpu_count()} processors")
        arena.measure(f"import {votes:,}", lambda: arena.run("import", str(files[0])))
        key = json.loads(arena.run("keys", "create", "benchmark", "--scope", "admin", "--format", "json"))["key"]
        arena.run("policy", "set", "refit_interval_seconds=86400", "--reason", "measured one by one")
        with started(["-m", "app.cli", "serve", "--port", "0"], arena.environment) as (service, address):
            headers = {"Authorization": f"Bearer {key}"}
            with httpx.Client(base_url=f"{address}/api/v1", headers=headers, timeout=600) as api:
                measure_service(arena, api, service, f"of {votes:,}")
                if more:
                    arena.measure(f"import {more:,} more", lambda: arena.run("import", str(files[1])))
                    measure_service(arena, api, service, f"of {votes + more:,}")
        exported, backup = folder / "exported.parquet", folder / "backup"
        arena.measure("export votes as Parquet", lambda: arena.run("export", "votes", "--output", str(exported)))
        arena.measure("backup", lambda: arena.run("backup", str(backup)))
        print(f"   {exported.stat().st_size / 1e9:.2f} GB exported, {backup.stat().st_size / 1e9:.2f} GB of backup")
        arena.measure(
            "restore, with its check by a refit", lambda: arena.run("restore", str(backup), data=folder / "restored")
        )


if __name__ == "__main__":
    main()
