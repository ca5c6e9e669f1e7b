"""Child processes of a command: started, watched, started again when they die, and ended with their parent."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Self

import structlog

from app.refits.fit.parent_death import end_with_parent

log = structlog.get_logger()

GRACE_SECONDS = 14.0
"""How long a child that was told to end may take; then it is killed. More than requests under way are given."""

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_LOOK_UP_SECONDS = 1.0

Body = Callable[..., object]
"""What a child does, given its end of the lifeline and its arguments: a module's function, known there by its name."""


class Child:
    """A process that is started again whenever it dies, after pauses that double until it has lived for a while.

    One that `must_start` and dies before it said that it is ready is not: what is wrong will stay so.
    """

    def __init__(self, name: str, body: Body, *arguments: Any, must_start: bool = False) -> None:
        self._name = name
        self._body = body
        self._arguments = arguments
        self.must_start = must_start
        self._process: multiprocessing.process.BaseProcess | None = None
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._settled = threading.Event()
        self._was_ready = False
        self._thread = threading.Thread(target=self._keep_running, name=f"{name} watcher", daemon=True)

    def start(self) -> None:
        """Start it, and watch it from now on."""
        self._thread.start()

    def wait_until_ready(self) -> bool:
        """Wait until it said that it is ready; False where it died before and is not started again."""
        wait_awake(self._settled)
        return self._was_ready

    def tell_to_end(self) -> None:
        """Tell it to end, and start no other."""
        with self._lock:
            self._ending.set()
            if self._process is not None:
                self._process.terminate()

    def wait_for_end(self, deadline: float) -> None:
        """Wait until it has ended, having been told to; kill it when its time is up."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive() and self._process is not None:
            log.error("process_killed", process=self._name, detail="it did not end when told to")
            self._process.kill()
            self._thread.join()

    def _keep_running(self) -> None:
        pause = _FIRST_PAUSE
        while not self._ending.is_set():
            began = time.monotonic()
            code = self._run_once()
            if self._ending.is_set() or code is None:
                break
            if self.must_start and not self._was_ready:
                break
            if time.monotonic() - began > _LONGEST_PAUSE:
                pause = _FIRST_PAUSE
            log.error("process_died", process=self._name, exit_code=code, started_again_in_seconds=pause)
            self._ending.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._settled.set()

    def _run_once(self) -> int | None:
        """Run it until it ends and return its exit code; None where it was not to be started any more."""
        # Spawned: a fork would inherit the threads' locks and the database's sockets.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        with ours:
            with theirs, self._lock:
                if self._ending.is_set():
                    return None
                process = context.Process(target=self._body, args=(theirs, *self._arguments), name=self._name)
                process.start()
                self._process = process
            if ours in wait([ours, process.sentinel]) and _is_ready(ours):
                self._was_ready = True
                self._settled.set()
            process.join()
            _forget_gauges(process.pid)
        return process.exitcode


def _forget_gauges(pid: int | None) -> None:
    """Let no metric of the present outlive its process; what it counted stays."""
    if pid is not None and "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        # At its import the library decides where counts are kept, and that is only known by now.
        from prometheus_client.multiprocess import mark_process_dead  # noqa: PLC0415

        mark_process_dead(pid)  # type: ignore[no-untyped-call]  # it has no types here


def _is_ready(lifeline: Connection) -> bool:
    try:
        return bool(lifeline.recv_bytes())
    except EOFError:
        return False


def wait_awake(event: threading.Event) -> None:
    """Wait for an event in the main thread, and act on signals meanwhile.

    One that comes while the process is stopped may be taken by another of its threads, which leaves this one, the only
    one that can act on it, asleep: so it looks up every second.
    """
    while not event.wait(_LOOK_UP_SECONDS):
        pass


def heeds_hangup() -> bool:
    """Whether the end of the terminal's session is to end this process: `nohup` says that it is not."""
    return signal.getsignal(signal.SIGHUP) != signal.SIG_IGN


def become_child(lifeline: Connection) -> None:
    """Leave Ctrl-C and SIGHUP to the parent, and end with it even if it is killed; to be called first in a child."""
    for name in (signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    end_with_parent(lifeline)


def say_ready(lifeline: Connection) -> None:
    """Tell the parent that the child does its work from now on."""
    lifeline.send_bytes(b"ready")


class Children:
    """Several children that live as long as the block, and end together: all are told first, then waited for."""

    def __init__(self, *children: Child) -> None:
        self._children = children
        self._told_at: float | None = None

    def wait_until_ready(self) -> bool:
        """Wait until all that must start are ready; False as soon as one cannot be."""
        return all(child.wait_until_ready() for child in self._children if child.must_start)

    def tell_to_end(self) -> None:
        """Tell all of them to end; their time runs from the first time that they are told."""
        if self._told_at is None:
            self._told_at = time.monotonic()
            for child in self._children:
                child.tell_to_end()

    def __enter__(self) -> Self:
        for child in self._children:
            child.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.tell_to_end()
        deadline = (self._told_at or 0.0) + GRACE_SECONDS
        for child in self._children:
            child.wait_for_end(deadline)
