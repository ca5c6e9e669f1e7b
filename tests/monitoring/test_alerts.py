"""The alert rules ask for what the service tells, and the operator's page knows every one of them."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from httpx import Client
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from app.database.engine import Database
from app.votes.endpoints import VOTE_ROUTES

ROOT = Path(__file__).parents[2]
RULES = yaml.safe_load((ROOT / "monitoring" / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
DASHBOARD = json.loads((ROOT / "monitoring" / "grafana" / "stable-arena.json").read_text(encoding="utf-8"))
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


@pytest.fixture
def exposed(
    client: Client, keys: dict[str, str], crowd: list[str], refit: Callable[..., Any], database: Database
) -> dict[str, list[dict[str, str]]]:
    """Name → labels of the samples of a service that has published."""
    vote = {"model_a": "model 0", "model_b": "model 1", "winner": "tie", "annotator": "judge"}
    sent = client.post(
        "/api/v1/votes/batch", json={"votes": [vote]}, headers={"Authorization": f"Bearer {keys['ingest']}"}
    )
    assert sent.status_code == 200
    hook = {"url": "https://hooks.example.org/", "events": ["board.stale"]}
    made = client.post("/api/v1/webhooks", json=hook, headers={"Authorization": f"Bearer {keys['admin']}"})
    assert made.status_code == 201
    refit()
    with database.begin() as conn:  # as any refit with a rule that flags an annotator
        rules = '{"rules": {"ability": {"annotators": 1, "votes": 60}}}'
        conn.execute(text(f"UPDATE snapshots SET diagnostics = diagnostics || '{rules}'"))
    answer = client.get("/metrics", headers={"Authorization": f"Bearer {keys['read']}"})
    found: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


def test_every_alert_asks_for_what_there_is(exposed: dict[str, list[dict[str, str]]]) -> None:
    missing = []
    for rule in RULES:
        for name, selector in re.findall(r"\b(stable_arena_\w+)(?:\{([^}]*)\})?", rule["expr"]):
            wanted = dict(re.findall(r'(\w+)="([^"]*)"', selector))
            if name == "stable_arena_http_requests_total":
                wanted.pop("status", None)  # exposed after the first one
            if name == "stable_arena_http_request_duration_seconds_bucket":
                wanted["route"] += "/batch"  # the one that this test has called
            if not any(wanted.items() <= labels.items() for labels in exposed.get(name, [])):
                missing.append(f"{rule['alert']}: {name} {wanted}")
    assert not missing, "\n".join(missing)


def test_every_panel_of_the_dashboard_asks_for_what_there_is(exposed: dict[str, list[dict[str, str]]]) -> None:
    asked = {
        (panel["title"], name, label)
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
        for label, name in re.findall(r"(?:by \((\w+)\))?[^{]*?\b(stable_arena_\w+)", target["expr"])
    }
    assert len({name for _, name, _ in asked}) > 20
    for title, name, label in asked:
        assert name in exposed, f"{title}: {name}"
        if label and label != "le":
            assert any(label in labels for labels in exposed[name]), f"{title}: {name} has no label {label}"


def test_every_metric_of_the_service_is_documented(exposed: dict[str, list[dict[str, str]]]) -> None:
    ours = {re.sub(r"_(bucket|count|sum)$", "", name) for name in exposed if name.startswith("stable_arena_")}
    cells = re.findall(r"^- (`stable_arena_[^:]+`):\s", OPERATIONS, re.MULTILINE)
    documented = {name for cell in cells for name in re.findall(r"`(stable_arena_\w+)", cell)}
    assert {name for name in ours if not name.endswith("_created")} == documented


def test_every_alert_has_its_page_for_the_night() -> None:
    named = [rule["alert"] for rule in RULES]
    assert re.findall(r"^### (StableArena\w+)", OPERATIONS, re.MULTILINE) == named
    assert all(rule["labels"]["severity"] in ("page", "ticket") for rule in RULES)


def test_the_example_configuration_finds_the_rules() -> None:
    config = yaml.safe_load((ROOT / "monitoring" / "prometheus.yml").read_text(encoding="utf-8"))
    assert all((ROOT / "monitoring" / name).exists() for name in config["rule_files"])
    assert {job["job_name"] for job in config["scrape_configs"]} >= {"stable-arena"}


def test_refused_requests_are_held_against_requests() -> None:
    """A batch that is refused counts as one among the votes, and so do a thousand votes that are created."""
    (rule,) = [rule for rule in RULES if rule["alert"] == "StableArenaVotesRefused"]
    refused, together = rule["expr"].split(" > ")
    assert 'stable_arena_votes_total{status="refused"}' in refused
    (route,) = re.findall(r'stable_arena_http_requests_total\{method="POST",route=~"([^"]*)"\}', together)
    assert [path for path in VOTE_ROUTES if re.fullmatch(route, path)] == list(VOTE_ROUTES)


def test_the_first_server_error_is_told() -> None:
    """The series of a status begins with its first request, of which a rate knows nothing; and one must not last."""
    (rule,) = [rule for rule in RULES if rule["alert"] == "StableArenaServerErrors"]
    assert "for" not in rule
    assert re.search(r"increase\((\S+)\[15m\]\)\) > 0 or sum\(\1 unless \1 offset 15m\) > 0", rule["expr"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool, which comes with Prometheus, is not installed")
def test_what_the_alerts_make_of_figures() -> None:
    tests = ROOT / "monitoring" / "alerts_test.yml"
    done = subprocess.run(["promtool", "test", "rules", str(tests)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
