"""Faults on purpose: processes stopped and killed, a database that goes away. All against the real thing."""

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from httpx import Client, Response

from app.auth.keys import create_key
from app.database.engine import Database
from app.main import create_app
from app.naming.known_names import Known
from app.refits.service import request_refit
from app.settings import Settings
from app.votes.schemas import Vote
from app.votes.service import record_votes
from tests.fixtures.crowds import SENDER
from tests.fixtures.crowds import crowd_votes as crowd_of
from tests.fixtures.waiting import wait_until

HERE = Path(__file__).parent
READS = ("/leaderboard", "/models", "/snapshots", "/refits", "/annotators", "/policy", "/models/model 1")
SENDERS = 3
RECOVERY_SECONDS = 30

StartDriver = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start_driver() -> Iterator[StartDriver]:
    """Start one of the scripts here; killed after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(script: str, *arguments: object) -> "subprocess.Popen[str]":
        command = [sys.executable, str(HERE / script), *(str(argument) for argument in arguments)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def crowd_votes() -> list[dict[str, str]]:
    """12 honest annotators and 2 who vote against the truth, 60 votes each on 6 models."""
    return list(crowd_of(votes_each=60, honest=12, flip=2))


@pytest.fixture
def crowd(database: Database, crowd_votes: list[dict[str, str]]) -> None:
    """Their votes, on record."""
    with database.begin() as conn:
        receipts = record_votes(conn, [(Vote.model_validate(vote), SENDER) for vote in crowd_votes], Known())
    assert {receipt.status for receipt in receipts} == {"created"}


@pytest.fixture
def ask_for_refit(database: Database) -> Callable[[], object]:
    """Ask for a refit; one that waits already serves."""

    def ask() -> object:
        with database.begin() as conn:
            return request_refit(conn, trigger="request", requested_by="a test")

    return ask


@dataclass
class Service:
    """A service with its worker, what it has answered so far, and who keeps asking it."""

    url: str
    key: str
    database_url: str
    acknowledged: dict[str, str] = field(default_factory=dict)
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def client(self) -> Client:
        return Client(base_url=f"{self.url}/api/v1", headers={"Authorization": f"Bearer {self.key}"}, timeout=120)

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

    def admin(self, **options: Any) -> "psycopg.Connection[Any]":
        """A connection of an operator's own."""
        return psycopg.connect(self.database_url.replace("+psycopg", ""), autocommit=True, **options)

    def recorded(self) -> list[tuple[str, str]]:
        with self.admin() as conn:
            rows = conn.execute("SELECT tags[1], id FROM votes WHERE tags <> '{}'").fetchall()
        return sorted((tag, str(id_)) for tag, id_ in rows)

    @contextmanager
    def traffic(self) -> Iterator[None]:
        """Vote, read and ask for refits until the block ends; then send every vote again until it is acknowledged.

        Where the block fails the fault may still be there: then the senders give up.
        """
        ended, failed = threading.Event(), threading.Event()
        first = len(self.acknowledged)

        def vote(sender: int) -> None:
            number = 0
            with self.client() as client:
                while not ended.is_set():
                    name = f"{first}-{sender}-{number}"
                    while not self.vote(client, name) and not failed.is_set():
                        time.sleep(0.02)  # as a caller waits who was told to come again, only shorter
                    number += 1

        def read() -> None:
            with self.client() as client:
                while not ended.is_set():
                    for path in READS:
                        self.send(client, "GET", path)
                    self.send(client, "POST", "/refits", json={})

        with ThreadPoolExecutor(SENDERS + 1) as pool:
            running = [*(pool.submit(vote, sender) for sender in range(SENDERS)), pool.submit(read)]
            try:
                yield
            except BaseException:
                failed.set()
                raise
            finally:
                ended.set()
            for each in running:
                each.result()

    def wait_for_votes(self, more: int, seconds: float = 120) -> float:
        target = len(self.acknowledged) + more
        return wait_until(lambda: len(self.acknowledged) >= target, seconds)

    def wait_for_answer(self, method: str, status: int, more: int = 1) -> None:
        target = self.statuses[method, status] + more
        wait_until(lambda: self.statuses[method, status] >= target)

    def finish_refit(self, client: Client) -> None:
        """Ask for a refit until one is done; one that met a fault fails, and says so."""

        def done() -> bool:
            asked = self.send(client, "POST", "/refits", json={}).json()["id"]
            wait_until(lambda: self.send(client, "GET", f"/refits/{asked}").json()["finished_at"] is not None)
            return bool(self.send(client, "GET", f"/refits/{asked}").json()["state"] == "done")

        wait_until(done)

    def check(self, what: str) -> None:
        """Check that everything works again, and that nothing was lost, doubled or answered wrongly."""
        with self.client() as client:
            name = f"after-{len(self.acknowledged)}"
            seconds = wait_until(lambda: self.vote(client, name), RECOVERY_SECONDS)
            seconds += wait_until(
                lambda: all(self.send(client, "GET", path).is_success for path in READS), RECOVERY_SECONDS
            )
            assert seconds <= RECOVERY_SECONDS
            self.finish_refit(client)
        assert self.wrong == []
        assert self.recorded() == sorted(self.acknowledged.items())
        print(f"{what}: back after {seconds:.2f} s; {dict(self.statuses)}")


@pytest.fixture(scope="session")
def start_service(
    serving: Callable[..., Any], crowd_votes: list[dict[str, str]]
) -> Callable[[str, Settings], AbstractContextManager[Service]]:
    """Start a service on a migrated database, with the crowd's votes and a board of them: a context manager."""

    @contextmanager
    def start(database_url: str, settings: Settings) -> Iterator[Service]:
        with Database(database_url) as database, database.begin() as conn:
            key = create_key(conn, "tests", ["admin", "ingest", "read", "review"])[1]
        with serving(create_app(settings)) as address:
            service = Service(address, key, database_url)
            with service.client() as client:
                taken = client.post("/votes/batch", json={"votes": crowd_votes})
                assert taken.json()["counts"]["created"] == len(crowd_votes)
                service.finish_refit(client)
            yield service

    return start
