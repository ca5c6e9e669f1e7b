import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import TypeVar

import scipy.linalg  # noqa: F401  loads its BLAS, so that the controller finds it
from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")
Result = TypeVar("Result")

WORTH_A_THREAD = 100_000  # votes; for fewer, starting a thread costs more than it saves
MOST_PARTS = 8
"""More processors than this stay idle. Each part has its own sums, of up to 134 MB."""

_blas = ThreadpoolController()
_here = threading.local()


def available_threads() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_parts(length: int, worth: int) -> int:
    """Return the number of parts to cut work into: 1 + length // worth, at most `MOST_PARTS`.

    It does not depend on the machine, so sums over the parts are the same to the last bit on every machine.
    """
    return min(MOST_PARTS, 1 + length // worth)


def split(length: int, worth: int) -> list[tuple[int, int]]:
    """Cut 0 … length−1 into `count_parts` ranges (first, last + 1) of about equal length."""
    number = count_parts(length, worth)
    return list(pairwise(length * part // number for part in range(number + 1)))


def map_parts(work: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
    """Do the work on every part, on a thread for each processor; results in order.

    Call this inside `one_blas_thread`, so that the linear algebra library starts no threads of its own. Work that
    itself calls `map_parts` does those parts one after the other: each of the threads would wait for the others.
    """
    parts = list(parts)
    threads = min(available_threads(), len(parts))
    if threads <= 1 or getattr(_here, "working", False):
        return [work(part) for part in parts]
    return list(_pool(os.getpid(), available_threads()).map(work, parts))


def work_alone() -> None:
    """Let `map_parts` use no other threads than this one."""
    _here.working = True


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:  # noqa: ARG001  a forked process needs its own pool
    return ThreadPoolExecutor(threads, thread_name_prefix="rating", initializer=work_alone)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit the linear algebra library to one thread: its threads would compete with ours for the processors."""
    with _blas.limit(limits=1, user_api="blas"):
        yield
