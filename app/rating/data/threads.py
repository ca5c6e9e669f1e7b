import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import TypeVar

import scipy.linalg  # noqa: F401  with it, and numpy below it, both libraries are loaded that the controller is to find
from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")
Result = TypeVar("Result")

MOST_PARTS = 8
"""More processors than that have nothing to do; each part has sums of its own, of up to 134 MB."""

_blas = ThreadpoolController()


def available_threads() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_parts(length: int, worth: int) -> int:
    """Into how many parts to cut work of that length: one more than `worth` fits into it, at most `MOST_PARTS`.

    The machine has no say in it: sums of the parts are then the same numbers, to the last bit, on any.
    """
    return min(MOST_PARTS, 1 + length // worth)


def split(length: int, worth: int) -> list[tuple[int, int]]:
    """Cut 0 … length−1 into (first, last + 1), about equally long, as many as `count_parts` says."""
    number = count_parts(length, worth)
    return list(pairwise(length * part // number for part in range(number + 1)))


def map_parts(work: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
    """Do the work on every part, here and on other threads, as long as there are processors; results in order.

    Whoever is done with a part takes the next. Call it within `one_blas_thread`: the parts are the parallelism. The
    work must not call it in turn.
    """
    parts = list(parts)
    threads = min(available_threads(), len(parts))
    if threads == 1:
        return [work(part) for part in parts]
    results: dict[int, Result] = {}
    waiting = iter(enumerate(parts))  # `next` on it is one step to the interpreter: no part is taken twice

    def take() -> None:
        for place, part in waiting:
            results[place] = work(part)

    others = [_pool(os.getpid()).submit(take) for _ in range(threads - 1)]
    take()
    for other in others:
        other.result()
    return [results[place] for place in range(len(parts))]


@cache
def _pool(process: int) -> ThreadPoolExecutor:  # noqa: ARG001  a forked process has no threads: it needs a pool of its own
    return ThreadPoolExecutor(max(1, available_threads() - 1), thread_name_prefix="rating")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold the linear algebra library to one thread: its own would fight with ours over the processors."""
    with _blas.limit(limits=1, user_api="blas"):
        yield
