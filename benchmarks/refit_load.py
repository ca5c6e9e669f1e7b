"""What a refit does to those who vote meanwhile: `python -m benchmarks.refit_load [VOTES] [options of serve]`.

`stable-arena serve` on an embedded database of a million votes; 64 connections post single votes at a fixed rate,
each at its own moment whether or not others were answered, so that a service that stands still is seen to. A vote's
time runs from the moment at which it was due. Idle spells and refits take turns in one run; their ratio is what to
compare. With the environment variable TASTES=100 annotators have opinions of their own, of that many points.
"""

import asyncio
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from sqlalchemy import text

from app.auth.keys import create_key
from app.database.engine import Database
from app.database.opening import open_database
from app.policy.changes import set_policy
from app.policy.service import current_policy
from app.refits.service import find_refit, request_refit
from benchmarks.size import SMALL, sized

VOTES = sized(1_000_000, 5_000)
RATE = int(os.environ.get("RATE", sized("300", "20")))
CONNECTIONS = sized(64, 4)
FIRST_SECONDS, IDLE_SECONDS = sized((5.0, 10.0), (0.5, 0.5))
ROUNDS = sized(9, 1)
ANNOTATORS, MODELS = sized((10_000, 200), (50, 20))
TASTES = float(os.environ.get("TASTES", "0"))  # standard deviation of each annotator's opinion of a model, Elo points

_NAMES = f"""
INSERT INTO models (name) SELECT 'model-' || i FROM generate_series(1, {MODELS}) AS i;
INSERT INTO annotators (key, public_id)
SELECT 'worker-' || i, gen_random_uuid() FROM generate_series(1, {ANNOTATORS}) AS i
"""  # noqa: S608  only this module's own numbers
# Models of unequal strength and annotators who see it, so that there is a common ranking to fit. An annotator's opinion
# of a model is a hash of their numbers, evenly distributed.
_OPINION = f"{TASTES * math.log(10.0) / 400.0 * math.sqrt(12.0)} * (hashint8(worker * 1000 + {{model}}) / 4294967296.0)"
_VOTES = f"""
INSERT INTO votes (id, annotator_id, model_a_id, model_b_id, outcome, battle_id, received_at)
SELECT (lpad(to_hex(1760000000000 + i), 12, '0') || '7' || substr(md5(i::text), 1, 19))::uuid, worker, a, b,
       CASE WHEN random() < 0.25 THEN 2
            WHEN random() < 1 / (1 + exp((b - a) * 0.02 + {_OPINION.format(model="b")} - {_OPINION.format(model="a")}))
            THEN 0 ELSE 1 END,
       'battle ' || i, now() - random() * interval '30 days'
FROM (
    SELECT i, worker, a, 1 + (a + d) % {MODELS} AS b
    FROM (SELECT i, 1 + floor({ANNOTATORS} * random())::int8 AS worker,
                 1 + floor(random() * {MODELS})::int AS a, floor(random() * {MODELS - 1})::int AS d
          FROM generate_series(1, :votes) AS i) AS drawn
) AS pairs
"""  # noqa: S608  only this module's own numbers


Spell = tuple[str, float, float]
"""What the service was at beside taking votes, from when, until when."""


@dataclass
class Voters:
    """Connections that vote at a fixed rate; `answered` holds when each vote was due and the seconds it took."""

    host: str
    port: int
    key: str
    answered: list[tuple[float, float]] = field(default_factory=list)
    failed: int = 0

    async def vote(self, place: int, began: float) -> None:
        """Vote through one connection until told to stop."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        number = 0
        while True:
            due = began + (place + number * CONNECTIONS) / RATE
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            writer.write(self._request(f"{place}-{number}-{began}", number))
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            self.answered.append((due, time.monotonic() - due))
            self.failed += not head.startswith(b"HTTP/1.1 201")
            number += 1

    def _request(self, battle: str, number: int) -> bytes:
        # As the ranking has it: a refit that would exclude these voters waits for an admin and publishes nothing.
        winner = "model_b" if random.random() < 0.73 else "model_a"  # noqa: S311  keeps no secret
        body = (
            f'{{"model_a":"model-{1 + number % 50}","model_b":"model-{51 + number % 50}","winner":"{winner}",'
            f'"annotator":"worker-{1 + number % 500}","battle_id":"{battle}"}}'
        )
        return (
            f"POST /api/v1/votes HTTP/1.1\r\nHost: {self.host}\r\nAuthorization: Bearer {self.key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        ).encode()

    def between(self, start: float, end: float) -> list[float]:
        """Return the milliseconds of the votes that were due in this time."""
        return sorted(1000 * took for due, took in self.answered if start <= due < end)


async def refit(database: Database, spells: list[Spell]) -> tuple[float, str]:
    """Run a refit to its end and note when which of its stages ran.

    Returns
    -------
    The seconds from the first read to the end, without those that it waited for its turn, and what each stage took.
    """
    with database.begin() as conn:
        refit_id = request_refit(conn, trigger="command", requested_by="a benchmark")
    began, state = time.monotonic(), "queued"
    claimed = began
    while True:
        await asyncio.sleep(0.02)
        with database.read() as conn:
            found = find_refit(conn, refit_id)
        if found.state != state:
            now = time.monotonic()
            spells.append((state, began, now))
            claimed = now if state == "queued" else claimed
            began, state = now, found.state
        if found.ended:
            stages = ", ".join(f"{name} {value:.2f}" for name, value in found.seconds.items())
            return began - claimed, f"{found.state} {stages}"


def at(times: list[float], share: float) -> float:
    return times[min(len(times) - 1, int(share * len(times)))] if times else math.nan


async def measure(database: Database, host: str, port: int, key: str) -> None:
    voters = Voters(host, port, key)
    began = time.monotonic()
    voting = [asyncio.create_task(voters.vote(place, began)) for place in range(CONNECTIONS)]
    await asyncio.sleep(FIRST_SECONDS)
    if not SMALL:
        await refit(database, [])  # compiled kernels, caches
    rounds: list[tuple[Spell, Spell]] = []
    stages: list[Spell] = []
    lasted: list[float] = []
    for _ in range(ROUNDS):
        start = time.monotonic()
        await asyncio.sleep(IDLE_SECONDS)
        middle = time.monotonic()
        seconds, described = await refit(database, stages)
        end = time.monotonic()
        lasted.append(seconds)
        rounds.append((("idle", start, middle), ("a refit", middle, end)))
        print(f"refit of {seconds:4.1f} s, after {end - middle - seconds:.1f} s in the queue: {described}", flush=True)
    for task in voting:
        task.cancel()
    await asyncio.gather(*voting, return_exceptions=True)
    spells = [*(spell for pair in rounds for spell in pair), *stages]
    print(f"{'':16}{'votes':>9}" + "".join(f"{name:>9}" for name in ("p50", "p90", "p99", "p99.9", "most ms")))
    for name in dict.fromkeys(name for name, _, _ in spells):
        times = sorted(took for spell in spells if spell[0] == name for took in voters.between(*spell[1:]))
        print(f"{name:16}{len(times):9,}" + "".join(f"{at(times, s):9.1f}" for s in (0.5, 0.9, 0.99, 0.999, 1)))
    print(f"from read to published: {statistics.median(lasted):.1f} s (median), {max(lasted):.1f} s (most)")
    pairs = [tuple(at(voters.between(*spell[1:]), 0.99) for spell in pair) for pair in rounds]
    if voters.failed:
        raise SystemExit(f"{voters.failed} votes failed: the figures say nothing")
    print("p99 idle → refit: " + ", ".join(f"{i:.0f}→{b:.0f}" for i, b in pairs))
    print(
        f"p99 during a refit over idle: {statistics.median(b / i for i, b in pairs):.2f} × (median of {ROUNDS} rounds)"
    )


@contextmanager
def served(data_dir: Path, *options: str) -> Iterator[tuple[str, int]]:
    """Run `stable-arena serve` and yield where it listens."""
    command = [sys.executable, "-m", "app.cli", "serve", "--port", "0", *options]
    environment = {**os.environ, "STABLE_ARENA_DATA_DIR": str(data_dir)}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline() if server.stdout else ""
        host, _, port = line.strip().removeprefix("http://").rpartition(":")
        yield host, int(port)
    finally:
        server.terminate()
        server.wait()


@contextmanager
def stored_votes(votes: int, *scopes: str) -> Iterator[tuple[Path, Database, str]]:
    """Yield the folder of an embedded database with so many votes, the database, and a key with these scopes."""
    folder = Path(tempfile.mkdtemp(prefix="stable-arena-bench-"))
    folder.chmod(0o711)  # root's server runs as another user
    try:
        with open_database(None, folder / "data") as database:
            with database.begin() as conn:
                for statement in _NAMES.split(";"):
                    conn.execute(text(statement))
                conn.execute(text(_VOTES), {"votes": votes})
                key = create_key(conn, "benchmark", scopes)[1]
                policy = current_policy(conn).settings.model_copy(update={"refit_interval_seconds": 1e6})
                set_policy(conn, policy, reason="a benchmark", created_by="a benchmark")
            with psycopg.connect(
                database.url.set(drivername="postgresql").render_as_string(False), autocommit=True
            ) as conn:
                conn.execute("VACUUM ANALYZE")  # or the server does it by itself in the first round
            yield folder / "data", database, key
    finally:
        shutil.rmtree(folder)


def main(votes: int, *options: str) -> None:
    with stored_votes(votes, "ingest") as (folder, database, key), served(folder, *options) as (host, port):
        asyncio.run(measure(database, host, port, key))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else VOTES, *sys.argv[2:])
