"""How long reviewers wait for an impact: `python -m benchmarks.impact [VOTES] [options of serve]`.

`stable-arena serve` on an embedded database of a million votes, started anew in each round. The first impact of a
service starts the child process that computes it. The later ones, of other annotators, find it idle.
"""

import os
import statistics
import sys
import time
from pathlib import Path

import httpx

from app.database.engine import Database
from app.refits.fragility import find_unmeasured
from app.refits.runner import refit_now
from benchmarks.refit_load import VOTES, served, stored_votes
from benchmarks.size import sized

ROUNDS = sized(5, 1)
LATER = sized(4, 1)  # impacts of a round after the first
MOST_SECONDS = 600


def measure(database: Database, address: str, key: str) -> tuple[list[float], int]:
    """Return the seconds of each impact of a round, and the bytes that the idle child then holds."""
    until_measured(database)
    seconds, before = [], descendants(os.getpid())
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=MOST_SECONDS) as client:
        for number in range(1 + LATER):
            began = time.perf_counter()
            client.get(f"/api/v1/annotators/worker-{1 + number}/impact").raise_for_status()
            seconds.append(time.perf_counter() - began)
    return seconds, max(resident_bytes(pid) for pid in descendants(os.getpid()) - before)


def until_measured(database: Database) -> None:
    """Wait until the worker has nothing more to do about the snapshot: it would take a processor."""
    ends = time.monotonic() + MOST_SECONDS
    while time.monotonic() < ends:
        with database.read() as conn:
            if find_unmeasured(conn) is None:
                return
        time.sleep(0.1)  # the worker has the processor meanwhile
    raise SystemExit("the snapshot's fragility was not measured")


def descendants(pid: int) -> set[int]:
    children = [int(x) for task in Path(f"/proc/{pid}/task").glob("*/children") for x in task.read_text().split()]
    return {pid, *(found for child in children for found in descendants(child))}


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.split("VmRSS:")[1].split()[0])


def main(votes: int, *options: str) -> None:
    first, later, idle = [], [], 0
    with stored_votes(votes, "review:read") as (folder, database, key):
        refit_now(database, lease_seconds=30, requested_by="a benchmark")
        for _ in range(ROUNDS):
            with served(folder, *options) as (host, port):
                seconds, idle = measure(database, f"http://{host}:{port}", key)
            first.append(seconds[0])
            later += seconds[1:]
            print("seconds: " + ", ".join(f"{each:.2f}" for each in seconds), flush=True)
    for name, times in (("first", first), ("later", later)):
        print(f"{name} impact: {statistics.median(times):.2f} s (median), {max(times):.2f} s (most)")
    print(f"its idle process: {idle / 2**20:.0f} MiB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else VOTES, *sys.argv[2:])
