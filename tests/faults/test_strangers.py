"""Strangers with long bodies and connections that they hold: votes of a known caller are all recorded."""

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import pytest

from app.auth.keys import create_key
from app.database.engine import Database
from tests.fixtures.environment import Configure
from tests.fixtures.killed_service import Service

SENDERS, HELD = 8, 200
VOTES = 300
BODY = b"[" + b"[]," * ((16 * 1024 * 1024 - 4) // 3) + b"[]]"
PATHS = ("/api/v1/refits", "/api/v1/votes", "/api/v1/votes/batch", "/api/v1/policy/preview")
ELSEWHERE = ("127.0.0.2", 0)
"""Another address of the loopback: an address has a number of connections of its own."""
CUT_OFF = {401, 408, 413, 429}
MOST_MEMORY = 100 * 1024**2


@dataclass
class Strangers:
    """Senders without a key, and what they were answered; 0 for a connection that was closed without an answer."""

    port: int
    attacks: int
    """Of each sender, at least."""
    answered: Counter[int] = field(default_factory=Counter)
    ended: threading.Event = field(default_factory=threading.Event)

    def send(self, number: int) -> None:
        """Post long bodies, one after the other, until the end."""
        for turn in range(1_000_000):
            if self.ended.is_set() and turn >= self.attacks:
                return
            with self.connect() as stranger:
                sent = self.post(stranger, PATHS[(number + turn) % len(PATHS)], BODY)
                self.answered[status_of(stranger)] += 1
                assert sent < len(BODY)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60, source_address=ELSEWHERE)

    @staticmethod
    def post(stranger: socket.socket, path: str, body: bytes) -> int:
        """Send a request, and return how much of its body was taken."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
        )
        sent = 0
        try:
            stranger.sendall(head.encode())
            while sent < len(body):
                sent += stranger.send(body[sent : sent + 65536])
        except OSError:  # it was cut off
            pass
        return sent

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold requests that do not end, half of them in their head."""
        held = []
        try:
            for number in range(HELD):
                stranger = self.connect()
                held.append(stranger)
                try:
                    if number % 2:
                        stranger.sendall(b"POST /api/v1/votes HTTP/1.1\r\nHost: x\r\n")
                    else:
                        self.post(stranger, PATHS[number % len(PATHS)], BODY[:100_000])
                except OSError:
                    continue
            yield
        finally:
            for stranger in held:
                stranger.close()


def status_of(stranger: socket.socket) -> int:
    try:
        answer = stranger.recv(65536)
    except OSError:
        return 0
    return int(answer.split()[1]) if answer else 0


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("unread_bodies_per_minute", "attacks"), [("none", 10), ("60", 2)], ids=["answered at once", "answered late"]
)
def test_strangers_cost_no_vote(
    database: Database, database_url: str, unread_bodies_per_minute: str, attacks: int, configure: Configure
) -> None:
    configure(SERVER__UNREAD_BODIES_PER_MINUTE=unread_bodies_per_minute)
    with database.begin() as conn:
        key = create_key(conn, "tests", ["ingest"])[1]
    service = Service(database_url)
    service.start()
    strangers = Strangers(service.port, attacks)
    address = f"http://127.0.0.1:{service.port}/api/v1"
    vote = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}
    try:
        with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=120) as client:
            assert {client.post("/votes", json=vote).status_code for _ in range(VOTES)} == {201}
            with service.peak_memory() as memory, ThreadPoolExecutor(SENDERS) as pool, strangers.holding():
                sending = [pool.submit(strangers.send, number) for number in range(SENDERS)]
                try:
                    statuses = Counter(client.post("/votes", json=vote).status_code for _ in range(VOTES))
                finally:
                    strangers.ended.set()
                for sender in sending:
                    sender.result()
            assert client.post("/votes", json=vote).status_code == 201
    finally:
        service.kill()
    assert statuses == {201: VOTES}
    assert memory.grown <= MOST_MEMORY
    assert strangers.answered.keys() <= CUT_OFF | {0}
    assert strangers.answered.keys() & CUT_OFF
    assert strangers.answered.total() >= SENDERS * attacks
    print(f"memory +{memory.grown / 1024**2:.0f} MiB; strangers: {dict(strangers.answered)}")
