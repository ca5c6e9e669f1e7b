"""Metrics that a process keeps of its own work. Several processes of one server add theirs up.

They add up where PROMETHEUS_MULTIPROC_DIR is set. prometheus-client looks for it when it is imported, so the metrics
belong to the process, not to an application.
"""

import os

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

from app.guard.paths import PREFIX

SHARED = "PROMETHEUS_MULTIPROC_DIR" in os.environ
"""Whether several processes add up their metrics."""

VOTE_ROUTES = {f"{PREFIX}/votes": "single", f"{PREFIX}/votes/batch": "batch"}
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a creation time beside every count, which has no reader
_registry = CollectorRegistry()
if not SHARED:
    ProcessCollector(registry=_registry)

REQUESTS = Counter(
    "stable_arena_http_requests",
    'Requests answered. route is the template; "none" if a request was refused before its route was found.',
    ("method", "route", "status"),
    registry=_registry,
)
DURATIONS = Histogram(
    "stable_arena_http_request_duration_seconds",
    "From the head of a request to the last byte of its answer.",
    ("method", "route"),
    buckets=_BOUNDS,
    registry=_registry,
)
_votes = Counter(
    "stable_arena_votes",
    "Votes by their result. A request that was refused before its votes were read counts as one vote.",
    ("source", "status"),
    registry=_registry,
)
# All of them from the start: a rate needs a first value of 0.
VOTES = {
    (source, status): _votes.labels(source, status)
    for source in VOTE_ROUTES.values()
    for status in ("created", "duplicate", "conflict", "invalid", "refused")
}


def _fullest(name: str, description: str) -> Gauge:
    return Gauge(
        name, f"{description} (the highest of several processes)", registry=_registry, multiprocess_mode="livemax"
    )


QUEUED_VOTES = _fullest("stable_arena_vote_queue_votes", "Single votes that wait for their commit")
QUEUE_LIMIT = _fullest("stable_arena_vote_queue_limit_votes", "Single votes that may wait; more get 503")
QUEUED_BATTLES = _fullest("stable_arena_battle_queue_battles", "Battles that wait for their commit")
BATCH_BYTES = _fullest("stable_arena_batch_bytes", "Bytes of batches in work")
BATCH_LIMIT = _fullest("stable_arena_batch_limit_bytes", "Bytes of batches that may be in work; more get 503")
CONNECTIONS = _fullest("stable_arena_database_connections", "Connections to the database in use")
CONNECTIONS_LIMIT = _fullest("stable_arena_database_connections_limit", "Connections to the database there may be")


def expose() -> bytes:
    """Return the metrics in Prometheus' text format."""
    if not SHARED:
        return generate_latest(_registry)
    together = CollectorRegistry()
    MultiProcessCollector(together)  # type: ignore[no-untyped-call]  # the library has no types here
    return generate_latest(together)
