"""What strangers cost the votes: p99 of single votes and memory, calm and under attack, in the same run.

Eight strangers without a key post 16 MiB of `[],[],…` again and again, and 200 more hold requests that they do not
finish. Rounds of calm and attack take turns; the service is `stable-arena serve` with one server process, on an
embedded PostgreSQL. Load generator, attackers, service and database share the machine: only ratios say anything.
With `--eager` the attackers do not wait to be cut off: they leave as soon as they have their answer.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from app.auth.keys import create_key
from app.database.engine import Database
from app.opening import open_database_of
from app.settings import Settings

ROUNDS, SECONDS = 5, float(os.environ.get("SECONDS", "6"))
STRANGERS, HELD = 8, 200
BODY = b"[" + b"[]," * ((16 * 1024 * 1024 - 4) // 3) + b"[]]"
PATHS = ("/api/v1/refits", "/api/v1/votes", "/api/v1/votes/batch", "/api/v1/policy/preview")
VOTES_A_SECOND = 100
P99, MEMORY = 2.0, 100.0


async def _vote(client: httpx.AsyncClient, number: int, times: list[float]) -> None:
    body = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": f"annotator {number % 50}"}
    began = time.perf_counter()
    answer = await client.post("/api/v1/votes", json=body)
    times.append(time.perf_counter() - began)
    answer.raise_for_status()


async def vote_steadily(address: str, key: str) -> list[float]:
    """Post votes at a steady rate for a round and return how long each took: a late answer delays no other vote."""
    times: list[float] = []
    headers = {"Authorization": f"Bearer {key}"}
    limits = httpx.Limits(max_connections=500, max_keepalive_connections=500)
    async with (
        httpx.AsyncClient(base_url=address, headers=headers, timeout=120, limits=limits) as client,
        asyncio.TaskGroup() as group,
    ):
        began = time.perf_counter()
        for number in range(int(VOTES_A_SECOND * SECONDS)):
            await asyncio.sleep(max(0.0, began + number / VOTES_A_SECOND - time.perf_counter()))
            group.create_task(_vote(client, number, times))
    return times


async def _stranger(address: str, number: int, *, eager: bool, answered: list[bytes]) -> None:
    where = urlsplit(address)
    head = f"POST {PATHS[number % len(PATHS)]} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(BODY)}\r\n\r\n"
    while True:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            writer.write(head.encode() + (b"" if eager else BODY))
            if not eager:
                await writer.drain()
            answered.append(await reader.readline())
        except ConnectionError:
            answered.append(b"")
        finally:
            writer.transport.abort()


async def _hold(address: str, number: int) -> None:
    """Send a request but for its last byte, or half of its head, again whenever the service closes the connection."""
    where = urlsplit(address)
    head = f"POST {PATHS[number % len(PATHS)]} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
    while True:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            writer.write(head[:-2] if number % 2 else head + BODY[:-1])
            await writer.drain()
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()
        await asyncio.sleep(1.0)


async def attack(address: str, *, eager: bool) -> None:
    """Be the strangers, until the process is ended."""
    answered: list[bytes] = []
    async with asyncio.TaskGroup() as group:
        for number in range(STRANGERS):
            group.create_task(_stranger(address, number, eager=eager, answered=answered))
        for number in range(HELD):
            group.create_task(_hold(address, number))


@asynccontextmanager
async def under_attack(address: str, *, eager: bool) -> AsyncIterator[None]:
    """Let the strangers run, in a process of their own with a lower priority, as they would be on other machines."""
    command = ["nice", "-n", "10", sys.executable, "-m", "benchmarks.strangers", "--attack", address]
    attackers = await asyncio.create_subprocess_exec(*command, *(["--eager"] if eager else []))
    try:
        await asyncio.sleep(2.0)  # until they have begun
        yield
    finally:
        attackers.kill()
        await attackers.wait()


def resident(process: int) -> float:
    """Memory of the server process, which is the largest child of the supervisor, in MiB."""
    found = [0.0]
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        lines = Path(f"/proc/{child}/status").read_text().splitlines()
        found += [float(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")]
    return max(found)


async def measure(address: str, key: str, process: int, *, eager: bool) -> None:
    """Take turns of calm and attack, and print what the attack changes."""
    await vote_steadily(address, key)  # names, caches
    calm, attacked, memory = [], [], []
    before = resident(process)
    for _ in range(ROUNDS):
        calm.append(await vote_steadily(address, key))
        async with under_attack(address, eager=eager):
            attacked.append(await vote_steadily(address, key))
            memory.append(resident(process))
    ratios = [p99(b) / p99(a) for a, b in zip(calm, attacked, strict=True)]
    print(f"{'':16}{'p50 ms':>10}{'p99 ms':>10}")
    for name, rounds in (("calm", calm), ("under attack", attacked)):
        p50 = statistics.median(statistics.median(times) for times in rounds)
        print(f"{name:16}{1000 * p50:>10.1f}{1000 * statistics.median(map(p99, rounds)):>10.1f}")
    ratio, grown = statistics.median(ratios), max(memory) - before
    each = ", ".join(f"{one:.2f}" for one in ratios)
    print(f"p99 under attack over calm: {ratio:.2f} × (target ≤ {P99:.0f}); rounds {each}")
    print(f"memory of the server: {before:.0f} MiB, under attack {grown:+.0f} MiB (target ≤ {MEMORY:.0f})")


def p99(times: list[float]) -> float:
    """99th percentile."""
    return statistics.quantiles(times, n=100)[-1]


def main() -> None:
    """Start the service and measure, or be the attackers of a measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attack", metavar="ADDRESS", help="be the strangers; the benchmark starts this itself")
    parser.add_argument("--eager", action="store_true", help="strangers leave as soon as they have their answer")
    given = parser.parse_args()
    if given.attack:
        asyncio.run(attack(given.attack, eager=given.eager))
        return
    with tempfile.TemporaryDirectory(prefix="stable-arena-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # under root the database runs as another user
        settings = Settings(data_dir=folder / "data")
        with open_database_of(settings) as database:
            key = _key(database)
            command = [sys.executable, "-m", "app.cli", "serve", "--port", "0", "--no-worker"]
            environment = {**os.environ, "STABLE_ARENA_DATA_DIR": str(settings.data_dir)}
            with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as service:
                address = (service.stdout or sys.stdin).readline().strip()
                try:
                    asyncio.run(measure(address, key, service.pid, eager=given.eager))
                finally:
                    service.terminate()


def _key(database: Database) -> str:
    with database.begin() as conn:
        return create_key(conn, "benchmark", ["ingest"])[1]


if __name__ == "__main__":
    main()
