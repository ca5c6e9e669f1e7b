"""Serving on a socket until told to stop: in this process, or in several that share it; the worker in one beside."""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from types import FrameType
from typing import NoReturn

import typer
import uvicorn

from app.cli.children import Child, Children, become_child, heeds_hangup, say_ready, wait_awake
from app.cli.interpreter import tune_for_serving
from app.cli.logs import log_to_stderr
from app.cli.whole_answers import WholeAnswersProtocol
from app.cli.worker import work_as_child

_GRACE_SECONDS = 10  # for requests under way


class _Server(uvicorn.Server):
    """A server that tells when it listens, and when it begins to stop."""

    def __init__(self, listening: Callable[[], None], leaving: Callable[[], None] = lambda: None) -> None:
        # The application is named, not imported: it is assembled above this layer, and reads the environment itself.
        config = uvicorn.Config(
            "app.main:create_app",
            factory=True,
            http=WholeAnswersProtocol,
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        super().__init__(config)
        self._listening = listening
        self._leaving = leaving

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            tune_for_serving()
            self._listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._leaving()
        await super().shutdown(sockets)


def serve_here(address: socket.socket, *, with_worker: bool, log_level: int) -> bool:
    """Answer requests in this process until a signal comes; return whether it ever could."""
    beside = [_worker(log_level)] if with_worker else []
    with Children(*beside) as children, _one_signal_is_enough():
        server = _Server(lambda: _say_address(address), children.tell_to_end)
        server.run([address])
        return server.started


def serve_in_children(address: socket.socket, processes: int, *, with_worker: bool, log_level: int) -> bool:
    """Answer requests in so many child processes until a signal comes; return whether they ever could."""
    serving = [Child(f"server {i}", _serve_as_child, address, log_level, must_start=True) for i in range(processes)]
    beside = [_worker(log_level)] if with_worker else []
    with Children(*serving, *beside) as children, _one_signal_is_enough():
        if children.wait_until_ready():
            _say_address(address)
            wait_awake(threading.Event())  # a signal ends it
        return False


def _worker(log_level: int) -> Child:
    return Child("worker", work_as_child, log_level)


def _serve_as_child(lifeline: Connection, address: socket.socket, log_level: int) -> None:
    become_child(lifeline)
    signal.signal(signal.SIGTERM, _stop)
    log_to_stderr(log_level, for_good=True)
    server = _ChildServer(lambda: say_ready(lifeline))
    server.run([address])


class _ChildServer(_Server):
    """A server that leaves Ctrl-C to its parent."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig != signal.SIGINT:
            super().handle_exit(sig, frame)


def _say_address(address: socket.socket) -> None:
    host, port = address.getsockname()[:2]
    typer.echo(f"http://{f'[{host}]' if ':' in host else host}:{port}")


@contextmanager
def _one_signal_is_enough() -> Iterator[None]:
    """Ignore signals after the block: whoever is impatient must not leave the database half-stopped."""
    try:
        yield
    finally:
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, signal.SIG_IGN)


def stop_on_signals() -> None:
    """End this process in an orderly way on Ctrl-C, SIGTERM and SIGHUP, whatever it is doing."""
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, _stop)
    if heeds_hangup():
        # Handed on as SIGTERM, which uvicorn takes while it runs; it would not take this one.
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))


def _stop(*_: object) -> NoReturn:
    # uvicorn takes the signal while it runs, and hands it on here when it has finished.
    raise SystemExit(0)
