"""Metrics that a process keeps of its own work. Several processes of one server add theirs up.

They add up where PROMETHEUS_MULTIPROC_DIR is set. prometheus-client looks for it when it is imported, so the metrics
belong to the process, not to an application.
"""

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

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
from starlette.types import Scope

from app.http.paths import PREFIX

SHARED = "PROMETHEUS_MULTIPROC_DIR" in os.environ
"""Whether several processes add up their metrics."""

VOTE_ROUTES = {f"{PREFIX}/votes": "single", f"{PREFIX}/votes/batch": "batch"}
_NO_ROUTE = "none"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_FIRST_REFUSAL = 400
_NOT_VALID = frozenset({400, 422})
_ANSWERED = "votes_answered"

disable_created_metrics()  # type: ignore[no-untyped-call]  # a creation time beside every count, which has no reader
_registry = CollectorRegistry()
if not SHARED:
    ProcessCollector(registry=_registry)

_requests = Counter(
    "stable_arena_http_requests",
    'Requests answered. route is the template; "none" if a request was refused before its route was found.',
    ("method", "route", "status"),
    registry=_registry,
)
_durations = Histogram(
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
_VOTES = {
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
BATCH_BYTES = _fullest("stable_arena_batch_bytes", "Bytes of batches in work")
BATCH_LIMIT = _fullest("stable_arena_batch_limit_bytes", "Bytes of batches that may be in work; more get 503")
CONNECTIONS = _fullest("stable_arena_database_connections", "Connections to the database in use")
CONNECTIONS_LIMIT = _fullest("stable_arena_database_connections_limit", "Connections to the database there may be")


def note_votes(scope: Scope, counts: Mapping[str, int]) -> None:
    """Remember how many of the request's votes have each status. A replayed answer has none."""
    scope[_ANSWERED] = counts


def count_request(scope: Scope, status: int, seconds: float) -> None:
    """Count a request that was answered, and its votes."""
    route = _template(scope)
    method: str = scope["method"]
    if method not in _METHODS:
        method = "other"  # callers may invent methods
    requests, durations = _labelled(method, route, int(status))
    requests.inc()
    durations.observe(seconds)
    source = VOTE_ROUTES.get(route)
    if source is not None and method == "POST":
        _count_votes(source, scope.get(_ANSWERED), status)


def expose() -> bytes:
    """Return the metrics in Prometheus' text format."""
    if not SHARED:
        return generate_latest(_registry)
    together = CollectorRegistry()
    MultiProcessCollector(together)  # type: ignore[no-untyped-call]  # the library has no types here
    return generate_latest(together)


@cache  # methods, routes and statuses are few; `labels` takes as long as the counting
def _labelled(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    return _requests.labels(method, route, str(status)), _durations.labels(method, route)


def _count_votes(source: str, counts: Mapping[str, int] | None, status: int) -> None:
    if counts is not None:
        for name, count in counts.items():
            _VOTES[source, name].inc(count)
    elif status >= _FIRST_REFUSAL:
        _VOTES[source, "invalid" if status in _NOT_VALID and source == "single" else "refused"].inc()


def _template(scope: Scope) -> str:
    route: Any = scope.get("route")
    if route is None:
        return _NO_ROUTE
    path: str = route.path_format  # as the API description has it
    # A route of an included router has its path without the router's prefix.
    return path if path.startswith(PREFIX) or not scope["path"].startswith(PREFIX) else PREFIX + path
