"""Loads the solver on another thread while `rate` reads a file."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from app.cli.importing import import_at_once
from app.cli.rate.records import OfflineRating
from app.rating.settings import LoopSettings

SWITCH_SECONDS = 1e-4
"""With Python's 5 ms every step of the reader waits so long for the thread that imports: there are a thousand."""


@contextmanager
def loading_solver(settings: LoopSettings) -> Iterator[Future[Callable[..., OfflineRating]]]:
    """Give `rate_votes`, which another thread imports meanwhile; then that thread loads the kernels of such a round.

    Together they take about 0.6 s of processor time; a million votes are read in 0.4 s. A block that fails does not
    wait for the thread.
    """
    loader, before = ThreadPoolExecutor(1, thread_name_prefix="loading-solver"), sys.getswitchinterval()
    rate_votes = loader.submit(_of_module, "app.cli.rate.offline", "rate_votes")
    loader.submit(_load_kernels, settings)
    loader.shutdown(wait=False)
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield rate_votes
    finally:
        sys.setswitchinterval(before)


def _of_module(module: str, name: str) -> Any:
    return getattr(import_at_once(module), name)


def _load_kernels(settings: LoopSettings) -> None:
    load = _of_module("app.rating.verdict.loading", "load_kernels")
    load(settings.method, settings.flag_rule, settings.interval)
