"""The processes of `serve`: servers that share one socket, and a worker beside them."""

import gc
import multiprocessing
import os
import socket
import sys
import time
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, cast

import structlog
import typer
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors import Multiprocess

from app.cli.logs import log_level, log_to_stderr
from app.cli.stopping import heeds_hangup
from app.cli.worker import start_resource_tracker, work_as_child
from app.guard.connections import ConnectionLimits
from app.refits.fit.work_process import become_child
from app.settings import Settings

log = structlog.get_logger()

REQUEST_SECONDS = 10
"""How long requests may still take after the service was asked to stop."""
GRACE_SECONDS = 14.0
"""How long a child may take to stop; after that it is killed."""

_IDLE_SECONDS = 10
"""How long an idle connection stays open: twice as long as httpx and Node's fetch keep theirs, so that no request of
theirs meets a connection that is being closed."""
_HANGING_SECONDS = 30  # a server that starts on a busy machine takes a while to answer the supervisor
_READY_SECONDS = 1.0  # between two looks whether a server that starts is still alive
_PAUSE_SECONDS = 5.0  # between two starts of a worker
_OBJECTS_BEFORE_COLLECTION = 10_000
_SWITCH_SECONDS = 0.001


class Supervisor(Multiprocess):
    """uvicorn's supervisor of server processes, with what it lacks.

    It runs a worker beside the servers, prints the address once the servers answer, logs processes that died, stops on
    SIGHUP, and kills children that do not stop in time. Children end with it even if it is killed.
    """

    def __init__(self, settings: Settings, address: socket.socket) -> None:
        self.failed = False
        self._settings = settings
        self._worker: SpawnProcess | None = None
        self._worker_started = 0.0
        self._announced = False
        self._heeds_hangup = heeds_hangup()
        self._parent_death, self._parent_alive = multiprocessing.Pipe(duplex=False)
        server = settings.server
        limits = ConnectionLimits(server.connections_per_address)
        connections = cast("type[HttpToolsProtocol]", limits)  # uvicorn calls it; the annotation asks for a class
        config = uvicorn.Config(
            partial(make_application, self._parent_death, settings),
            factory=True,
            workers=settings.server.workers,
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            http=connections,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=REQUEST_SECONDS,
            timeout_worker_healthcheck=_HANGING_SECONDS,
        )
        super().__init__(config, [address])

    def init_processes(self) -> None:
        """Start the servers, and the worker where the settings want one."""
        start_resource_tracker()
        super().init_processes()
        if self._settings.worker.run_in_server:
            self._start_worker()

    def keep_subprocess_alive(self) -> None:
        """Start processes again that died; stop where a server cannot start."""
        if self.should_exit.is_set():
            return
        if not self._announced:
            self._announce()
            return
        servers = list(self.processes)
        super().keep_subprocess_alive()
        if self.signal_queue:
            return  # a signal that was sent to all processes at once is no failure
        for server in servers:
            if server not in self.processes:
                _note_death("server", server.pid, server.exitcode)
        self.failed = self.should_exit.is_set()
        worker = self._worker
        if worker and not worker.is_alive() and time.monotonic() - self._worker_started > _PAUSE_SECONDS:
            _note_death("worker", worker.pid, worker.exitcode)
            self._start_worker()

    def _announce(self) -> None:
        """Print the address once all servers answer; stop if one of them cannot start."""
        if not all(server.process.is_alive() for server in self.processes):
            self.failed = not self.signal_queue
            self.should_exit.set()
        elif all(server.is_ready(timeout=_READY_SECONDS) for server in self.processes):
            self._announced = True
            host, port = self.sockets[0].getsockname()[:2]
            typer.echo(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    def terminate_all(self) -> None:
        """Ask all children to stop."""
        super().terminate_all()
        if self._worker:
            self._worker.terminate()

    def join_all(self) -> None:
        """Wait for all children, and kill those that take too long."""
        deadline = time.monotonic() + GRACE_SECONDS
        servers = [("server", server.process) for server in self.processes]
        for kind, child in (*servers, *([("worker", self._worker)] if self._worker else [])):
            child.join(max(0.0, deadline - time.monotonic()))
            if child.is_alive():
                log.error("process_killed", process=kind, pid=child.pid, detail="it did not stop in time")
                child.kill()
                child.join()

    def handle_hup(self) -> None:
        """Stop, where uvicorn would restart the servers."""
        if self._heeds_hangup:
            self.should_exit.set()

    def _start_worker(self) -> None:
        self._worker_started = time.monotonic()
        # Spawned, as uvicorn's own: a fork would inherit the locks of threads and the database's sockets.
        context = multiprocessing.get_context("spawn")
        self._worker = context.Process(target=work_as_child, args=(self._parent_death, self._settings), name="worker")
        self._worker.start()


def make_application(parent_death: Connection, settings: Settings) -> Any:
    """Assemble the application, in a server process."""
    become_child(parent_death)
    log_to_stderr(log_level(settings), for_good=True)
    without_worker = settings.worker.model_copy(update={"run_in_server": False})  # it has a process of its own
    # By name: it is assembled above this layer.
    application = import_module("app.main").create_app(settings.model_copy(update={"worker": without_worker}))
    tune_interpreter()
    return application


def tune_interpreter() -> None:
    """Set the interpreter for many short requests; call it once everything is imported.

    The garbage collector would visit the half million objects of the loaded libraries again and again: frozen, they
    are left out. A thread that has its answer from the database waits one millisecond, not five, for the event loop.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION, 20, 20)
    sys.setswitchinterval(_SWITCH_SECONDS)


def _note_death(kind: str, pid: int | None, exit_code: int | None) -> None:
    log.error("process_died", process=kind, exit_code=exit_code)
    if pid is not None and "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        from prometheus_client.multiprocess import mark_process_dead  # noqa: PLC0415  it reads the variable when imported

        mark_process_dead(pid)  # type: ignore[no-untyped-call]  # it has no types here
