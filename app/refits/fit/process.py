import contextlib
import multiprocessing
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import TypeVar

from app.errors import StableArenaError
from app.refits.fit.fit import fit_snapshot
from app.refits.fit.interface import FitInput, FitOutput
from app.refits.fit.parent_death import end_with_parent
from app.refits.fit.process_priority import let_others_go_first

T = TypeVar("T")

_LOOK_UP_SECONDS = 1.0


@dataclass(frozen=True)
class FitLimits:
    """How long a fit may take and how much memory its process may use; None for as much as there is."""

    seconds: float | None = None
    memory_bytes: int | None = None


class FitTooLargeError(StableArenaError):
    """The fit took longer, or needed more memory, than it may."""

    code = "fit-too-large"
    title = "The fit exceeded its limits"


class FitCancelledError(StableArenaError):
    """Somebody asked for the fit to be stopped."""

    code = "fit-cancelled"
    title = "The fit was cancelled"


class FitProcessLostError(StableArenaError):
    """The process that fitted was killed, by its owner or by the system."""

    code = "fit-lost"
    title = "The fit's process died"


class FitProcess:
    """One child process that fits, so that a fit holds up neither requests nor, if it is killed, the service."""

    def __init__(self, limits: FitLimits | None = None) -> None:
        self._limits = limits or FitLimits()
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._lifeline: Connection | None = None
        self._child: Future[int] | None = None
        self._stopped = False

    def fit(
        self, fit_input: FitInput, *, comparisons: bool = True, cancelled: Callable[[], bool] = lambda: False
    ) -> FitOutput:
        """Fit in the child, as `fit_snapshot` does; see `run`."""
        return self.run(partial(fit_snapshot, fit_input, comparisons=comparisons), cancelled=cancelled)

    def run(self, work: Callable[[], T], *, cancelled: Callable[[], bool] = lambda: False) -> T:
        """Call something in the child; its errors are raised here.

        Parameters
        ----------
        work : crosses the process boundary: a function of a module, bound to its arguments by `partial`
        cancelled : asked every second; once it says yes, the child is ended

        Raises
        ------
        FitCancelledError, FitTooLargeError
        FitProcessLostError
            The child died or `stop` was called. The next call starts another child.
        """
        try:
            future = self._submit(work)
            self._attend(future, cancelled)
            return future.result()
        except MemoryError as error:
            self._discard()
            raise FitTooLargeError(f"the fit needs more than {self._limits.memory_bytes:,} bytes of memory") from error
        except (FitCancelledError, FitTooLargeError):
            self._discard()
            raise
        except (BrokenProcessPool, CancelledError) as error:
            self._discard()
            reason = "the worker was stopped" if self._stopped else "the fit's process was killed"
            if self._limits.memory_bytes is not None and not self._stopped:
                reason += f", or died for want of memory: it may use {self._limits.memory_bytes:,} bytes"
            raise FitProcessLostError(reason) from error

    def stop(self) -> None:
        """End the child, whatever it is doing, and start no other."""
        with self._lock:
            self._stopped = True
        self._discard()

    def _attend(self, future: Future[T], cancelled: Callable[[], bool]) -> None:
        """Wait for the fit; raise as soon as it is cancelled or has taken too long."""
        started = time.monotonic()
        while not future.done():
            # Not concurrent.futures.wait, which never returns for a future that `stop` cancelled before it began.
            with contextlib.suppress(TimeoutError):
                future.exception(timeout=_LOOK_UP_SECONDS)
                return
            if cancelled():
                raise FitCancelledError("the refit was cancelled while it fitted")
            if self._limits.seconds is not None and time.monotonic() - started > self._limits.seconds:
                raise FitTooLargeError(f"the fit took longer than {self._limits.seconds:g} seconds")

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        with self._lock:
            if self._stopped:
                raise FitProcessLostError("the worker was stopped")
            if self._pool is not None:
                return self._pool.submit(work)
            # Spawned: a fork would inherit the threads' locks and the database's sockets.
            context = multiprocessing.get_context("spawn")
            watched, self._lifeline = context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(
                1, mp_context=context, initializer=_become_fit_process, initargs=(watched, self._limits.memory_bytes)
            )
            self._child = self._pool.submit(os.getpid)  # this starts the child, which takes its end along
            submitted = self._pool.submit(work)
            watched.close()
            return submitted

    def _discard(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
            lifeline, self._lifeline = self._lifeline, None
            child, self._child = self._child, None
        if child is not None and child.done() and child.exception() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.result(), signal.SIGKILL)  # one that hangs would not see its lifeline close
        if lifeline is not None:
            lifeline.close()
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def _become_fit_process(lifeline: Connection, memory_bytes: int | None) -> None:
    """Leave Ctrl-C and SIGHUP to the parent, end with it even if it is killed, be nice, and mind the memory."""
    if memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    for name in (signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    let_others_go_first()
    end_with_parent(lifeline)
