import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import TypeVar

from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")
Result = TypeVar("Result")

_blas = ThreadpoolController()


def available_threads() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def split(length: int, worth: int, threads: int | None = None) -> list[tuple[int, int]]:
    """Cut 0 … length−1 into (first, last + 1), about equally long, for that many threads.

    By default one for every available processor, at most one more than `worth` fits into the length.
    """
    if threads is None:
        threads = min(available_threads(), 1 + length // worth)
    edges = [length * part // threads for part in range(threads + 1)]
    return list(pairwise(edges))


def map_parts(work: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
    """Do the work on every part, the last one here and the others on other threads; results in the parts' order.

    Call it within `one_blas_thread`: the parts are the parallelism. The work must not call it in turn.
    """
    *others, last = parts
    if not others:
        return [work(last)]
    begun = [_pool(os.getpid()).submit(work, part) for part in others]
    mine = work(last)
    return [*(future.result() for future in begun), mine]


@cache
def _pool(process: int) -> ThreadPoolExecutor:  # noqa: ARG001  a forked process has no threads: it needs a pool of its own
    return ThreadPoolExecutor(max(1, available_threads() - 1), thread_name_prefix="rating")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold the linear algebra library to one thread: its own would fight with ours over the processors."""
    with _blas.limit(limits=1, user_api="blas"):
        yield
