"""A deployment under load while every part is restarted: no vote is lost, and memory does not grow.

`make soak ARGS="--minutes 60 -k deployment -s"`. The first 60 % of the time parts are restarted, one after the other.
In the rest none is, and the memory of each API server at the end is held against its memory at the beginning.
"""

import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from app.auth.keys import create_key
from app.database.embedded.account import choose_account
from app.database.engine import Database
from app.database.schema import upgrade
from app.policy.changes import set_policy
from app.policy.schemas import Policy
from tests.deployment.load import Load
from tests.deployment.parts import Command, Part, Pooler, Postgres
from tests.fixtures.waiting import free_port

SENDERS = 4
MOST_DRIFT = 0.05


@dataclass
class Deployment:
    """The parts, in the order of their start, and what is sent to them."""

    postgres: Postgres
    pooler: Pooler
    apis: list[Command]
    workers: list[Command]
    load: Load

    @property
    def parts(self) -> list[Part]:
        return [*self.apis, *self.workers, self.pooler, self.postgres]


@pytest.fixture
def deployment(cluster_folder: Path) -> Iterator[Deployment]:
    """PostgreSQL, pgbouncer in transaction mode, three API servers and two workers."""
    postgres = Postgres(cluster_folder / "data")
    postgres.start()
    upgrade(postgres.url)
    with Database(postgres.url) as database, database.begin() as conn:
        key = create_key(conn, "soak", ["admin", "ingest", "read"])[1]
        set_policy(conn, Policy(refit_interval_seconds=10), reason="many refits", created_by="soak")
    (cluster_folder / "pooler").mkdir()
    pooler = Pooler(cluster_folder / "pooler", postgres.url, choose_account(cluster_folder / "pooler"))
    ports = [free_port() for _ in range(3)]
    apis = [
        Command(f"api-{port}", cluster_folder, pooler.url, "serve", "--no-worker", port=port, pooled=True)
        for port in ports
    ]
    workers = [Command(f"worker-{number}", cluster_folder, pooler.url, "worker", pooled=True) for number in range(2)]
    with ExitStack() as stops:  # each part is stopped, also where another one did not stop in order
        stops.callback(postgres.release)
        for part in (pooler, *apis, *workers):
            part.start()
            stops.callback(part.stop)
        yield Deployment(postgres, pooler, apis, workers, Load(apis, key))


@pytest.mark.soak
def test_a_deployment_under_load_and_restarts(deployment: Deployment, request: pytest.FixtureRequest) -> None:
    seconds = 60 * float(request.config.getoption("--minutes"))
    began = time.monotonic()
    memory: dict[str, list[tuple[float, int]]] = {api.name: [] for api in deployment.apis}
    restarts: Counter[str] = Counter()
    load = deployment.load
    with load.running(SENDERS):
        for part in itertools.cycle(deployment.parts):
            if time.monotonic() - began > 0.6 * seconds:
                break
            load.ended.wait(max(2.0, seconds / 300))  # under load between two restarts
            part.restart()
            restarts[part.name] += 1
        while time.monotonic() - began < seconds:
            for api in deployment.apis:
                memory[api.name].append((time.monotonic(), api.memory()))
            load.ended.wait(2.0)
    drifts = {name: drift_of([size for _, size in samples]) for name, samples in memory.items()}
    megabytes = {name: round(samples[-1][1] / 1e6) for name, samples in memory.items()}
    print(f"\n{seconds / 60:g} minutes; {len(load.acknowledged):,} votes acknowledged; restarts {dict(restarts)}")
    print(f"answers {dict(load.statuses)}; memory {megabytes} MB; drift {drifts}")
    assert set(restarts) == {part.name for part in deployment.parts}
    ended = [words for part in (*deployment.apis, *deployment.workers) for words in part.ended_by_itself]
    print(f"ended by themselves, and started again: {ended}")
    assert [words for words in ended if "server" not in words] == [], "for another reason than the database"
    load.check(deployment.postgres.url)
    assert max(drifts.values()) <= MOST_DRIFT
    assert_well(deployment)


def drift_of(sizes: list[int]) -> float:
    """How much larger the last fifth is than the second, by their medians: the first one fills caches."""
    fifth = max(1, len(sizes) // 5)
    return round(statistics.median(sizes[-fifth:]) / statistics.median(sizes[fifth : 2 * fifth]) - 1, 4)


def assert_well(deployment: Deployment) -> None:
    """Check that the service says of itself that it is well, and that refits went on."""
    environment = {
        **os.environ,
        "STABLE_ARENA_DATABASE_URL": deployment.pooler.url,
        "STABLE_ARENA_DATABASE__TRANSACTION_POOLER": "true",
    }
    command = [sys.executable, "-m", "app.cli", "doctor", "--format", "json"]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wrong = [check for check in json.loads(told.stdout)["checks"] if check["tone"] == "bad"]
    # A refit that was running when its worker or its database was restarted has failed, and the next one has not.
    assert [check for check in wrong if check["name"] != "Last refit"] == []
    with psycopg.connect(deployment.postgres.url.replace("+psycopg", "")) as conn:
        snapshots = conn.execute("SELECT count(*) FROM snapshots").fetchone()
    assert snapshots is not None
    print(f"{snapshots[0]} snapshots")
    assert snapshots[0] > 3
