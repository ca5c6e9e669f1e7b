"""Receivers that answer slowly, or never: they keep no message from the others, and no worker from its end."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.settings import Settings, WebhookSettings
from app.webhooks.delivery import Deliverer
from tests.fixtures.waiting import wait_until

Ask = Callable[..., Any]
STATUS = b"HTTP/1.1 200 OK\r\n"
EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\n\r\n"


class Server:
    """Answers each connection with `first`, and then with `dripped` every twentieth of a second."""

    def __init__(self, first: bytes, dripped: bytes) -> None:
        self.connections = 0
        self._first, self._dripped = first, dripped
        self._ended = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://localhost:{self._listening.getsockname()[1]}/secret"
        self._pool = ThreadPoolExecutor(16)
        self._pool.submit(self._accept)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self.connections += 1
                self._pool.submit(self._answer, connection)

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.recv(65536)
            connection.sendall(self._first)
            while self._dripped and not self._ended.wait(0.05):
                connection.sendall(self._dripped)

    def close(self) -> None:
        self._ended.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._pool.shutdown()


@pytest.fixture
def serve() -> Iterator[Callable[[bytes, bytes], Server]]:
    servers = []

    def make(first: bytes, dripped: bytes = b"") -> Server:
        servers.append(Server(first, dripped))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"webhooks": WebhookSettings(allow_private_addresses=True)})


@pytest.fixture
def send(ask: Ask) -> Callable[..., str]:
    """Make a webhook, give it so many messages, and return its id."""

    def make(url: str, messages: int = 1) -> str:
        made = ask("POST", "/webhooks", json={"url": url, "events": ["board.stale"]}).json()["id"]
        for _ in range(messages):
            assert ask("POST", f"/webhooks/{made}/test").status_code == 202
        return str(made)

    return make


def deliveries(ask: Ask, webhook: str) -> list[tuple[str, str | None]]:
    return [(one["status"], one["detail"]) for one in ask("GET", f"/webhooks/{webhook}/deliveries").json()["items"]]


@pytest.mark.parametrize(
    ("first", "dripped"),
    [
        (STATUS + b"X: ", b"a"),
        pytest.param(b"", EARLY_HINTS, marks=pytest.mark.campaign),
        pytest.param(b"", EARLY_HINTS * 200, marks=pytest.mark.campaign),
    ],
    ids=["a byte at a time", "endless 1xx", "a flood of 1xx"],
)
def test_a_receiver_that_drips_keeps_no_message_from_the_others(
    ask: Ask, database: Database, serve: Any, send: Any, first: bytes, dripped: bytes
) -> None:
    slow, quick = serve(first, dripped), serve(STATUS + b"Content-Length: 0\r\n\r\n")
    held, others = send(slow.url, 3), send(quick.url, 3)
    same_receiver = send(slow.url.replace("secret", "other"), 2)
    deliverer = Deliverer(database, allow_private=True, attempt_seconds=120)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(deliverer.deliver_due)
        wait_until(lambda: deliveries(ask, others) == [("delivered", "answered 200")] * 3, 60)
        late = send(quick.url)
        wait_until(lambda: deliveries(ask, late) == [("delivered", "answered 200")], 60)
        deliverer.stop()
        assert done.result(30) == 5
    assert slow.connections == 1
    assert deliveries(ask, held) + deliveries(ask, same_receiver) == [("waiting", None)] * 5


def test_an_attempt_has_a_deadline(ask: Ask, database: Database, serve: Any, send: Any) -> None:
    slow = serve(STATUS + b"X: ", b"a")
    hook = send(slow.url, 3)
    assert Deliverer(database, allow_private=True, attempt_seconds=0.5).deliver_due() == 3
    assert deliveries(ask, hook) == [("waiting", "no answer within 0.5 seconds")] * 3
    assert slow.connections == 3


def test_a_lookup_that_does_not_end_is_left(
    ask: Ask, database: Database, send: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def look_up(*_: object, **__: object) -> list[Any]:
        ended.wait()
        raise OSError

    hook = send("https://slow.example.org/")
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", look_up)
        assert Deliverer(database, allow_private=True, attempt_seconds=0.5).deliver_due() == 1
        ended.set()
    assert deliveries(ask, hook) == [("waiting", "no answer within 0.5 seconds")]


def test_a_deliverer_that_is_stopped_leaves_the_rest_to_others(
    ask: Ask, database: Database, serve: Any, send: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = serve(STATUS + b"Content-Length: 0\r\n\r\n")
    hook = send(quick.url, 3)
    deliverer = Deliverer(database, allow_private=True)
    look_up = socket.getaddrinfo

    def look_up_and_stop(*args: Any, **rest: Any) -> Any:
        deliverer.stop()
        return look_up(*args, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", look_up_and_stop)
        assert deliverer.deliver_due() == 1
    assert sorted(deliveries(ask, hook), key=str) == [("delivered", "answered 200")] + [("waiting", None)] * 2
    assert Deliverer(database, allow_private=True).deliver_due() == 2


def test_what_a_stopped_deliverer_had_is_sent_by_another(ask: Ask, database: Database, serve: Any, send: Any) -> None:
    slow = serve(STATUS + b"X: ", b"a")
    send(slow.url)
    stopped = Deliverer(database, allow_private=True)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(stopped.deliver_due)
        wait_until(lambda: slow.connections == 1, 60)
        stopped.stop()
        done.result(30)
    another = Deliverer(database, allow_private=True, attempt_seconds=0.5)
    assert another.deliver_due() == 0, "it is claimed for longer than an attempt takes"
    with database.begin() as conn:
        conn.execute(text("UPDATE webhook_deliveries SET next_attempt_at = next_attempt_at - interval '30 seconds'"))
    assert another.deliver_due() == 1


@pytest.mark.campaign
def test_a_worker_ends_while_a_receiver_drips(database: Database, serve: Any, send: Any) -> None:
    slow = serve(STATUS + b"X: ", b"a")
    send(slow.url)
    environment = {
        "STABLE_ARENA_DATABASE_URL": database.url.render_as_string(hide_password=False),
        "STABLE_ARENA_WEBHOOKS__ALLOW_PRIVATE_ADDRESSES": "true",
    }
    worker = subprocess.Popen([sys.executable, "-m", "app.cli", "worker"], env=os.environ | environment)
    try:
        wait_until(lambda: slow.connections, 60)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    finally:
        worker.kill()
        worker.wait()
