"""What readers without a key cost the votes: p50 and p99 of single votes, calm and with 16 readers on each address.

The arena has 500 models and 12 snapshots. The readers ask again as soon as they have their answer; they are a process
of their own with a lower priority and another address, as they would be elsewhere. `?q=new` stands for another search
with every request, so that no answer was made before, and `?new=new` for a parameter that no page knows. The service is
`stable-arena serve` with one server process; everything shares the machine, so only ratios say anything. Calm rounds
and rounds with readers take turns, which begin three seconds after the readers, when those have made the requests that
an address may make at once; of several turns the middle ratio counts. The first line has no readers: it says how far
two calm rounds differ. About ten minutes.

    python -m benchmarks.readers [SECONDS] [--turns 3]

`--unlimited` takes the limit of an address away, so that every request is answered.
"""

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from itertools import count
from pathlib import Path

import httpx

from app.opening import open_database_of
from app.settings import Settings
from benchmarks import strangers
from benchmarks.large_arena import publish_large_arena
from benchmarks.size import sized

READERS = 16
ELSEWHERE = "127.0.0.{}"
"""Every round has an address of its own: the limit of an address would refuse the readers of a later one."""
NEW = "new"
CALM = "(no readers)"
ADDRESSES = (
    CALM,
    "/",
    "/api/v1/leaderboard",
    "/api/v1/leaderboard?format=csv",
    "/api/v1/matchups?format=csv",
    "/compare",
    "/matchups",
    "/history",
    "/models/provider-7/model-7-instruct",
    "/?new=new",
    "/?q=new",
    "/healthz",
    "/readyz",
    "/docs",
    "/api/v1/openapi.json",
    "/nothing",
)
_BURST_SECONDS = sized(3.0, 0.1)
"""After which the requests that an address may make at once are answered."""
P99, MEMORY = 2.0, 100.0


async def read(address: str, path: str, local: str) -> None:
    """Be the readers until the process is asked to end; print that they begin, and last the answers by status."""
    statuses: Counter[int] = Counter()
    numbers = count()

    async def keep_reading() -> None:
        transport = httpx.AsyncHTTPTransport(local_address=local)
        headers = {"Accept-Encoding": "gzip"}
        async with httpx.AsyncClient(base_url=address, transport=transport, timeout=120, headers=headers) as client:
            while True:
                asked = path.replace(f"={NEW}", f"={next(numbers)}")
                async with client.stream("GET", asked) as answer:
                    async for _ in answer.aiter_raw():
                        pass
                statuses[answer.status_code] += 1

    print("begun", flush=True)
    tasks = [asyncio.create_task(keep_reading()) for _ in range(READERS)]
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: [task.cancel() for task in tasks])
    await asyncio.wait(tasks)
    print(dict(sorted(statuses.items())))


@asynccontextmanager
async def with_readers(address: str, path: str, answered: list[str]) -> AsyncIterator[None]:
    """Let the readers run; add what they were answered."""
    local = ELSEWHERE.format(2 + ADDRESSES.index(path))
    command = ["nice", "-n", "10", sys.executable, "-m", "benchmarks.readers", "--read", address, path, local]
    readers = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        if readers.stdout is not None:
            await readers.stdout.readline()  # they have begun
        await asyncio.sleep(_BURST_SECONDS)
        yield
    finally:
        readers.terminate()
        printed, _ = await readers.communicate()
        answered.append(printed.decode().strip())


async def measure(address: str, key: str, server: int, turns: int) -> None:
    """Take turns of calm and readers, and print what the readers change: the turn whose ratio is the middle one."""
    await strangers.vote_steadily(address, key)  # names, caches
    first = most = strangers.resident(server)
    print(
        f"{'':38}{'calm p50':>10}{'p99 ms':>8}{'read p50':>10}{'p99 ms':>8}{'p99 ×':>7}{'range':>11}{'MiB':>6}  answers"
    )
    for path in sized(ADDRESSES, ADDRESSES[:2]):
        rounds = []
        for _ in range(turns):
            calm = await strangers.vote_steadily(address, key)
            answered: list[str] = []
            async with with_readers(address, path, answered) if path != CALM else nullcontext():
                busy = await strangers.vote_steadily(address, key)
                most = max(most, now := strangers.resident(server))
            figures = [1000 * one for t in (calm, busy) for one in (statistics.median(t), strangers.p99(t))]
            rounds.append((figures[3] / figures[1], figures, "".join(answered)))
        rounds.sort()
        ratio, figures, answers = rounds[turns // 2]
        times = "".join(f"{one:>{width}.1f}" for one, width in zip(figures, (10, 8, 10, 8), strict=True))
        spread = f"{rounds[0][0]:.1f}–{rounds[-1][0]:.1f}"
        print(f"{path:38}{times}{ratio:>7.1f}{spread:>11}{now - first:>+6.0f}  {answers}", flush=True)
    print(
        f"memory of the server: {first:.0f} MiB, at most {most - first:+.0f} MiB (target ≤ {MEMORY:.0f}); "
        f"p99: target ≤ {P99:.0f} ×"
    )


def main() -> None:
    """Start the service and measure, or be the readers of a measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float, nargs="?", default=sized(6.0, 0.5), help="how long a round is")
    parser.add_argument(
        "--read", nargs=3, metavar=("ADDRESS", "PATH", "LOCAL"), help="be the readers; the benchmark starts this"
    )
    parser.add_argument("--turns", type=int, default=sized(3, 1), help="of calm and readers, for each address")
    parser.add_argument("--unlimited", action="store_true", help="without the limit of an address")
    given = parser.parse_args()
    if given.read:
        asyncio.run(read(*given.read))
        return
    strangers.SECONDS = given.seconds
    with tempfile.TemporaryDirectory(prefix="stable-arena-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # under root the database runs as another user
        settings = Settings(data_dir=folder / "data")
        environment = {**os.environ, "STABLE_ARENA_DATA_DIR": str(settings.data_dir)}
        if given.unlimited:
            environment["STABLE_ARENA_SERVER__ANONYMOUS_REQUESTS_PER_MINUTE"] = "none"
        serve = ["-m", "app.cli", "serve", "--port", "0", "--no-worker"]
        with open_database_of(settings) as database:
            publish_large_arena(database)
            key = strangers.make_key(database)
            with strangers.started(serve, environment) as (service, address):
                asyncio.run(measure(address, key, strangers.server_of(service), given.turns))


if __name__ == "__main__":
    main()
