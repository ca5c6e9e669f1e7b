"""What a process counts of its own work. Several processes of one server add up where PROMETHEUS_MULTIPROC_DIR is set.

Of the process, not of an application: prometheus-client decides at its import where counts are kept.
"""

import os
from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
"""Whether this process is one of several that are counted together."""

_NO_ROUTE = "none"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_VOTE_ROUTES = {f"{PREFIX}/votes": "single", f"{PREFIX}/votes/batch": "batch"}
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_FIRST_REFUSAL = 400
_NOT_VALID = frozenset({400, 422})
_TEMPLATE, _ANSWERED = "route_template", "votes_answered"

disable_created_metrics()  # type: ignore[no-untyped-call]  # a time beside every count, which nobody here asks for
_registry = CollectorRegistry()
if not SHARED:
    ProcessCollector(registry=_registry)


class _Durations(Histogram):
    """A histogram that takes many observations at once."""

    def add(self, counts: Sequence[int], seconds: float) -> None:
        """Add so many observations to each bucket, and the sum of them all."""
        self._sum.inc(seconds)
        for bucket, count in zip(self._buckets, counts, strict=True):
            if count:
                bucket.inc(count)


@dataclass(slots=True)
class _Tally:
    """Requests of one method, route and status since the last `settle`."""

    requests: int = 0
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS) + 1))


_requests = Counter(
    "stable_arena_http_requests",
    'Requests answered. route is the template; "none" where a request was refused before one was found.',
    ("method", "route", "status"),
    registry=_registry,
)
_durations = _Durations(
    "stable_arena_http_request_duration_seconds",
    "From a request's head to the last byte of its answer.",
    ("method", "route"),
    buckets=_BOUNDS,
    registry=_registry,
)
_votes = Counter(
    "stable_arena_votes",
    "Votes by what they were answered. A request that was refused before its votes were looked at counts as one.",
    ("source", "status"),
    registry=_registry,
)
# All of them from the beginning: a rate can be told only of what was 0 before.
_VOTES = {
    (source, status): _votes.labels(source, status)
    for source in _VOTE_ROUTES.values()
    for status in ("created", "duplicate", "conflict", "invalid", "refused")
}


def _fullest(name: str, description: str) -> Gauge:
    return Gauge(
        name, f"{description} (of several processes the highest)", registry=_registry, multiprocess_mode="livemax"
    )


QUEUED_VOTES = _fullest("stable_arena_vote_queue_votes", "Single votes that wait for their commit")
QUEUE_LIMIT = _fullest("stable_arena_vote_queue_limit_votes", "Single votes that may wait; past it requests get 503")
BATCH_BYTES = _fullest("stable_arena_batch_bytes", "Bytes of batches in work")
BATCH_LIMIT = _fullest(
    "stable_arena_batch_limit_bytes", "Bytes of batches that may be in work; past it requests get 503"
)
CONNECTIONS = _fullest("stable_arena_database_connections", "Connections to the database in use")
CONNECTIONS_LIMIT = _fullest("stable_arena_database_connections_limit", "Connections to the database there may be")

# A request is counted in plain numbers, which costs a tenth of what the library's do where processes share them.
_tallies: dict[tuple[str, str, int], _Tally] = {}
_vote_tally: Counts[tuple[str, str]] = Counts()


def note_votes(scope: Scope, counts: Mapping[str, int]) -> None:
    """Remember what became of the request's votes, by status; of an answer given again there are none."""
    scope[_ANSWERED] = counts


def count_request(scope: Scope, status: int, seconds: float) -> None:
    """Count a request that was answered, and its votes."""
    route = scope.get(_TEMPLATE) or _template(scope)
    method: str = scope["method"]
    if method not in _METHODS:
        method = "other"  # callers may make methods up
    key = method, route, status
    tally = _tallies.get(key)
    if tally is None:
        tally = _tallies[key] = _Tally()
    tally.requests += 1
    tally.seconds += seconds
    tally.buckets[bisect_left(_BOUNDS, seconds)] += 1
    source = _VOTE_ROUTES.get(route)
    if source is not None and method == "POST":
        _count_votes(source, scope.get(_ANSWERED), status)


def settle() -> None:
    """Hand over what was counted since the last time; to be called where requests are counted, before `expose`."""
    for (method, route, status), tally in _tallies.items():
        _requests.labels(method, route, str(int(status))).inc(tally.requests)
        _durations.labels(method, route).add(tally.buckets, tally.seconds)
    _tallies.clear()
    for answered, count in _vote_tally.items():
        _VOTES[answered].inc(count)
    _vote_tally.clear()


def expose() -> bytes:
    """Return what was counted, in Prometheus' text format."""
    if not SHARED:
        return generate_latest(_registry)
    together = CollectorRegistry()
    MultiProcessCollector(together)  # type: ignore[no-untyped-call]  # the library has no types here
    return generate_latest(together)


def _count_votes(source: str, counts: Mapping[str, int] | None, status: int) -> None:
    if counts is None:
        if status >= _FIRST_REFUSAL:
            _vote_tally[source, "invalid" if status in _NOT_VALID and source == "single" else "refused"] += 1
        return
    for name, count in counts.items():
        _vote_tally[source, name] += count


def _template(scope: Scope) -> str:
    route: Any = scope.get("route")
    if route is None:
        return _NO_ROUTE
    path: str = route.path_format  # as the API description has it
    # A route inside an included router says its path without the router's prefix.
    return path if path.startswith(PREFIX) or not scope["path"].startswith(PREFIX) else PREFIX + path
