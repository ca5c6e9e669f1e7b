"""The metrics that Prometheus reads, and whether they are true."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import Client
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from app.auth.callers import KnownCallers
from app.auth.tokens import authenticate_any
from app.database.engine import Database
from app.main import create_app
from app.monitoring.cache import FiguresCache
from app.monitoring.service import read_figures
from app.settings import Settings
from app.snapshots.vote_sets import seconds_since_first_vote, seconds_with_more_votes_than

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
STATUSES = ("created", "duplicate", "conflict", "invalid", "refused")
Scrape = Callable[[], Samples]


def samples_of(content: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(content)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((f"stable_arena_{name}", tuple(sorted(labels.items()))), 0.0)


@pytest.fixture
def scrape(client: Client, keys: dict[str, str]) -> Scrape:
    def read() -> Samples:
        answer = client.get("/metrics", headers={"Authorization": f"Bearer {keys['read']}"})
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/plain")
        return samples_of(answer.text)

    return read


@pytest.fixture
def growth(scrape: Scrape) -> Callable[..., float]:
    """How much a counter has grown until it is first asked: counts are the process's, and other tests count too."""
    before, after = scrape(), cache(scrape)
    return lambda name, **labels: value(after(), name, **labels) - value(before, name, **labels)


def test_votes_are_counted_by_what_became_of_them(ask: Any, growth: Callable[..., float]) -> None:
    vote = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k", "battle_id": "1"}
    assert ask("POST", "/votes", json=vote).status_code == 201
    assert ask("POST", "/votes", json=vote).status_code == 200
    assert ask("POST", "/votes", json={**vote, "winner": "model_a"}).status_code == 409
    assert ask("POST", "/votes", json={**vote, "winner": "nobody"}).status_code == 422
    assert ask("POST", "/votes", json=vote, scope="read").status_code == 403
    for _ in range(2):  # the second is answered from memory and counts as nothing
        keyed = {"headers": {"Idempotency-Key": "once"}, "json": {**vote, "battle_id": "2"}}
        assert ask("POST", "/votes", **keyed).status_code == 201
    single = {name: growth("votes_total", source="single", status=name) for name in STATUSES}
    assert single == {"created": 2, "duplicate": 1, "conflict": 1, "invalid": 1, "refused": 1}


def test_batches_are_counted_by_vote(ask: Any, growth: Callable[..., float]) -> None:
    vote = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k", "battle_id": "1"}
    votes = [vote, vote, {**vote, "winner": "model_a"}, {**vote, "winner": "nobody"}, {**vote, "battle_id": "2"}]
    for _ in range(2):
        assert ask("POST", "/votes/batch", json={"votes": votes}, headers={"Idempotency-Key": "b"}).status_code == 200
    assert ask("POST", "/votes/batch", json={"votes": votes}, scope="read").status_code == 403
    batch = {name: growth("votes_total", source="batch", status=name) for name in STATUSES}
    assert batch == {"created": 2, "duplicate": 1, "conflict": 1, "invalid": 1, "refused": 1}


def test_requests_are_counted_by_route_and_never_by_path(
    client: Client, ask: Any, scrape: Scrape, growth: Callable[..., float]
) -> None:
    ask("GET", "/annotators/somebody-secret")
    ask("GET", "/snapshots/3")
    ask("PUT", "/snapshots/3")
    client.get("/nowhere/at/all")
    client.request("BREW", "/nowhere")
    requests = "http_requests_total"
    assert growth(requests, method="GET", route="/api/v1/annotators/{annotator}", status="404") == 1
    assert growth(requests, method="GET", route="/api/v1/snapshots/{reference}", status="404") == 1
    assert growth(requests, method="PUT", route="/api/v1/snapshots/{reference}", status="405") == 1
    assert growth(requests, method="GET", route="none", status="404") == 1
    assert not [labels for _, labels in scrape() if dict(labels).get("method") == "BREW"]
    routes = {dict(labels).get("route") for _, labels in scrape()}
    assert not [route for route in routes if route and ("secret" in route or "nowhere" in route)]
    count = growth("http_request_duration_seconds_count", method="GET", route="/api/v1/snapshots/{reference}")
    assert count == 1


def test_who_may_read_is_a_setting(
    client: Client, keys: dict[str, str], settings: Settings, serving: Callable[[FastAPI], Any], assert_problem: Any
) -> None:
    assert_problem(client.get("/metrics"), 401, "not-authenticated")
    ingest = {"Authorization": f"Bearer {keys['ingest']}"}
    assert_problem(client.get("/metrics", headers=ingest), 403, "scope-missing")
    public = create_app(settings.model_copy(update={"public_metrics": True}))
    with serving(public) as url, Client(base_url=url, timeout=120) as anyone:
        assert anyone.get("/metrics").status_code == 200
        assert_problem(anyone.get("/metrics", headers={"Authorization": "Bearer sa_wrong"}), 401, "not-authenticated")


def test_the_database_s_figures(ask: Any, crowd: list[str], refit: Any, vote: Any, scrape: Scrape) -> None:
    assert refit()["state"] == "done"
    vote()
    samples = scrape()
    assert value(samples, "database_up") == 1
    assert value(samples, "snapshot_number") == 1
    assert 0 <= value(samples, "snapshot_age_seconds") < 60
    assert value(samples, "votes_not_in_board") == 1
    assert value(samples, "board_stale") == 0
    assert value(samples, "refit_duration_seconds_count", state="done") == 1
    assert value(samples, "refit_last_state", state="done") == 1
    assert value(samples, "refit_last_state", state="failed") == 0
    stages = {name: value(samples, "refit_stage_duration_seconds_sum", stage=name) for name in ("read", "publish")}
    assert all(seconds > 0 for seconds in stages.values()), stages
    assert value(samples, "board_votes", status="used") > 0
    assert value(samples, "database_connections_limit") > 0
    assert value(samples, "vote_queue_limit_votes") == 10_000
    assert (value(samples, "vote_queue_votes"), value(samples, "battle_queue_battles")) == (0, 0)


def test_a_first_board_that_nobody_makes_is_stale(
    ask: Any, crowd: list[str], change_policy: Any, database: Database
) -> None:
    def stale(**changes: float) -> bool:
        change_policy(**changes)
        with database.read() as conn:
            return read_figures(conn).board_is_stale

    assert not stale(stale_after_seconds=3600)
    assert stale(stale_after_seconds=0.001)
    assert not stale(stale_after_seconds=0.001, min_votes=10_000)  # none can be made yet: the schedule waits as well


def test_a_first_board_is_late_from_when_it_could_be_made(crowd: list[str], database: Database) -> None:
    with database.read() as conn:
        ages = [seconds_with_more_votes_than(conn, votes) for votes in (0, 50)]
        first = seconds_since_first_vote(conn)
        assert seconds_with_more_votes_than(conn, 10_000) is None
    assert first is not None
    assert ages[0] is not None
    assert ages[1] is not None
    assert first >= ages[0] >= ages[1] > 0


def test_rules_are_told_by_their_share_of_the_votes(
    crowd: list[str], refit: Any, database: Database, scrape: Scrape
) -> None:
    refit()
    with database.begin() as conn:
        rules = '{"rules": {"ability": {"annotators": 2, "votes": 240}}, "alarms": [{"rule": "ability"}]}'
        conn.execute(text(f"UPDATE snapshots SET diagnostics = diagnostics || '{rules}', votes_read = 1200"))
    samples = scrape()
    assert value(samples, "rule_votes_ratio", rule="ability") == pytest.approx(0.2)
    assert value(samples, "rule_annotators", rule="ability") == 2
    assert value(samples, "rule_alarm", rule="ability") == 1


@pytest.mark.own_database
def test_without_the_database_the_process_tells_of_itself(
    settings: Settings,
    serving: Callable[[FastAPI], Any],
    closed_database: Callable[[], Any],
    keys: dict[str, str],
) -> None:
    app = create_app(settings)
    known, other = ({"Authorization": f"Bearer {keys[scope]}"} for scope in ("read", "admin"))
    with serving(app) as url, Client(base_url=url, timeout=120) as client:
        process = app.state.process
        process[KnownCallers] = KnownCallers(partial(authenticate_any, process[Database]), seconds=0)
        process[FiguresCache] = figures = FiguresCache(process[Database], keep_seconds=0)
        process.closing.callback(figures.close)
        assert value(samples_of(client.get("/metrics", headers=known).text), "database_up") == 1
        with closed_database():
            answer = client.get("/metrics", headers=known)
            assert answer.status_code == 200
            samples = samples_of(answer.text)
            assert ("stable_arena_database_up", ()) in samples
            assert value(samples, "database_up") == 0
            assert value(samples, "vote_queue_limit_votes") == 10_000
            assert ("stable_arena_snapshot_number", ()) not in samples
            assert client.get("/metrics", headers=other).status_code == 503  # no check of the key is possible
        assert value(samples_of(client.get("/metrics", headers=known).text), "database_up") == 1


COUNT = """
from app.guard import process_metrics
from app.guard.middleware import count_request
from app.votes.endpoints import note_votes, post_vote
from app.votes.service import QUEUED_VOTES

class Route:
    path_format = "/api/v1/votes"
    endpoint = post_vote

scope = {"method": "POST", "path": "/api/v1/votes", "route": Route}
note_votes(scope, {"created": 1})
count_request(scope, 201, 0.02)
QUEUED_VOTES.set(%d)
print(process_metrics.expose().decode())
"""


@pytest.mark.campaign
def test_processes_of_one_server_are_counted_together(tmp_path: Path) -> None:
    shared = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for waiting in (7, 3):
        ran = subprocess.run(
            [sys.executable, "-c", COUNT % waiting], env=shared, capture_output=True, text=True, check=True
        )
    samples = samples_of(ran.stdout)
    assert value(samples, "votes_total", source="single", status="created") == 2
    assert value(samples, "http_requests_total", method="POST", route="/api/v1/votes", status="201") == 2
    buckets = {"method": "POST", "route": "/api/v1/votes"}
    assert value(samples, "http_request_duration_seconds_bucket", le="0.01", **buckets) == 0
    assert value(samples, "http_request_duration_seconds_bucket", le="0.025", **buckets) == 2
    assert value(samples, "http_request_duration_seconds_sum", **buckets) == pytest.approx(0.04)
    assert value(samples, "vote_queue_votes") == 7
