import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.exports.runner import ExportRunner
from app.imports.formats.whole import read_vote_file
from app.votes.prompts import prompt_key

Ask = Callable[..., Any]
AssertProblem = Callable[..., dict[str, Any]]

COLUMNS = [
    "vote_id", "annotator", "model_a", "model_b", "winner", "battle_id", "timestamp", "tags", "metadata", "received_at",
    "sealed", "propensity", "contestant_a", "contestant_b", "features", "criterion",
    "prompt",
]  # fmt: skip
VOTES = [
    {"annotator": "=k", "model_a": "-a", "model_b": "b%b", "winner": "model_a", "battle_id": "'1"},
    {"annotator": "'=k", "model_a": "b%b", "model_b": "@c,\"", "winner": "tie (bothbad)"},
    {
        "annotator": "＝l", "model_a": "-a", "model_b": "'quoted", "winner": "tie", "battle_id": "2",
        "voted_at": "2026-01-02T03:04:05.000006+01:00", "tags": ["x", "=y;z"], "metadata": {"turn": 1, "é": "\\\"\n"},
        "features": {"length": [120, 80.5]}, "prompt": "¿Qué?",
    },
]  # fmt: skip


@pytest.fixture
def export_runner(database: Database) -> ExportRunner:
    return ExportRunner(database, lease_seconds=30, keep_days=7)


@pytest.fixture
def recorded(ask: Ask) -> list[str]:
    """Three votes with awkward names; returns their ids."""
    return [ask("POST", "/votes", json=vote).json()["id"] for vote in VOTES]


@pytest.fixture
def export(ask: Ask, export_runner: ExportRunner, tmp_path: Path) -> Callable[..., Path]:
    """Have a file made and download it."""

    def make(what: str, form: str, **filters: Any) -> Path:
        asked = ask("POST", "/exports", scope="review", json={"what": what, "format": form, "filters": filters})
        assert asked.status_code == 202, asked.text
        assert str(export_runner.run_next()) == asked.json()["id"]
        assert asked.headers["location"] == f"/api/v1/exports/{asked.json()['id']}"
        done = ask("GET", f"/exports/{asked.json()['id']}", scope="review").json()
        assert done["state"] == "done", done
        answer = ask("GET", f"/exports/{done['id']}/file", scope="review")
        assert len(answer.content) == done["bytes"]
        path = tmp_path / f"{what}.{form}"
        path.write_bytes(answer.content)
        return path

    return make


def test_votes_as_csv_are_safe_for_spreadsheets(export: Callable[..., Path], recorded: list[str]) -> None:
    content = export("votes", "csv").read_text()
    rows = list(csv.DictReader(io.StringIO(content)))
    assert list(rows[0]) == COLUMNS
    assert [row["vote_id"] for row in rows] == recorded
    assert not [cell for row in rows for cell in row.values() if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert (rows[0]["annotator"], rows[0]["model_a"], rows[0]["battle_id"]) == ("'=k", "'-a", "''1")
    assert rows[2]["annotator"] == "'＝l"
    assert rows[2]["timestamp"] == "2026-01-02T02:04:05.000006Z"


def test_full_width_signs_are_safe_too(ask: Ask, export: Callable[..., Path]) -> None:
    vote = {"annotator": "\uff20k", "model_a": "\uff1da", "model_b": "\uff0bb", "battle_id": "\uff0d1"}
    assert ask("POST", "/votes", json={**vote, "winner": "tie"}).status_code == 201
    path = export("votes", "csv")
    (row,) = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
    assert {name: row[name] for name in vote} == {name: f"'{text}" for name, text in vote.items()}
    assert read_vote_file(path).frame.select(*vote).row(0, named=True) == vote


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_what_was_exported_is_read_back_as_it_was(export: Callable[..., Path], recorded: list[str], form: str) -> None:
    file = read_vote_file(export("votes", form))
    assert (file.rejected, file.duplicates) == (0, 0)
    assert file.frame.select("annotator", "model_a", "model_b", "battle_id").rows() == [
        (vote["annotator"], vote["model_a"], vote["model_b"], vote.get("battle_id")) for vote in VOTES
    ]
    assert file.frame["outcome"].to_list() == [0, 3, 2]
    last = file.frame.row(2, named=True)
    assert last["voted_at"].isoformat() == "2026-01-02T02:04:05.000006+00:00"
    assert (last["tags"], json.loads(last["metadata"])) == (VOTES[2]["tags"], VOTES[2]["metadata"])
    assert json.loads(last["features"]) == VOTES[2]["features"]
    assert file.frame["prompt"].to_list() == [None, None, prompt_key("¿Qué?")]
    assert file.frame.select("metadata", "features").rows()[:2] == [(None, None)] * 2


def test_jsonl_is_json_a_line(export: Callable[..., Path], recorded: list[str]) -> None:
    rows = [json.loads(line) for line in export("votes", "jsonl").read_text().splitlines()]
    assert [list(row) for row in rows] == [COLUMNS] * 3
    assert rows[2]["metadata"] == VOTES[2]["metadata"]
    assert rows[2]["tags"] == ["x", "=y;z"]


def test_parquet_has_types(export: Callable[..., Path], recorded: list[str]) -> None:
    schema = pl.read_parquet_schema(export("votes", "parquet"))
    assert schema["timestamp"] == schema["received_at"] == pl.Datetime("us", "UTC")
    assert schema["tags"] == pl.List(pl.String)


def test_filters(export: Callable[..., Path], ask: Ask, recorded: list[str], assert_problem: Ask) -> None:
    def ids(**filters: Any) -> list[str]:
        return [json.loads(line)["vote_id"] for line in export("votes", "jsonl", **filters).read_text().splitlines()]

    assert ids(model='@c,"') == [recorded[1]]
    assert ask("POST", "/models/-a/aliases", json={"name": "b %"}).status_code == 201
    assert ids(model="b %") == ids(model="-a")
    assert len(ids(model="-a")) == 2
    assert_problem(
        ask("POST", "/exports", json={"what": "votes", "format": "csv", "filters": {"model": "o'x\\"}}),
        404,
        "not-found",
    )
    received = [json.loads(line)["received_at"] for line in export("votes", "jsonl").read_text().splitlines()]
    assert ids(since=received[1]) == recorded[1:]
    assert ids(until=received[1]) == recorded[:1]
    assert ask("POST", f"/votes/{recorded[0]}/retract", json={"reason": "a test"}).status_code in (200, 201)
    assert ids() == recorded[1:]


def test_a_snapshots_votes_are_exactly_those_it_was_made_of(
    export: Callable[..., Path], ask: Ask, crowd: list[str], refit: Ask, vote: Callable[..., None]
) -> None:
    number = refit()["snapshot_number"]
    vote(annotator="late")
    assert len(export("votes", "jsonl").read_text().splitlines()) == 14 * 120 + 1
    lines = export("votes", "jsonl", snapshot=str(number)).read_text().splitlines()
    assert len(lines) == 14 * 120
    assert not [line for line in lines if "late" in line]


@pytest.mark.comparisons
def test_annotators_and_leaderboard(export: Callable[..., Path], ask: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    rows = pl.read_csv(export("annotators", "csv"))
    assert rows["annotator"].to_list() == sorted(crowd)
    assert rows["votes"].to_list() == [120] * len(crowd)
    flagged = [json.loads(line) for line in export("annotators", "jsonl", standing="flagged").read_text().splitlines()]
    assert {row["annotator"] for row in flagged} == {key for key in crowd if key.startswith("flip")}
    typed = pl.read_parquet(export("annotators", "parquet"))
    assert typed["ability"].dtype == pl.Float64
    board = [row["model"] for row in ask("GET", "/leaderboard").json()["models"]]
    assert pl.read_csv(export("leaderboard", "csv"))["model"].to_list() == board
    assert pl.read_parquet(export("leaderboard", "parquet"))["model"].to_list() == board
    lines = export("leaderboard", "jsonl", method="m-elo").read_text().splitlines()
    assert {json.loads(line)["model"] for line in lines} == set(board)


def test_negative_numbers_in_csv_are_numbers(
    export: Callable[..., Path], ask: Ask, crowd: list[str], refit: Ask
) -> None:
    ask("POST", "/annotators/flip 12/decisions", json={"action": "reinstate", "reason": "a test"})
    ask("POST", "/annotators/flip 13/decisions", json={"action": "exclude", "reason": "a test"})
    vote = {"model_a": "model 0", "model_b": "model 1", "winner": "tie", "annotator": "-1+1"}
    assert ask("POST", "/votes", json=vote).status_code == 201
    refit()
    rows = {row["annotator"]: row for row in csv.DictReader(io.StringIO(export("annotators", "csv").read_text()))}
    assert float(rows["flip 12"]["ability"]) < 0
    assert float(rows["flip 13"]["shadow_ability"]) < 0
    assert "'-1+1" in rows, "texts are made safe all the same"
    board = {row["model"]: row for row in csv.DictReader(io.StringIO(export("leaderboard", "csv").read_text()))}
    scores = {row["model"]: row["score"] for row in ask("GET", "/leaderboard").json()["models"]}
    assert {name: float(row["score"]) for name, row in board.items()} == pytest.approx(scores)


def test_the_exact_set_of_votes_is_named(ask: Ask, export_runner: ExportRunner, recorded: list[str]) -> None:
    export_id = ask("POST", "/exports", json={"what": "votes"}).json()["id"]
    export_runner.run_next()
    done = ask("GET", f"/exports/{export_id}").json()
    assert (done["rows"], done["format"]) == (3, "csv")
    xmin, xmax, _ = done["options"]["vote_set"].split(":")
    assert int(xmin) <= int(xmax)


def test_what_is_refused(ask: Ask, export_runner: ExportRunner, assert_problem: AssertProblem) -> None:
    body = {"what": "votes"}
    assert_problem(ask("POST", "/exports", scope=None, json=body), 401, "not-authenticated")
    assert_problem(ask("POST", "/exports", scope="read", json=body), 403, "scope-missing")
    assert_problem(ask("POST", "/exports", json={"what": "secrets"}), 422, "invalid")
    assert_problem(ask("POST", "/exports", json={**body, "filters": {"snapshot": "7"}}), 404, "not-found")
    assert_problem(ask("POST", "/exports", json={**body, "filters": {"since": "2026-01-01"}}), 422, "invalid")
    assert_problem(ask("POST", "/exports", json={**body, "filters": {"model": "a\x00"}}), 422, "invalid")
    waiting = ask("POST", "/exports", json={"what": "leaderboard"}).json()["id"]
    for path in (f"/exports/{waiting}", f"/exports/{waiting}/file"):
        assert_problem(ask("GET", path, scope=None), 401, "not-authenticated")
        assert_problem(ask("GET", path, scope="ingest"), 403, "scope-missing")
    assert_problem(ask("GET", f"/exports/{waiting}/file"), 409, "export-not-ready")
    assert_problem(ask("GET", f"/exports/{'0' * 32}"), 404, "not-found")
    assert_problem(ask("GET", f"/exports/{'0' * 32}/file"), 404, "not-found")
    export_runner.run_next()  # there is no snapshot yet
    failed = ask("GET", f"/exports/{waiting}").json()
    assert (failed["state"], bool(failed["detail"])) == ("failed", True)
    assert_problem(ask("GET", f"/exports/{waiting}/file"), 409, "export-not-ready")


@pytest.mark.parametrize(
    ("what", "filters"),
    [
        ("annotators", {"model": "GPT 4", "since": "2026-01-01T00:00:00Z"}),
        ("annotators", {"snapshot": "1"}),
        ("votes", {"standing": "flagged"}),
        ("votes", {"tag": "code", "method": "am-elo"}),
        ("leaderboard", {"model": "ant"}),
    ],
)
def test_filters_that_do_not_go_with_the_export_are_refused(
    ask: Ask, assert_problem: AssertProblem, what: str, filters: dict[str, str]
) -> None:
    problem = assert_problem(ask("POST", "/exports", json={"what": what, "filters": filters}), 422, "invalid")
    assert {fault["pointer"] for fault in problem["errors"]} == {f"/filters/{name}" for name in filters}


@pytest.mark.comparisons
def test_a_leaderboard_that_is_not_there_is_refused_at_once(
    ask: Ask, crowd: list[str], refit: Ask, assert_problem: AssertProblem
) -> None:
    def request(**filters: str) -> Any:
        return ask("POST", "/exports", json={"what": "leaderboard", "filters": filters})

    assert_problem(request(tag="code"), 404, "no-snapshot")
    refit()
    assert_problem(request(tag="code"), 404, "no-such-board")
    assert request(method="m-elo").status_code == 202


def test_what_a_dead_process_left_is_made_from_the_start(
    ask: Ask, export_runner: ExportRunner, database: Database, recorded: list[str]
) -> None:
    export_id = ask("POST", "/exports", json={"what": "votes"}).json()["id"]
    with database.begin() as conn:
        conn.execute(text("UPDATE exports SET state = 'running'"))
        conn.execute(text("INSERT INTO file_chunks SELECT id, 0, 'half' FROM exports"))
    assert str(export_runner.run_next()) == export_id
    assert ask("GET", f"/exports/{export_id}/file").text.startswith("vote_id,")


def test_old_files_are_forgotten(ask: Ask, export_runner: ExportRunner, database: Database) -> None:
    for _ in range(2):
        ask("POST", "/exports", json={"what": "votes"})
        export_runner.run_next()
    with database.begin() as conn:
        oldest = "id = (SELECT id FROM exports ORDER BY id LIMIT 1)"
        aged = f"UPDATE exports SET finished_at = now() - interval '8 days' WHERE {oldest} RETURNING id"
        old = conn.execute(text(aged)).scalar_one()
    export_runner.drop_old()
    with database.read() as conn:
        left = conn.execute(text("SELECT id FROM exports")).scalars().all()
        files = conn.execute(text("SELECT DISTINCT file_id FROM file_chunks")).scalars().all()
    assert left == files
    assert old not in left


def test_votes_have_the_names_of_record_and_of_the_models_they_count_for(
    ask: Ask, export: Ask, crowd: list[str]
) -> None:
    assert ask("POST", "/models/model 0/merge", json={"into": "model 1"}).status_code == 200
    rows = list(csv.DictReader(io.StringIO(export("votes", "csv", model="model 1").read_text())))
    assert {row[side] for row in rows for side in ("model_a", "model_b")} == {f"model {i}" for i in range(6)}
    assert all("model 1" in (row["contestant_a"], row["contestant_b"]) for row in rows)
    assert {row["contestant_a"] for row in rows if row["model_a"] == "model 0"} == {"model 1"}
    alone = list(csv.DictReader(io.StringIO(export("votes", "csv", model="model 0").read_text())))
    assert all("model 0" in (row["model_a"], row["model_b"]) for row in alone)
