"""Senders of votes and readers that a deployment has, what they were answered, and what is on record of it."""

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import psycopg

from tests.deployment.parts import Command
from tests.fixtures.waiting import wait_until

VOTES_A_SECOND = 25  # of each sender
MODELS = [f"model {i:02}" for i in range(12)]
READS = ("/leaderboard", "/models", "/snapshots", "/policy")


@dataclass
class Load:
    """Votes and reads, sent to several API servers in turn."""

    apis: Sequence[Command]
    key: str
    acknowledged: dict[str, str] = field(default_factory=dict)
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def send(self, client: httpx.Client, turn: int, method: str, path: str, **rest: object) -> httpx.Response | None:
        """Send a request to one of the servers; None while it does not answer."""
        try:
            answer = client.request(method, f"{self.apis[turn % len(self.apis)].address}/api/v1{path}", **rest)  # type: ignore[arg-type]
        except httpx.TransportError as error:
            self.statuses[type(error).__name__] += 1
            return None
        self.statuses[f"{method} {answer.status_code}"] += 1
        # 409: an attempt whose connection broke still holds the key. 404: no leaderboard yet.
        if not (answer.is_success or answer.status_code in (503, 409) or (method, answer.status_code) == ("GET", 404)):
            self.wrong.append(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return answer

    def client(self) -> httpx.Client:
        return httpx.Client(timeout=60, headers={"Authorization": f"Bearer {self.key}"})

    def vote(self, sender: int) -> None:
        """Vote until the end; every vote is sent again, to the next server, until it is acknowledged."""
        choose = random.Random(sender)  # noqa: S311  votes, not secrets
        with self.client() as client:
            for number in itertools.count():
                if self.ended.wait(1 / VOTES_A_SECOND):
                    return
                a, b = sorted(choose.sample(range(len(MODELS)), 2))
                name = f"{sender}-{number}"
                body = {
                    "model_a": MODELS[a],
                    "model_b": MODELS[b],
                    "winner": choose.choices(["model_a", "model_b", "tie"], [6, 2, 1])[0],
                    "annotator": f"annotator {choose.randrange(40)}",
                    "tags": [name],
                }
                for turn in itertools.count(sender + number):
                    answer = self.send(client, turn, "POST", "/votes", json=body, headers={"Idempotency-Key": name})
                    if answer is not None and answer.is_success:
                        self.acknowledged[name] = answer.json()["id"]
                        break
                    threading.Event().wait(0.05)

    def read(self) -> None:
        """Read until the end."""
        with self.client() as client:
            for turn in itertools.count():
                if self.ended.wait(0.2):
                    return
                self.send(client, turn, "GET", READS[turn % len(READS)])

    @contextmanager
    def running(self, senders: int, *others: Callable[[], None]) -> Iterator[None]:
        """Vote, read, and do other things, until the block ends."""
        with ThreadPoolExecutor(senders + 1 + len(others)) as pool:
            running = [pool.submit(self.vote, sender) for sender in range(senders)]
            running += [pool.submit(one) for one in (self.read, *others)]
            try:
                yield
            finally:
                self.ended.set()
            for each in running:
                each.result()

    def wait_for_votes(self, more: int) -> None:
        target = len(self.acknowledged) + more
        wait_until(lambda: len(self.acknowledged) >= target)

    def check(self, database_url: str) -> None:
        """Check that every acknowledged vote is on record once, with no other, and that no answer was wrong."""
        with psycopg.connect(database_url.replace("+psycopg", "")) as conn:
            votes = conn.execute("SELECT tags[1], id FROM votes WHERE tags <> '{}'").fetchall()
        assert self.wrong == []
        assert sorted((name, str(vote)) for name, vote in votes) == sorted(self.acknowledged.items())
