"""Metrics that a process keeps of its own work. Several processes of one server add theirs up.

They add up where PROMETHEUS_MULTIPROC_DIR is set. prometheus-client looks for it when it is imported, so the metrics
belong to the process, not to an application.
"""

import asyncio
import os
from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from app.state import ProcessState

SHARED = "PROMETHEUS_MULTIPROC_DIR" in os.environ
"""Whether several processes add up their metrics."""

_SHARED_SECONDS = 1.0
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a creation time beside every count, which has no reader
REGISTRY = CollectorRegistry()
if not SHARED:
    ProcessCollector(registry=REGISTRY)

REQUESTS = Counter(
    "stable_arena_http_requests",
    'Requests answered. route is the template; "none" if a request was refused before its route was found.',
    ("method", "route", "status"),
    registry=REGISTRY,
)
DURATIONS = Histogram(
    "stable_arena_http_request_duration_seconds",
    "From the head of a request to the last byte of its answer.",
    ("method", "route"),
    buckets=_BOUNDS,
    registry=REGISTRY,
)


def highest_gauge(name: str, description: str) -> Gauge:
    """Return a gauge of which several processes show the highest value."""
    return Gauge(
        name, f"{description} (the highest of several processes)", registry=REGISTRY, multiprocess_mode="livemax"
    )


class Gauges:
    """The gauges that the rooms of a process have, and how each is read."""

    def __init__(self) -> None:
        self._reads: list[tuple[Gauge, Callable[[], float]]] = []

    def watch(self, gauge: Gauge, read: Callable[[], float]) -> None:
        """Set the gauge to what `read` returns whenever metrics are asked for."""
        self._reads.append((gauge, read))

    def set(self) -> None:
        """Set every gauge to its value now."""
        for gauge, read in self._reads:
            gauge.set(read())

    async def keep_setting(self) -> None:
        """Set the gauges every second: if several processes share them, any may answer the request for metrics."""
        try:
            while True:
                self.set()
                await asyncio.sleep(_SHARED_SECONDS)
        finally:
            self.set()


def provide_gauges(state: ProcessState) -> None:
    """Hold the gauges, and keep setting them if several processes share them."""
    state[Gauges] = gauges = Gauges()
    if SHARED:
        state.closing.callback(asyncio.create_task(gauges.keep_setting()).cancel)


def expose() -> bytes:
    """Return the metrics in Prometheus' text format."""
    if not SHARED:
        return generate_latest(REGISTRY)
    together = CollectorRegistry()
    MultiProcessCollector(together)  # type: ignore[no-untyped-call]  # the library has no types here
    return generate_latest(together)
