"""The report on exposure, over HTTP and at the command line."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from httpx import Client
from sqlalchemy import insert, text
from typer.testing import CliRunner

from app.battles.exposure.intended import show_probabilities
from app.battles.queries import add_candidate_sets
from app.cli.command import application
from app.database.engine import Database, database_time
from app.database.ids import new_id
from app.database.tables import battles
from app.rating.sampling.pair_weights import PairWeights
from app.snapshots.service import find_snapshot

Ask = Callable[..., dict[str, Any]]
Add = Callable[..., None]
HOUR = timedelta(hours=1)


@pytest.fixture
def add_battles(database: Database) -> Add:
    """Add battles of one pair that were drawn some hours ago, and that ended as said."""

    def add(count: int, pair: tuple[int, int], *, state: str = "voted", hours: float = 1, **values: Any) -> None:
        candidates = values.pop("candidates", (1, 2, 3, 4, 5, 6))
        with database.begin() as conn:
            (number,) = add_candidate_sets(conn, {candidates}).values()
            drawn = database_time(conn) - hours * HOUR
            rows = [
                {
                    "id": new_id(), "annotator_id": 1, "left_id": pair[0], "right_id": pair[1], "tags": [],
                    "candidate_set_id": number, "drawn_by": "uniform", "propensity": 0.1, "policy_version": 1,
                    "created_at": drawn, "expires_at": drawn + (5 if state == "open" else 0.5) * HOUR,
                    "vote_id": new_id() if state == "voted" else None,
                    "skip_reason": "failed" if state == "skipped" else None, **values,
                }
                for _ in range(count)
            ]  # fmt: skip
            conn.execute(insert(battles), rows)

    return add


@pytest.fixture
def ask(client: Client, keys: dict[str, str]) -> Ask:
    def get(status: int = 200, **query: Any) -> dict[str, Any]:
        answer = client.get("/api/v1/exposure", params=query, headers={"Authorization": f"Bearer {keys['review']}"})
        assert answer.status_code == status, answer.text
        return dict(answer.json())

    return get


def test_an_arena_without_battles(ask: Ask) -> None:
    report = ask()
    assert (report["total"]["offered"], report["models"], report["alarms"]) == (0, [], [])


def test_battles_are_counted_by_model_organization_tag_and_day(
    database: Database, stored_crowd: None, add_battles: Add, ask: Ask
) -> None:
    with database.begin() as conn:
        owner = "CASE WHEN id <= 2 THEN 'Acme' ELSE 'Beta' END"
        conn.execute(text(f"UPDATE models SET organization = {owner} WHERE id < 5"))
        conn.execute(text("UPDATE models SET archived_at = now() WHERE id = 6"))
    add_battles(3, (1, 2), tags=["english"])
    add_battles(2, (2, 3), state="skipped", tags=["english", "code"])
    add_battles(1, (3, 1), state="expired")
    add_battles(1, (1, 4), state="open")
    add_battles(9, (1, 2), hours=30)
    report = ask()
    assert report["total"] == {"offered": 7, "voted": 3, "skipped": 2, "expired": 1}
    models = {one["model"]: one for one in report["models"]}
    assert models.keys() == {f"model {i}" for i in range(5)}, "an archived model without battles is left out"
    assert [one["model"] for one in report["models"]][:2] == ["model 0", "model 1"]
    first = models["model 0"]
    assert (first["offered"], first["voted"], first["skipped"], first["expired"]) == (5, 3, 0, 1)
    # Drawn uniformly from 6 models, each model is in a third of 7 battles.
    assert (first["compared"], first["intended"]) == (5, pytest.approx(7 / 3))
    assert (first["candidate_share"], first["earlier_candidate_share"]) == (1.0, 1.0)
    organizations = [
        (one["organization"], one["models"], one["offered"], one["best"]) for one in report["organizations"]
    ]
    assert organizations == [("Acme", 2, 10, None), ("Beta", 2, 4, None)]
    assert [(one["tag"], one["offered"], one["skipped"]) for one in report["tags"]] == [
        ("english", 5, 2),
        ("code", 2, 2),
    ]
    assert sum(one["offered"] for one in report["days"]) == 7
    assert ask(tag="code")["total"]["offered"] == 2
    with database.read() as conn:
        now = database_time(conn)
    assert ask(since=(now - 40 * HOUR).isoformat())["total"]["offered"] == 16
    assert ask(until=(now - 20 * HOUR).isoformat())["total"]["offered"] == 9
    assert ask(since=now.isoformat(), until=now.isoformat(), status=422)["errors"][0]["pointer"] == "/since"
    assert ask(until="1980-01-01T00:00:00Z", status=422)["errors"][0]["pointer"] == "/until"
    assert ask(tag="\x00", status=422)["errors"][0]["pointer"] == "/tag"
    assert ask(snapshot="7", status=404)["type"] == "/problems/not-found"


def test_alarms(stored_crowd: None, add_battles: Add, ask: Ask) -> None:
    for pair in ((1, 2), (2, 3), (3, 1), (4, 5)):
        add_battles(60, pair, hours=30)
        add_battles(60, pair, candidates=(1, 2, 3, 4, 5))
    add_battles(60, (5, 1), state="skipped", candidates=(1, 2, 3, 4, 5))
    add_battles(60, (5, 2), state="expired", candidates=(1, 2, 3, 4, 5))
    found = {(alarm["code"], alarm["model"]) for alarm in ask()["alarms"]}
    assert found == {("dropped", "model 5"), ("unfinished", "model 4"), ("off-policy", "model 3")}
    assert ask(until="2020-01-01T00:00:00Z")["alarms"] == []


def test_what_a_snapshot_intended_and_the_best_of_many(
    client: Client,
    keys: dict[str, str],
    database: Database,
    stored_crowd: None,
    run_refit: Callable[..., Any],
    ask: Ask,
    on_database: None,
) -> None:
    run_refit()
    with database.begin() as conn:
        conn.execute(text("UPDATE models SET organization = 'Acme' WHERE id IN (1, 2, 3)"))
    headers = {"Authorization": f"Bearer {keys['ingest']}"}
    for number in range(60):
        body = {"annotator": f"new {number}", "tags": ["english"]}
        assert client.post("/api/v1/battles", json=body, headers=headers).status_code == 201
    with database.read() as conn:
        snapshot = find_snapshot(conn)
        drawn = conn.execute(text("SELECT drawn_by, snapshot_id, propensity FROM battles")).all()
    assert {row.drawn_by for row in drawn} == {"mixed", "calibration"}
    assert {row.snapshot_id for row in drawn} == {snapshot.id}
    report = ask(snapshot=str(snapshot.number))
    assert report["snapshot"] == snapshot.number
    assert sum(one["intended"] for one in report["models"]) == pytest.approx(120)
    spread = np.std([one["intended"] for one in report["models"]])
    assert spread > 1, "the policy prefers some models"
    assert [alarm["code"] for alarm in report["alarms"]] == []
    (acme,) = report["organizations"]
    board = client.get("/api/v1/leaderboard").json()["models"]
    best = next(row for row in board if row["model"] in {"model 0", "model 1", "model 2"})
    assert (acme["best"]["model"], acme["best"]["score"]) == (best["model"], pytest.approx(best["score"]))
    adjusted = acme["best"]
    assert adjusted["adjusted_lower"] < adjusted["adjusted_score"] <= adjusted["score"] < adjusted["adjusted_upper"]
    arguments = ["battles", "exposure", "--snapshot", str(snapshot.number)]
    table = CliRunner().invoke(application, arguments).stdout
    assert all(word in table for word in ("model 5", "Acme", "english", f"{adjusted['adjusted_score']:.1f}"))
    printed = json.loads(CliRunner().invoke(application, [*arguments, "--format", "json"]).stdout)
    assert printed["total"] == report["total"]


def test_the_probability_of_being_shown_is_the_sum_over_pairs() -> None:
    weights = {(7, 8): 1.0, (7, 9): 2.0, (8, 9): 5.0}
    table = PairWeights(np.array([7, 8, 9]), np.array(list(weights.values()), np.float16), np.array([0.0, 2.4, np.nan]))
    by_hand = [sum(w for pair, w in weights.items() if model in pair) / 8 for model in (7, 8, 9)]
    assert show_probabilities(table, calibrating=False).tolist() == pytest.approx(by_hand)
    assert show_probabilities(table, calibrating=True).tolist() == [1, 1, 0], "only one pair has scores"
