"""What an idle service costs, and how soon it begins when there is work: `python -m benchmarks.rest [SECONDS]`.

`stable-arena serve` with its worker on an embedded database, one leaderboard published, no request. Prints the
transactions a second of the whole PostgreSQL, without autovacuum's, and the share of one processor that the service
and PostgreSQL take. Then causes come one at a time, after a rest, and the time from each to the begin of its work is
printed: the median and the longest of ten. The time of a webhook's message ends when it arrives, that of the charts
when they are drawn.
"""

import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import psycopg

from app.auth.keys import create_key
from app.opening import open_database_of
from app.settings import Settings
from benchmarks.size import sized
from benchmarks.strangers import started

SECONDS = sized(60.0, 1.0)
SETTLE_SECONDS = sized(75.0, 0.0)  # autovacuum looks at what was loaded, once a minute
ROUNDS = sized(10, 1)
PAUSE_SECONDS = sized((1.5, 2.5), (0.0, 0.1))
ANNOTATORS, MODELS, VOTES_EACH = 40, 8, 100

_TRANSACTIONS = "SELECT sum(xact_commit + xact_rollback)::bigint FROM pg_stat_database"
_REFIT = "SELECT extract(epoch FROM started_at - requested_at) FROM refits WHERE id = %s"
_IMPORT = "SELECT extract(epoch FROM started_at - created_at) FROM imports WHERE id = %s"
_EXPORT = "SELECT extract(epoch FROM clock_timestamp() - created_at) FROM exports WHERE id = %s AND state <> 'queued'"
_PUBLISHED = "SELECT extract(epoch FROM clock_timestamp() - published_at) FROM snapshots WHERE refit_id = %s"
_FRAGILITY = _PUBLISHED + " AND (SELECT epoch FROM leases WHERE name = 'fragility') > %s"  # noqa: S608  our own words
_CHARTS = _PUBLISHED + " AND EXISTS (SELECT FROM snapshot_charts WHERE snapshot_id = id)"
_QUIET = "SELECT 1 WHERE NOT EXISTS (SELECT FROM leases WHERE expires_at > clock_timestamp())"


class Receiver(BaseHTTPRequestHandler):
    """Takes messages of webhooks, and notes when the last one came."""

    arrived = threading.Event()

    def do_POST(self) -> None:
        """Take a message."""
        self.arrived.set()
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextmanager
def receiver() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def processor_seconds(roots: list[int]) -> dict[tuple[int, str], float]:
    """Return the seconds that these processes and all below them have used, with what their ended children used."""
    used = {}
    for root in map(psutil.Process, roots):
        for process in (root, *root.children(recursive=True)):
            times = process.cpu_times()
            name = " ".join(process.cmdline())[:60] or process.name()
            used[process.pid, name] = sum(times[:4])
    return used


def rest(conn: psycopg.Connection, roots: list[int], seconds: float) -> None:
    """Leave the service alone, and print what it takes."""
    _, before, used_before = one(conn, _TRANSACTIONS), time.monotonic(), processor_seconds(roots)
    transactions = one(conn, _TRANSACTIONS)
    time.sleep(seconds)
    made = one(conn, _TRANSACTIONS) - transactions - 1  # the look itself
    took, used = time.monotonic() - before, processor_seconds(roots)
    each = {process: used[process] - used_before.get(process, 0.0) for process in used}
    print(f"{made / took:.2f} transactions a second, {sum(each.values()) / took:.2%} of one processor")
    for (_, name), spent in sorted(each.items(), key=lambda item: -item[1]):
        if spent:
            print(f"  {spent / took:.2%}  {name}")


def one(conn: psycopg.Connection, query: str, *values: object) -> Any:
    row = conn.execute(query, values).fetchone()
    return row and row[0]


def wait_for(conn: psycopg.Connection, query: str, *values: object) -> float:
    """Return the first value that is not null."""
    while (found := one(conn, query, *values)) is None:
        time.sleep(0.002)
    return float(found)


def vote_file(number: int, annotators: int, votes: int) -> bytes:
    drawn = random.Random(number)  # noqa: S311  keeps no secret
    lines = ["annotator,model_a,model_b,winner,battle_id"]
    for annotator in range(annotators):
        for vote in range(votes):
            a, b = drawn.sample(range(MODELS), 2)
            winner = "model_a" if drawn.random() < 1 / (1 + 2.0 ** (b - a)) else "model_b"
            lines.append(f"annotator-{annotator},model-{a},model-{b},{winner},{number}-{annotator}-{vote}")
    return "\n".join(lines).encode()


def measure(client: httpx.Client, conn: psycopg.Connection) -> None:
    """Print how long each kind of work takes to begin."""
    numbers = count(1)
    with receiver() as address:
        webhook = post(client, "/webhooks", json={"url": address, "events": ["refit.failed"]})["id"]

        def send() -> float:
            Receiver.arrived.clear()
            began = time.perf_counter()
            post(client, f"/webhooks/{webhook}/test")
            Receiver.arrived.wait()
            return time.perf_counter() - began

        def load() -> float:
            body, kind = vote_file(next(numbers), 1, 1), {"Content-Type": "text/csv"}
            return wait_for(conn, _IMPORT, post(client, "/imports", content=body, headers=kind)["id"])

        def fit() -> str:
            identity: str = post(client, "/refits", json={})["id"]
            return identity

        def measure_fragility() -> float:
            epoch = one(conn, "SELECT epoch FROM leases WHERE name = 'fragility'") or 0
            return wait_for(conn, _FRAGILITY, fit(), epoch)

        kinds: dict[str, Callable[[], float]] = {
            "a refit": lambda: wait_for(conn, _REFIT, fit()),
            "fragility": measure_fragility,
            "charts": lambda: wait_for(conn, _CHARTS, fit()),
            "an import": load,
            "an export": lambda: wait_for(conn, _EXPORT, post(client, "/exports", json={"what": "votes"})["id"]),
            "a webhook's message": send,
        }
        for name, cause in kinds.items():
            times = []
            for _ in range(ROUNDS):
                time.sleep(random.uniform(*PAUSE_SECONDS))  # noqa: S311  keeps no secret
                wait_for(conn, _QUIET)
                times.append(1000 * cause())
            print(f"{name:<20} {statistics.median(times):6.0f} ms, at most {max(times):.0f} ms", flush=True)


def post(client: httpx.Client, path: str, **options: Any) -> Any:
    return client.post(path, **options).raise_for_status().json()


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    with tempfile.TemporaryDirectory(prefix="stable-arena-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # under root the database runs as another user
        settings = Settings(data_dir=folder / "data")
        environment = {
            **os.environ,
            "STABLE_ARENA_DATA_DIR": str(settings.data_dir),
            "STABLE_ARENA_WEBHOOKS__ALLOW_PRIVATE_ADDRESSES": "true",
        }
        with open_database_of(settings) as database:
            with database.begin() as conn:
                key = create_key(conn, "benchmark", ["admin"])[1]
            url = database.url.set(drivername="postgresql").render_as_string(hide_password=False)
            headers = {"Authorization": f"Bearer {key}"}
            with (
                psycopg.connect(url, autocommit=True) as own,
                started(["-m", "app.cli", "serve", "--port", "0"], environment) as (service, address),
                httpx.Client(base_url=f"{address}/api/v1", headers=headers, timeout=60) as client,
            ):
                database.close()
                votes = vote_file(0, ANNOTATORS, VOTES_EACH)
                post(client, "/imports", content=votes, headers={"Content-Type": "text/csv"})
                wait_for(own, "SELECT 1 FROM snapshot_fragility, snapshot_charts LIMIT 1")
                time.sleep(SETTLE_SECONDS)
                with psycopg.connect(url, user="postgres", autocommit=True) as superuser:
                    superuser.execute("ALTER SYSTEM SET autovacuum = off")  # it makes a transaction a second itself
                    superuser.execute("SELECT pg_reload_conf()")
                postmaster = psutil.Process(own.info.backend_pid).parent()
                rest(own, [service, postmaster.pid], seconds)
                measure(client, own)


if __name__ == "__main__":
    main()
