"""What strangers cost the votes: p99 of single votes and memory, calm and under attack, in the same run.

With `--strangers bodies`, the default, eight strangers without a key post 16 MiB of `[],[],…` again and again, and 200
more hold requests that they do not finish. Those of `eager` do not wait to be cut off: they send no body, and leave as
soon as they have their answer. Those of `heads` send 15,000 headers, 200,000 headers, and targets, lines and requests
without end. Those of `readers` ask for the API's description on 200 connections and do not read it. The service is
`stable-arena serve` with one server process, on an embedded PostgreSQL. Load generator, attackers, service and database
share the machine: only ratios say anything, on a machine that does nothing else.

Three kinds of rounds take turns: calm, an attack beside the service, and an attack on it. Beside it the same strangers
attack a process of a few lines that refuses at once: that is what votes lose because strangers use the same processors.
A 99th percentile is that of the votes of all rounds of a kind, and memory the peak of the process that serves. It takes
about three minutes.
"""

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from app.auth.keys import create_key
from app.database.engine import Database
from app.opening import open_database_of
from app.settings import Settings
from benchmarks.size import sized

ROUNDS, SECONDS = sized(5, 1), float(os.environ.get("SECONDS", sized("10", "0.5")))
SENDERS, HELD = 8, 200
BODY = b"[" + b"[]," * ((16 * 1024 * 1024 - 4) // 3) + b"[]]"
PATHS = ("/api/v1/refits", "/api/v1/votes", "/api/v1/votes/batch", "/api/v1/policy/preview")
LINE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
DESCRIPTION = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\n"
PIECE = 65536
HEAD_SECONDS = 10.0  # as the service's own, by default
REFUSAL = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
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


async def _send(writer: asyncio.StreamWriter, head: bytes, body: bytes) -> None:
    """Send in pieces: copies of the whole body would cost the machine more than the service's answer does."""
    writer.write(head)
    for start in range(0, len(body), PIECE):
        writer.write(body[start : start + PIECE])
        await writer.drain()


def _head(number: int) -> bytes:
    head = f"POST {PATHS[number % len(PATHS)]} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode()


async def _send_again_and_again(address: str, first: bytes, rest: bytes, answered: list[bytes]) -> None:
    """Send a request, wait for the beginning of its answer, leave, and send it anew."""
    where = urlsplit(address)
    while True:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            await _send(writer, first, rest)
            answered.append(await reader.readline())
        except ConnectionError:
            answered.append(b"")
        finally:
            writer.transport.abort()


async def _hold(address: str, first: bytes, rest: bytes, answered: list[bytes], *, reads: bool = True) -> None:
    """Send a part of a request, or read no answer, again whenever the service closes the connection."""
    where = urlsplit(address)
    while True:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            await _send(writer, first, rest)
            if not reads:
                writer.transport.pause_reading()  # type: ignore[attr-defined]  # that of a socket can
                await asyncio.sleep(SECONDS)
            answered.append(await reader.read() if reads else b"")
        except ConnectionError:
            answered.append(b"")
        finally:
            writer.transport.abort()
        await asyncio.sleep(1.0)


def _bodies(address: str, answered: list[bytes], body: bytes = BODY) -> Iterator[Coroutine[Any, Any, None]]:
    for number in range(SENDERS):
        yield _send_again_and_again(address, _head(number), body, answered)
    for number in range(HELD):
        half = number % 2 == 1
        yield _hold(address, _head(number)[: -2 if half else None], b"" if half else BODY[:-1], answered)


def _heads(address: str, answered: list[bytes]) -> Iterator[Coroutine[Any, Any, None]]:
    for number in (15_000, 15_000, 200_000, 200_000, 200_000, 200_000):
        yield _send_again_and_again(address, LINE, b"X: a\r\n" * number + b"\r\n", answered)
    for first, piece in ((b"GET /", b"a"), (LINE, b"a"), (LINE + b"X: ", b"a"), (LINE, b"X: a\r\n")):
        yield _send_again_and_again(address, first, piece * (len(BODY) // len(piece)), answered)
    yield _send_again_and_again(address, b"", (LINE + b"\r\n") * 100_000, answered)


def _readers(address: str, answered: list[bytes]) -> Iterator[Coroutine[Any, Any, None]]:
    for _ in range(HELD):
        yield _hold(address, b"", (DESCRIPTION + b"\r\n") * 30, answered, reads=False)


STRANGERS: dict[str, Callable[[str, list[bytes]], Iterator[Coroutine[Any, Any, None]]]] = {
    "bodies": _bodies,
    "eager": partial(_bodies, body=b""),
    "heads": _heads,
    "readers": _readers,
}


async def attack(address: str, strangers: str) -> None:
    """Be the strangers until the process is asked to end; print "begun", then how many were answered or cut off."""
    answered: list[bytes] = []
    tasks = [asyncio.create_task(each) for each in STRANGERS[strangers](address, answered)]
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: [task.cancel() for task in tasks])
    print("begun", flush=True)
    await asyncio.wait(tasks)
    print(len(answered))


async def refuse() -> None:
    """Be the few lines that the control attacks: read a head, refuse, close. Print the address first."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_SECONDS)
            writer.write(REFUSAL)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


@asynccontextmanager
async def under_attack(address: str, refused: list[float], strangers: str) -> AsyncIterator[None]:
    """Let the strangers run, in a process of their own with a lower priority, as they would be on other machines.

    Add to `refused` how many of their requests a second were answered or cut off.
    """
    command = ["nice", "-n", "10", sys.executable, "-m", "benchmarks.strangers", "--attack", address]
    pipe = asyncio.subprocess.PIPE
    attackers = await asyncio.create_subprocess_exec(*command, "--strangers", strangers, stdout=pipe)
    began = time.perf_counter()
    try:
        if attackers.stdout is not None:
            await attackers.stdout.readline()  # they have begun
        await asyncio.sleep(sized(2.0, 0.1))
        yield
    finally:
        attackers.terminate()
        printed, _ = await attackers.communicate()
        refused.append(int(printed) / (time.perf_counter() - began))


def server_of(service: int) -> int:
    """Return the server process, which is the largest child of the supervisor."""
    children = Path(f"/proc/{service}/task/{service}/children").read_text().split()
    return max(map(int, children), key=resident)


def resident(process: int, field: str = "VmRSS") -> float:
    """Memory of a process in MiB: now, or at most with the field `VmHWM`."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((float(line.split()[1]) / 1024 for line in lines if line.startswith(field)), 0.0)


def begin_peak(process: int) -> None:
    """Let the most memory that a process had begin anew, with what it has now (proc(5))."""
    Path(f"/proc/{process}/clear_refs").write_text("5")


def processor_seconds(process: int) -> float:
    """Processor time that a process has had."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


@dataclass
class Rounds:
    """What the rounds of one kind showed."""

    times: list[list[float]] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    """Share of a processor that the server had."""
    refused: list[float] = field(default_factory=list)
    """Requests of strangers a second that were refused."""

    async def add(self, address: str, key: str, server: int) -> None:
        """Post votes for a round."""
        began, used = time.perf_counter(), processor_seconds(server)
        self.times.append(await vote_steadily(address, key))
        self.busy.append((processor_seconds(server) - used) / (time.perf_counter() - began))

    @property
    def p99(self) -> float:
        """99th percentile over all rounds."""
        return p99([one for times in self.times for one in times])

    def row(self, name: str) -> str:
        """Return a line of the table."""
        p50 = statistics.median(one for times in self.times for one in times)
        refused = f"{statistics.median(self.refused):.0f}" if self.refused else ""
        return f"{name:24}{1000 * p50:>8.1f}{1000 * self.p99:>8.1f}{statistics.median(self.busy):>11.2f}{refused:>12}"


async def measure(address: str, control: str, key: str, server: int, strangers: str) -> None:
    """Take turns of calm and attacks, and print what the attacks change."""
    await vote_steadily(address, key)  # names, caches
    calm, beside, attacked, memory = Rounds(), Rounds(), Rounds(), resident(server)
    begin_peak(server)
    for _ in range(ROUNDS):
        await calm.add(address, key, server)
        async with under_attack(control, beside.refused, strangers):
            await beside.add(address, key, server)
        async with under_attack(address, attacked.refused, strangers):
            await attacked.add(address, key, server)
    print(f"{'':24}{'p50 ms':>8}{'p99 ms':>8}{'processor':>11}{'refused/s':>12}")
    named = {"calm": calm, "attack beside it": beside, "attack on it": attacked}
    for name, rounds in named.items():
        print(rounds.row(name))
    for name, target in (("attack beside it", "the control"), ("attack on it", f"target ≤ {P99:.0f}")):
        rounds = named[name]
        each = ", ".join(f"{p99(b) / p99(a):.2f}" for a, b in zip(calm.times, rounds.times, strict=True))
        print(f"p99, {name} over calm: {rounds.p99 / calm.p99:.2f} × ({target}); rounds {each}")
    grown = resident(server, "VmHWM") - memory
    print(f"memory of the server: {memory:.0f} MiB, at most {grown:+.0f} MiB (target ≤ {MEMORY:.0f})")


def p99(times: list[float]) -> float:
    """99th percentile."""
    return statistics.quantiles(times, n=100)[-1]


def main() -> None:
    """Start the service and measure, or be the attackers of a measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attack", metavar="ADDRESS", help="be the strangers; the benchmark starts this itself")
    parser.add_argument("--refuse", action="store_true", help="be the control; the benchmark starts this itself")
    parser.add_argument("--strangers", choices=STRANGERS, default="bodies", help="what they send")
    given = parser.parse_args()
    if given.attack or given.refuse:
        asyncio.run(attack(given.attack, given.strangers) if given.attack else refuse())
        return
    with tempfile.TemporaryDirectory(prefix="stable-arena-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # under root the database runs as another user
        settings = Settings(data_dir=folder / "data")
        environment = {**os.environ, "STABLE_ARENA_DATA_DIR": str(settings.data_dir)}
        if given.strangers == "readers":  # else most answers are short refusals
            environment["STABLE_ARENA_SERVER__ANONYMOUS_REQUESTS_PER_MINUTE"] = "none"
        serve = ["-m", "app.cli", "serve", "--port", "0", "--no-worker"]
        with (
            open_database_of(settings) as database,
            started(serve, environment) as (service, address),
            started(["-m", "benchmarks.strangers", "--refuse"], environment) as (_, control),
        ):
            key = make_key(database)
            asyncio.run(measure(address, control, key, server_of(service), given.strangers))


@contextmanager
def started(arguments: list[str], environment: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Run Python with these arguments; yield the process and the address that it prints first."""
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.pid, (process.stdout or sys.stdin).readline().strip()
        finally:
            process.terminate()


def make_key(database: Database) -> str:
    with database.begin() as conn:
        return create_key(conn, "benchmark", ["ingest"])[1]


if __name__ == "__main__":
    main()
