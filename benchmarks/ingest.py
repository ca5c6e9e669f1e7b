"""Votes and battles over HTTP, two worker processes, embedded PostgreSQL: single votes against one INSERT each.

Battles run beside them, then batches.

Needs `wrk` (Debian has it). Load generator, service and database share the machine; every figure of the table comes
from one run, rounds of the two services taking turns. Ratios are what to compare.
"""

import math
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from app.auth.keys import create_key
from app.database.embedded.server import EmbeddedServer
from app.database.engine import Database
from app.database.schema import upgrade
from app.naming.queries import add_models
from app.naming.service import resolve_annotators
from benchmarks.size import SMALL, sized

ROUNDS, PROCESSES = sized((5, "2"), (1, "1"))
CONNECTIONS, BATCH = sized((64, 1_000), (4, 10))
PACED, WAIT = 40, 200  # connections that each wait so many milliseconds: together 200 battles a second at most
SECONDS = int(os.environ.get("SECONDS", sized("6", "1")))
SCRIPT = Path(__file__).with_suffix(".lua")
UNIT = {"us": 1e-3, "ms": 1.0, "s": 1e3}


@dataclass(frozen=True)
class Load:
    """One round: requests a second and milliseconds."""

    rate: float
    p50: float
    p99: float


@contextmanager
def served(name: str, database_url: str) -> Iterator[str]:
    """Run one of `benchmarks.ingest_services` in two processes and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.ingest_services", name, str(port), PROCESSES]
    settings = {"STABLE_ARENA_DATABASE_URL": database_url, "STABLE_ARENA_WORKER__RUN_IN_SERVER": "false"}
    server = subprocess.Popen(command, env={**os.environ, **settings})
    try:
        address = f"http://127.0.0.1:{port}"
        until_ready(address, server)
        yield address
    finally:
        server.terminate()
        server.wait()


def until_ready(address: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until the service answers."""
    while server.poll() is None:
        try:
            httpx.get(f"{address}/readyz").raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the service did not start")


def load(
    address: str, key: str, *, path: str, connections: int, batch: int = 0, wait: int = 0, seconds: int = SECONDS
) -> Load:
    """Put load on an endpoint and return what wrk measured."""
    command = ["wrk", "-t2", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", str(SCRIPT)]
    target = [f"{address}/api/v1{path}", "--", f"run{time.time_ns()}", key, str(batch), str(wait)]
    out = subprocess.run([*command, *target], check=True, capture_output=True, text=True).stdout
    times = {share: float(value) * UNIT[unit] for share, value, unit in re.findall(r"(\d+)%\s+([\d.]+)(us|ms|s)", out)}
    rate = re.search(r"Requests/sec:\s+([\d.]+)", out)
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", out) or re.search(r"(?:connect|read|write) ([1-9]\d*)", out)
    if rate is None:
        raise SystemExit(out)
    if failed:
        raise SystemExit(f"{failed[1]} requests to {path} failed: the figures would say nothing")
    return Load(float(rate[1]), times["50"], times["99"])


def median(loads: list[Load]) -> Load:
    """Median of each figure."""
    rate, p50, p99 = (statistics.median(each) for each in zip(*((x.rate, x.p50, x.p99) for x in loads), strict=True))
    if not rate and not SMALL:
        raise SystemExit("no request was answered")
    return Load(rate, p50, p99)


def measure(url: str, key: str) -> None:
    with served("service", url) as service, served("one_insert_each", url) as peer:
        for address in (service, peer):
            load(address, key, path="/votes", connections=CONNECTIONS, seconds=sized(2, 1))  # names, caches
        rounds = [
            (
                load(service, key, path="/votes", connections=CONNECTIONS),
                load(peer, key, path="/votes", connections=CONNECTIONS),
                load(service, key, path="/battles", connections=CONNECTIONS),
            )
            for _ in range(ROUNDS)
        ]
        paced = [load(service, key, path="/battles", connections=PACED, wait=WAIT) for _ in range(ROUNDS)]
        batches = [load(service, key, path="/votes/batch", connections=4, batch=BATCH) for _ in range(ROUNDS)]
    ours, theirs, battles, batch = (median(list(x)) for x in (*zip(*rounds, strict=True), batches))
    print(f"{'':28}{'votes/s':>10}{'p50 ms':>10}{'p99 ms':>10}")
    for name, figures, size in (
        (f"single votes, {CONNECTIONS} at once", ours, 1),
        (f"one INSERT each, {CONNECTIONS}", theirs, 1),
        (f"battles, {CONNECTIONS} at once", battles, 1),
        (f"battles, {1000 * PACED // WAIT} a second", median(paced), 1),
        (f"batches of {BATCH:,}, 4 at once", batch, BATCH),
    ):
        print(f"{name:28}{figures.rate * size:>10,.0f}{figures.p50:>10.1f}{figures.p99:>10.1f}")
    ratio = statistics.median(a.rate / (b.rate or math.nan) for a, b, _ in rounds)
    print(f"single votes over one INSERT each: {ratio:.1f} × (median of {ROUNDS} rounds)")
    ratio = statistics.median(c.rate / (a.rate or math.nan) for a, _, c in rounds)
    print(f"battles over single votes: {ratio:.2f} ×")


def require_wrk() -> None:
    if shutil.which("wrk") is None:
        raise SystemExit("the load is put on by wrk, which is missing: apt-get install wrk")


def main() -> None:
    require_wrk()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stable-arena-bench-")))
        folder.chmod(0o711)  # under root the server runs as another user
        server = EmbeddedServer(folder / "data")
        stack.callback(server.release)
        url = server.start()
        upgrade(url)
        with Database(url) as database, database.begin() as conn:
            key = create_key(conn, "benchmark", ["ingest"])[1]
            # the peer inserts votes alone: names are on record before
            add_models(conn, {f"model-{number}" for number in range(1, 21)})
            resolve_annotators(conn, [f"worker-{number}" for number in range(1, 501)])
        measure(url, key)


if __name__ == "__main__":
    main()
