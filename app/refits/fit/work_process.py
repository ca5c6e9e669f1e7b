"""Child processes that work: they end with their parent, leave the terminal to it, and let requests go first."""

import contextlib
import os
import resource
import signal
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from app.errors import StableArenaError
from app.refits.fit.handover import hand_over

T = TypeVar("T")

WORKER_PRIORITY = 10
"""Beside a busy process a tenth of a processor is left, so that it can still stop in time."""
ON_DEMAND_PRIORITY = 5
"""Of a fit that a person waits for: beside a busy process a quarter of a processor is left, and requests go first."""
LOWEST_PRIORITY = 19
"""Of refits. Beside busy processes little is left for them, and answers that a person waits for come first."""
SESSION_PRIORITY = 5
"""Of the session: requests interrupt it at once, and beside a busy session a quarter of a processor is left."""
AUTOGROUP = Path("/proc/self/autogroup")

_LOOK_UP_SECONDS = 1.0


class ProcessLostError(StableArenaError):
    """The process that worked was killed, by the service or by the system."""

    code = "process-lost"
    title = "The process died"


class RememberingContext(SpawnContext):
    """Spawns processes, and remembers the newest: a pool does not say which process it has started."""

    child: SpawnProcess | None = None

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802  its name
        """Return a process that is not started."""
        self.child = SpawnProcess(*args, **kwargs)
        return self.child


class WorkProcess:
    """One child process that works: it does not slow requests down, and the service survives if it is killed.

    `memory_bytes`: that the child may have; None for as much as there is.
    `priority`: of the child, below this process' own: from 0, the same, to 19, the lowest.
    `idle_seconds`: how long after `rest` the child ends, unless more work comes.
    `prepare`: called in the child before its first work, to configure its log, for example.
    """

    work_name: ClassVar[str] = "work"
    lost_error: ClassVar[type[ProcessLostError]] = ProcessLostError

    def __init__(
        self,
        *,
        memory_bytes: int | None = None,
        priority: int = LOWEST_PRIORITY,
        idle_seconds: float = 60.0,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self._memory_bytes = memory_bytes
        self._priority = priority
        self._idle_seconds = idle_seconds
        self._idle: threading.Timer | None = None
        self._prepare = prepare
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._parent_alive: Connection | None = None
        self._context = RememberingContext()
        self._stopped = False

    def call(self, work: Callable[[], T], *, watch: Callable[[], None] = lambda: None) -> T:
        """Call a function in the child; its errors are raised here.

        `work`: a module's function, bound to its arguments by `partial`: it is pickled for the child.
        `watch`: called at once and every second; the child is killed once it raises an error.
        Raises MemoryError: the work needs more than `memory_bytes`.
        Raises ProcessLostError: the child died or `stop` was called. The next call starts another child.
        """
        future: Future[T] | None = None
        try:
            future = self.submit(work)
            _attend(future, watch)
            return future.result()
        except MemoryError:
            self.discard()
            raise
        except (BrokenProcessPool, CancelledError) as error:
            self.discard()
            reason = "the worker was stopped" if self._stopped else f"the {self.work_name}'s process was killed"
            if self._memory_bytes is not None and not self._stopped:
                reason += f", or it ran out of memory: it may use {self._memory_bytes:,} bytes"
            raise self.lost_error(reason) from error
        finally:
            if future is not None and not future.done():  # the wait for it ended by an error
                self.discard()

    @property
    def memory_bytes(self) -> int | None:
        """The memory that the child may have."""
        return self._memory_bytes

    @property
    def child_pid(self) -> int | None:
        """The process id of the child; None where there is none."""
        child = self._context.child
        return None if child is None else child.pid

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    def start(self) -> None:
        """Start the child, which takes about a second, before there is something to do; replace one that died."""
        with self._lock, contextlib.suppress(BrokenProcessPool):
            self._open_pool().submit(os.getpid)
            return
        self.discard()
        with self._lock:
            self._open_pool()

    def stop(self) -> None:
        """Kill the child, whatever it is doing, and start no other."""
        with self._lock:
            self._stopped = True
        self.discard()

    def rest(self) -> None:
        """Let the child end after a while without work."""
        with self._lock:
            self._stay_awake()
            if not self._stopped:
                self._idle = threading.Timer(self._idle_seconds, self._end_idle)
                self._idle.daemon = True
                self._idle.start()

    def _stay_awake(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _end_idle(self) -> None:
        self.discard(only_if=lambda: self._idle is threading.current_thread())  # or work came at the last moment

    def discard(self, *, only_if: Callable[[], bool] = lambda: True) -> None:
        """Kill the child; the next work starts another."""
        with self._lock:
            if not only_if():
                return
            self._stay_awake()
            pool, self._pool = self._pool, None
            parent_alive, self._parent_alive = self._parent_alive, None
            child, self._context.child = self._context.child, None
        if child is not None and child.pid is not None:  # or it could not be started
            child.kill()  # one that hangs, or that still starts, does not notice that its pipe closes
        if parent_alive is not None:
            parent_alive.close()
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Hand work to the child, which starts if there is none; `call` waits for its end too."""
        handed, free = hand_over(work)
        try:
            with self._lock:
                future = self._open_pool().submit(handed)
        except BaseException:
            free()
            raise
        future.add_done_callback(lambda _: free())
        return future

    def _open_pool(self) -> ProcessPoolExecutor:
        """Return the pool that has the child; call it with the lock held."""
        if self._stopped:
            raise self.lost_error("the worker was stopped")
        self._stay_awake()
        if self._pool is None:
            # Spawned: a fork would inherit the threads' locks and the database's sockets.
            parent_death, self._parent_alive = self._context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(
                1,
                mp_context=self._context,
                initializer=_become_work_process,
                initargs=(parent_death, self._memory_bytes, self._priority, self._prepare),
            )
            self._pool.submit(os.getpid)  # this starts the child, which takes its end along
            parent_death.close()
        return self._pool


def _attend(future: Future[T], watch: Callable[[], None]) -> None:
    """Wait for the work, and watch it meanwhile."""
    while not future.done():
        watch()
        # Not concurrent.futures.wait, which never returns for a future that `stop` cancelled before it began.
        with contextlib.suppress(TimeoutError):
            future.exception(timeout=_LOOK_UP_SECONDS)
            return


def _become_work_process(
    parent_death: Connection, memory_bytes: int | None, priority: int, prepare: Callable[[], None] | None
) -> None:
    if memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    lower_priority(priority)
    become_child(parent_death)
    if prepare is not None:
        prepare()


def become_child(parent_death: Connection) -> None:
    """Ignore Ctrl-C and SIGHUP, which the parent handles, and exit when the parent does, even if it was killed.

    `parent_death`: the reading end of a pipe whose writing end only the parent has. The kernel closes that end with the
    parent.
    """
    for name in (signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, args=(parent_death,), name="parent death", daemon=True).start()


def lower_priority(niceness: int) -> None:
    """Let other processes go first: work that takes minutes must not delay answers that take milliseconds.

    Call it before a thread starts: on Linux each thread has a priority of its own, inherited from the thread that
    started it.
    """
    os.nice(niceness)  # the kernel stops at the lowest
    # Where Linux shares the processors among sessions first (`sched_autogroup_enabled`), that counts only within the
    # session. So this process leaves its parent's session for one of its own with a low priority.
    with contextlib.suppress(OSError):
        os.setsid()
        AUTOGROUP.write_text(str(SESSION_PRIORITY))


def _exit_with_parent(parent_death: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        parent_death.recv_bytes()
    os._exit(1)
