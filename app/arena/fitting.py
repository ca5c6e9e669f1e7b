import contextlib
import hashlib
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
from multiprocessing.connection import Connection

import numpy as np
from numpy.typing import NDArray

from app.errors import StableArenaError
from app.rating.results import Board, LoopSettings, Rating
from app.rating.stable_arena import run_stable_arena
from app.rating.votes import Cells, aggregate

_LOOK_UP_SECONDS = 1.0


@dataclass(frozen=True)
class FitTask:
    """All that a fit needs, as arrays: it crosses a process boundary.

    Attributes
    ----------
    annotator, model_a, model_b : int32 arrays, shape (n_votes,)
        Positions in `annotator_ids` and `model_ids`.
    outcome : float64 array, shape (n_votes,)
        W of each vote.
    annotator_ids, model_ids : int32 arrays
        The ids under which the votes' owners are known outside; they only enter the hash.
    keep_always, keep_never : bool arrays, shape (n_annotators,)
    settings, plain_settings : of the am-elo board and of the m-elo board beside it
    """

    annotator: NDArray[np.int32]
    model_a: NDArray[np.int32]
    model_b: NDArray[np.int32]
    outcome: NDArray[np.float64]
    annotator_ids: NDArray[np.int32]
    model_ids: NDArray[np.int32]
    keep_always: NDArray[np.bool_]
    keep_never: NDArray[np.bool_]
    settings: LoopSettings
    plain_settings: LoopSettings


@dataclass(frozen=True)
class Fitted:
    """Both boards of a refit.

    Attributes
    ----------
    rating : the loop's turn, with abilities
    plain : m-elo on the votes that the turn kept
    votes_hash : sha256 of the cells of every vote read
    seconds : stage → seconds
    """

    rating: Rating
    plain: Board
    votes_hash: str
    seconds: dict[str, float]


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


def fit(task: FitTask) -> Fitted:
    """Run one turn of the loop, then m-elo on the votes it kept."""
    started = time.perf_counter()
    cells = aggregate(
        task.annotator, task.model_a, task.model_b, task.outcome,
        n_annotators=len(task.annotator_ids), n_models=len(task.model_ids),
    )  # fmt: skip
    votes_hash = hash_cells(cells, task.annotator_ids, task.model_ids)
    aggregated = time.perf_counter()
    rating = run_stable_arena(cells, task.settings, keep_always=task.keep_always, keep_never=task.keep_never)
    fitted = time.perf_counter()
    kept = ~np.isnan(rating.crowd.ability)
    plain = run_stable_arena(cells.where(kept[cells.annotator]), task.plain_settings)
    seconds = {
        "aggregate": aggregated - started,
        **rating.diagnostics.seconds,
        "m_elo": time.perf_counter() - fitted,
    }
    return Fitted(rating, plain.board, votes_hash, seconds)


def hash_cells(cells: Cells, annotator_ids: NDArray[np.int32], model_ids: NDArray[np.int32]) -> str:
    """Return the sha256 of the sorted cells: the same votes in any order have the same hash."""
    digest = hashlib.sha256()
    ids = (annotator_ids[cells.annotator], model_ids[cells.model_a], model_ids[cells.model_b])
    for column in (*(x.astype("<i4") for x in ids), *(x.astype("<f8") for x in (cells.n, cells.s, cells.ties))):
        digest.update(column.tobytes())
    return digest.hexdigest()


class FitProcess:
    """One child process that fits, so that a fit holds up neither requests nor, if it is killed, the service."""

    def __init__(self, limits: FitLimits | None = None) -> None:
        self._limits = limits or FitLimits()
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._lifeline: Connection | None = None
        self._child: Future[int] | None = None
        self._stopped = False

    def fit(self, task: FitTask, *, cancelled: Callable[[], bool] = lambda: False) -> Fitted:
        """Fit in the child; errors of the fit are raised here.

        Parameters
        ----------
        cancelled : asked every second; once it says yes, the child is ended

        Raises
        ------
        FitCancelledError, FitTooLargeError
        FitProcessLostError
            The child died or `stop` was called. The next call starts another child.
        """
        try:
            future = self._submit(task)
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

    def _attend(self, future: Future[Fitted], cancelled: Callable[[], bool]) -> None:
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

    def _submit(self, task: FitTask) -> Future[Fitted]:
        with self._lock:
            if self._stopped:
                raise FitProcessLostError("the worker was stopped")
            if self._pool is not None:
                return self._pool.submit(fit, task)
            # Spawned: a fork would inherit the threads' locks and the database's sockets.
            context = multiprocessing.get_context("spawn")
            watched, self._lifeline = context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(
                1, mp_context=context, initializer=_become_fit_process, initargs=(watched, self._limits.memory_bytes)
            )
            self._child = self._pool.submit(os.getpid)  # this starts the child, which takes its end along
            submitted = self._pool.submit(fit, task)
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
    """Leave Ctrl-C to the parent, end with it even if it is killed, let requests go first, and mind the memory."""
    if memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(10)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: Connection) -> None:
    """Exit when the parent's end closes, be it by the parent's will or by its death."""
    with contextlib.suppress(EOFError):
        lifeline.recv_bytes()
    os._exit(1)
