"""The service's figures as metric families of Prometheus."""

from collections.abc import Iterator, Mapping
from typing import get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import app
from app.monitoring.service import ServiceFigures, SnapshotFigures
from app.refits.schemas import RefitState

_ENDED = tuple(state for state in get_args(RefitState) if state not in ("queued", "reading", "fitting", "publishing"))
_IMPORTS_WAITING = ("receiving", "queued", "running")


def expose_figures(figures: ServiceFigures | None) -> bytes:
    """Return the figures in the text format of Prometheus; None means that the database did not give them."""
    registry = CollectorRegistry()
    registry.register(_Figures(figures))
    return generate_latest(registry)


class _Figures(Collector):
    def __init__(self, figures: ServiceFigures | None) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        yield _gauge("build_info", "The version of the service", {app.__version__: 1}, "version")
        yield _gauge("database_up", "Whether the database gave the figures below", float(self._figures is not None))
        if self._figures is not None:
            yield from _refits(self._figures)
            yield from _queues(self._figures)
            yield from _leaderboard(self._figures)


def _refits(figures: ServiceFigures) -> Iterator[Metric]:
    refits = dict.fromkeys(_ENDED, (0, 0.0)) | dict(figures.refits)
    yield _summary("refit_duration_seconds", "Refits that ended, from their beginning, by how", "state", refits)
    stages = dict(figures.stages)
    yield _summary("refit_stage_duration_seconds", "Stages of the refits that published", "stage", stages)
    last = figures.last_refit
    if last is not None:
        is_last = {state: float(state == last[0]) for state in _ENDED}
        yield _gauge("refit_last_state", "1 for how the refit that ended last did", is_last, "state")
        yield _gauge("refit_last_ended_age_seconds", "Since a refit ended, however it did", last[1])
    yield _gauge("refits_waiting", "Refits asked for and not begun", figures.refits_waiting)
    waiting = max(figures.refit_waiting_seconds, 0.0)
    yield _gauge("refit_waiting_seconds", "For how long the first of them waits", waiting)
    yield _gauge("refits_running", "Refits on record as running", figures.refits_running)
    yield _gauge("refit_running_seconds", "For how long the first of them runs", figures.refit_running_seconds)
    yield _gauge("refit_interval_seconds", "The policy's interval of scheduled refits", figures.refit_interval_seconds)


def _queues(figures: ServiceFigures) -> Iterator[Metric]:
    waiting = {state: figures.imports.get(state, 0) for state in _IMPORTS_WAITING}
    yield _gauge("imports", "Imports under way, by state", waiting, "state")
    ended = {state: figures.imports.get(state, 0) for state in ("done", "failed")}
    yield _counter("imports_ended", "Imports that ended, by how", "state", ended)
    words = {"created": "created", "duplicates": "duplicate", "conflicts": "conflict", "rejected": "invalid"}
    imported = {status: figures.imported.get(name, 0) for name, status in words.items()}
    yield _counter("imported_votes", "Records of imported files, by what became of them", "status", imported)
    deliveries = figures.deliveries
    yield _gauge("webhook_deliveries_waiting", "Messages to webhooks on their way", deliveries.get("waiting", 0))
    delays = GaugeMetricFamily(
        "stable_arena_webhook_oldest_waiting_seconds",
        "For how long a webhook's oldest message waits",
        labels=["webhook", "receiver"],
    )
    for delay in figures.webhook_delays:
        delays.add_metric([str(delay.webhook), delay.receiver], delay.seconds)
    yield delays
    ended_deliveries = {status: deliveries.get(status, 0) for status in ("delivered", "given_up")}
    yield _counter("webhook_deliveries", "Messages to webhooks, by how they ended", "status", ended_deliveries)


def _leaderboard(figures: ServiceFigures) -> Iterator[Metric]:
    yield _gauge(
        "votes_not_in_board", "Votes on record that are not in the newest snapshot", figures.votes_not_in_board
    )
    stale = "Whether votes wait and the leaderboard is older than the policy allows, or is from the future"
    yield _gauge("board_stale", stale, figures.board_is_stale)
    if figures.newest is not None:
        yield from _snapshot(figures.newest)


def _snapshot(newest: SnapshotFigures) -> Iterator[Metric]:
    yield _gauge("snapshot_number", "Number of the newest snapshot", newest.number)
    yield _gauge("snapshot_published_timestamp_seconds", "When it was published", newest.published_at)
    age, ahead = max(newest.age_seconds, 0.0), max(-newest.age_seconds, 0.0)
    yield _gauge("snapshot_age_seconds", "For how long it has been the newest", age)
    yield _gauge("snapshot_ahead_seconds", "How far in the future it was published: the clock was ahead", ahead)
    yield _gauge("board_votes", "Votes it read, by what became of them", newest.votes, "status")
    annotators = {rule: annotators for rule, (annotators, _) in newest.rules.items()}
    yield _gauge("rule_annotators", "Annotators that a rule flags or excludes", annotators, "rule")
    shares = {rule: share for rule, (_, share) in newest.rules.items()}
    yield _gauge("rule_votes_ratio", "Their votes as a share of those read", shares, "rule")
    alarms = {rule: float(rule in newest.alarms) for rule in newest.rules.keys() | newest.alarms}
    yield _gauge("rule_alarm", "Whether the share had jumped when it was published", alarms, "rule")


def _gauge(name: str, what: str, value: float | Mapping[str, float], label: str | None = None) -> Metric:
    family = GaugeMetricFamily(f"stable_arena_{name}", what, labels=None if label is None else [label])
    for labelled, each in value.items() if isinstance(value, Mapping) else [(None, value)]:
        family.add_metric([] if labelled is None else [labelled], each)
    return family


def _counter(name: str, what: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(f"stable_arena_{name}", what, labels=[label])
    for labelled, value in values.items():
        family.add_metric([labelled], value)
    return family


def _summary(name: str, what: str, label: str, values: Mapping[str, tuple[int, float]]) -> Metric:
    family = SummaryMetricFamily(f"stable_arena_{name}", what, labels=[label])
    for labelled, (count, seconds) in values.items():
        family.add_metric([labelled], count, seconds)
    return family
