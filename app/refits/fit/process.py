import contextlib
import os
import resource
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, TypeVar

from app.errors import StableArenaError
from app.rating.fit.cluster import fitting_on_cluster
from app.refits.fit.child_process import LOWEST_PRIORITY, become_child, lower_priority
from app.refits.fit.fit import fit_snapshot
from app.refits.fit.interface import FitInput, FitOutput

T = TypeVar("T")

_LOOK_UP_SECONDS = 1.0


@dataclass(frozen=True)
class FitResources:
    """What a fit may use.

    Attributes
    ----------
    seconds : None for as long as it takes
    memory_bytes : of its process; None for as much as there is
    scheduler : address of a Dask cluster whose workers hold the votes; None to fit on this machine
    """

    seconds: float | None = None
    memory_bytes: int | None = None
    scheduler: str | None = None


class FitTooLargeError(StableArenaError):
    """The fit took longer, or needed more memory, than it may."""

    code = "fit-too-large"
    title = "The fit exceeded its limits"


class FitCancelledError(StableArenaError):
    """A request to cancel the refit came while it ran."""

    code = "fit-cancelled"
    title = "The fit was cancelled"


class FitProcessLostError(StableArenaError):
    """The process that fitted was killed, by the service or by the system."""

    code = "fit-lost"
    title = "The fit's process died"


class _RememberingContext(SpawnContext):
    """Spawns processes, and remembers the newest: a pool does not say which process it has started."""

    child: SpawnProcess | None = None

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802  its name
        self.child = SpawnProcess(*args, **kwargs)
        return self.child


class FitProcess:
    """One child process that fits: a fit does not slow requests down, and the service survives if it is killed.

    Parameters
    ----------
    resources : None for no limits
    priority : of the child, below this process' own: from 0, the same, to 19, the lowest
    """

    def __init__(self, resources: FitResources | None = None, *, priority: int = LOWEST_PRIORITY) -> None:
        self._resources = resources or FitResources()
        self._priority = priority
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._parent_alive: Connection | None = None
        self._context = _RememberingContext()
        self._stopped = False

    def fit(
        self, fit_input: FitInput, *, comparisons: bool = True, cancelled: Callable[[], bool] = lambda: False
    ) -> FitOutput:
        """Fit in the child, as `fit_snapshot` does; see `run`."""
        return self.run(partial(fit_snapshot, fit_input, comparisons=comparisons), cancelled=cancelled)

    def run(self, work: Callable[[], T], *, cancelled: Callable[[], bool] = lambda: False) -> T:
        """Call a function in the child; its errors are raised here.

        Parameters
        ----------
        work : a module's function, bound to its arguments by `partial`: it is pickled for the child
        cancelled : called at once and every second; the child is killed once it returns true

        Raises
        ------
        FitCancelledError, FitTooLargeError
        FitProcessLostError
            The child died or `stop` was called. The next call starts another child.
        """
        future: Future[T] | None = None
        try:
            future = self._submit(partial(_on_cluster, self._resources.scheduler, work))
            self._attend(future, cancelled)
            return future.result()
        except MemoryError as error:
            self._discard()
            raise FitTooLargeError(
                f"the fit needs more than {self._resources.memory_bytes:,} bytes of memory"
            ) from error
        except (BrokenProcessPool, CancelledError) as error:
            self._discard()
            reason = "the worker was stopped" if self._stopped else "the fit's process was killed"
            if self._resources.memory_bytes is not None and not self._stopped:
                reason += f", or it ran out of memory: it may use {self._resources.memory_bytes:,} bytes"
            raise FitProcessLostError(reason) from error
        finally:
            if future is not None and not future.done():  # the wait for it ended by an error
                self._discard()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    def start(self) -> None:
        """Start the child, which takes about a second, before there is something to fit; replace one that died."""
        with self._lock, contextlib.suppress(BrokenProcessPool):
            self._open_pool().submit(os.getpid)
            return
        self._discard()
        with self._lock:
            self._open_pool()

    def stop(self) -> None:
        """Kill the child, whatever it is doing, and start no other."""
        with self._lock:
            self._stopped = True
        self._discard()

    def _attend(self, future: Future[T], cancelled: Callable[[], bool]) -> None:
        """Wait for the fit; raise once it is cancelled or takes too long."""
        started = time.monotonic()
        while not future.done():
            if cancelled():
                raise FitCancelledError("the refit was cancelled while it fitted")
            if self._resources.seconds is not None and time.monotonic() - started > self._resources.seconds:
                raise FitTooLargeError(f"the fit took longer than {self._resources.seconds:g} seconds")
            # Not concurrent.futures.wait, which never returns for a future that `stop` cancelled before it began.
            with contextlib.suppress(TimeoutError):
                future.exception(timeout=_LOOK_UP_SECONDS)
                return

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        with self._lock:
            return self._open_pool().submit(work)

    def _open_pool(self) -> ProcessPoolExecutor:
        """Return the pool that has the child; call it with the lock held."""
        if self._stopped:
            raise FitProcessLostError("the worker was stopped")
        if self._pool is None:
            # Spawned: a fork would inherit the threads' locks and the database's sockets.
            parent_death, self._parent_alive = self._context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(
                1,
                mp_context=self._context,
                initializer=_become_fit_process,
                initargs=(parent_death, self._resources.memory_bytes, self._priority),
            )
            self._pool.submit(os.getpid)  # this starts the child, which takes its end along
            parent_death.close()
        return self._pool

    def _discard(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
            parent_alive, self._parent_alive = self._parent_alive, None
            child, self._context.child = self._context.child, None
        if child is not None and child.pid is not None:  # or it could not be started
            child.kill()  # one that hangs, or that still starts, does not notice that its pipe closes
        if parent_alive is not None:
            parent_alive.close()
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def _on_cluster(scheduler: str | None, work: Callable[[], T]) -> T:
    with fitting_on_cluster(scheduler):
        return work()


def _become_fit_process(parent_death: Connection, memory_bytes: int | None, priority: int) -> None:
    if memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    lower_priority(priority)
    become_child(parent_death)
