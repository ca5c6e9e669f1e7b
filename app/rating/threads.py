import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")
Result = TypeVar("Result")

_blas = ThreadpoolController()


def available_threads() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_parts(work: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
    """Do the work on every part, each on a thread of its own, and return the results in the order of the parts.

    Call it within `one_blas_thread`: the parts are the parallelism.
    """
    parts = list(parts)
    if len(parts) == 1:
        return [work(parts[0])]
    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(work, parts))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold the linear algebra library to one thread: its own would fight with ours over the processors."""
    with _blas.limit(limits=1, user_api="blas"):
        yield
