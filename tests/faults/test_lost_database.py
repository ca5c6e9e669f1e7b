"""The database restarted, its backends cut, its connections gone, its transactions in each other's way: under traffic.

Every vote that was answered 2xx is on record once; reads are served or refused with 503 and Retry-After; and once the
database is back, so is everything else.
"""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from httpx import Client, Response
from pydantic import SecretStr
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from app.arena.keys import create_key
from app.main import create_app
from app.settings import DatabaseSettings, Settings, WorkerSettings
from app.store import database as store_database
from app.store.database import Database
from app.store.embedded.folder import ServerFolder
from app.store.embedded.identity import find_postmaster
from app.store.embedded.server import EmbeddedServer
from app.store.schema import upgrade

RECOVERY_SECONDS = 30
READS = ("/leaderboard", "/models", "/snapshots", "/refits", "/annotators", "/policy", "/models/model 1")
SENDERS = 3
OTHERS_CUT = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()"
    " AND backend_type = 'client backend' AND application_name = 'stable-arena'"
)


@dataclass
class Service:
    """A service with its worker on a cluster of its own, and what it has answered so far."""

    url: str
    key: str
    database_url: str
    server: EmbeddedServer
    folder: ServerFolder
    acknowledged: dict[str, str] = field(default_factory=dict)
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def client(self) -> Client:
        return Client(base_url=f"{self.url}/api/v1", headers={"Authorization": f"Bearer {self.key}"}, timeout=60)

    def send(self, client: Client, method: str, path: str, **rest: Any) -> Response:
        """Send a request and note what must not come back."""
        response = client.request(method, path, **rest)
        self.statuses[method, response.status_code] += 1
        refused = response.status_code == 503 and "retry-after" in response.headers
        if not (response.is_success or refused or response.status_code == 409):
            self.wrong.append(f"{method} {path}: {response.status_code} {response.text}")
        return response

    def vote(self, client: Client, name: str) -> bool:
        """Send one vote under its own key; whether it was acknowledged."""
        body = {"model_a": "model 0", "model_b": "model 1", "winner": "tie", "annotator": "judge", "tags": [name]}
        # 409: an attempt whose connection broke still holds the key.
        response = self.send(client, "POST", "/votes", json=body, headers={"Idempotency-Key": name})
        if response.status_code == 201:
            self.acknowledged[name] = response.json()["id"]
        return response.status_code == 201

    def admin(self) -> "psycopg.Connection[Any]":
        """A connection of an operator's own."""
        return psycopg.connect(self.database_url.replace("+psycopg", ""), autocommit=True)

    def recorded(self) -> list[tuple[str, str]]:
        with self.admin() as conn:
            rows = conn.execute("SELECT tags[1], id FROM votes WHERE tags <> '{}'").fetchall()
        return sorted((tag, str(id_)) for tag, id_ in rows)


@pytest.fixture(scope="module")
def service(cluster_folder: Path, serving: Callable[..., Any], crowd_votes: list[dict[str, str]]) -> Iterator[Service]:
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(store_database, "_LOCK_SECONDS", 1)
        server = EmbeddedServer(cluster_folder / "data")
        url = server.start()
        stack.callback(server.release)
        upgrade(url)
        with Database(url) as database, database.begin() as conn:
            key = create_key(conn, "tests", ["admin", "ingest", "read", "review"])[1]
        settings = Settings(
            database_url=SecretStr(url),
            data_dir=cluster_folder,
            database=DatabaseSettings(pool_size=4, connect_timeout_seconds=1),
            worker=WorkerSettings(tick_seconds=0.1, lease_seconds=2),
        )
        address = stack.enter_context(serving(create_app(settings)))
        service = Service(address, key, url, server, ServerFolder((cluster_folder / "data").absolute()))
        with service.client() as client:
            assert client.post("/votes/batch", json={"votes": crowd_votes}).json()["counts"]["created"] > 0
            finish_refit(service, client)
        yield service


@contextmanager
def traffic(service: Service) -> Iterator[None]:
    """Vote, read and ask for refits until the block ends; then every vote is sent again until it is acknowledged."""
    ended = threading.Event()
    first = len(service.acknowledged)

    def vote(sender: int) -> None:
        number = 0
        with service.client() as client:
            while not ended.is_set():
                name = f"{first}-{sender}-{number}"
                while not service.vote(client, name):
                    time.sleep(0.02)
                number += 1

    def read() -> None:
        with service.client() as client:
            while not ended.is_set():
                for path in READS:
                    service.send(client, "GET", path)
                service.send(client, "POST", "/refits", json={})

    with ThreadPoolExecutor(SENDERS + 1) as pool:
        running = [*(pool.submit(vote, sender) for sender in range(SENDERS)), pool.submit(read)]
        try:
            yield
        finally:
            ended.set()
        for each in running:
            each.result()


def wait_for(condition: Callable[[], object], seconds: float = 120) -> float:
    """Wait until it holds and return how long that took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, "the condition did not come true"
        time.sleep(0.01)
    return time.monotonic() - began


def wait_for_votes(service: Service, more: int) -> None:
    target = len(service.acknowledged) + more
    wait_for(lambda: len(service.acknowledged) >= target)


def wait_for_refusal(service: Service, method: str) -> None:
    target = service.statuses[method, 503] + 1
    wait_for(lambda: service.statuses[method, 503] >= target)


def finish_refit(service: Service, client: Client) -> None:
    """Ask for a refit until one is done; one that met a fault fails, and says so."""

    def done() -> bool:
        asked = service.send(client, "POST", "/refits", json={}).json()["id"]
        wait_for(lambda: service.send(client, "GET", f"/refits/{asked}").json()["finished_at"] is not None)
        return bool(service.send(client, "GET", f"/refits/{asked}").json()["state"] == "done")

    wait_for(done)


def check(service: Service, what: str) -> None:
    """Check that everything works again, and that nothing was lost, doubled or answered wrongly."""
    with service.client() as client:
        name = f"after-{len(service.acknowledged)}"
        seconds = wait_for(lambda: service.vote(client, name), RECOVERY_SECONDS)
        seconds += wait_for(
            lambda: all(service.send(client, "GET", path).is_success for path in READS), RECOVERY_SECONDS
        )
        assert seconds <= RECOVERY_SECONDS
        finish_refit(service, client)
    assert service.wrong == []
    assert service.recorded() == sorted(service.acknowledged.items())
    print(f"{what}: back after {seconds:.2f} s; {dict(service.statuses)}")


def test_backends_are_terminated_again_and_again(service: Service) -> None:
    with traffic(service), service.admin() as operator:
        for _ in range(4):
            wait_for_votes(service, 5)
            assert operator.execute(OTHERS_CUT).fetchone() != (0,)
        wait_for_votes(service, 5)
    check(service, "terminated")


@pytest.mark.parametrize("request_to_stop", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
def test_the_server_is_restarted(service: Service, request_to_stop: signal.Signals) -> None:
    # What `pg_ctl restart` does, apart from where the server's own lock on its folder goes.
    with traffic(service):
        wait_for_votes(service, 5)
        postmaster = find_postmaster(service.folder.cluster)
        assert postmaster is not None
        os.kill(postmaster.pid, request_to_stop)
        wait_for(lambda: not postmaster.is_running())
        wait_for_refusal(service, "GET")
        service.server.start()
        wait_for_votes(service, 5)
    check(service, request_to_stop.name)


def test_no_connection_is_left(service: Service) -> None:
    with traffic(service), ExitStack() as crowd:
        wait_for_votes(service, 5)
        operator = crowd.enter_context(service.admin())

        def taken() -> bool:
            operator.execute(OTHERS_CUT)  # the service's own are what is left
            try:
                crowd.enter_context(service.admin())
            except psycopg.OperationalError:
                return True
            return False

        wait_for(taken)
        operator.execute(OTHERS_CUT)
        wait_for_refusal(service, "GET")
        crowd.close()
        wait_for_votes(service, 5)
    check(service, "no connection")


def test_somebody_s_transaction_idles_on_a_lock(service: Service) -> None:
    with traffic(service), service.admin() as operator:
        wait_for_votes(service, 5)
        with operator.transaction():
            operator.execute("LOCK TABLE votes IN SHARE ROW EXCLUSIVE MODE")
            wait_for_refusal(service, "POST")
            read = service.statuses["GET", 200]
            wait_for(lambda: service.statuses["GET", 200] >= read + 2 * len(READS))
        wait_for_votes(service, 5)
    check(service, "idle in transaction")


def test_transactions_that_have_to_give_in(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    execute, count = PGDialect_psycopg.do_execute, iter(range(10**9))
    errors = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)

    def give_in_sometimes(self: Any, cursor: Any, *rest: Any) -> Any:
        turn = next(count)
        if turn % 11 == 0:
            raise errors[turn % 2]("injected")
        return execute(self, cursor, *rest)

    with traffic(service):
        with monkeypatch.context() as patch:
            patch.setattr(PGDialect_psycopg, "do_execute", give_in_sometimes)
            wait_for_votes(service, 20)
        assert next(count) > 100
    check(service, "contended")
