"""Files of rankings: each is stored as `POST /votes` stores it, counted once, and undone with its file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.exports.files import write_export
from app.exports.folders import write_dataset
from app.exports.schemas import ExportFilters
from app.imports.runner import ImportRunner
from app.votes.arrays import read_votes

Ask = Callable[..., Any]

RANKINGS = [
    {"annotator": "ann", "battle_id": "b1", "ranking": [["m3"], ["m2", "m1"]]},
    {"annotator": "ann", "battle_id": "b2", "ranking": [["m1"], ["m2"]], "criterion": "accuracy"},
    {"annotator": "bob", "ranking": [["m4"], ["m1"], ["m2"]]},
]
STORED = text(
    """
    SELECT a.key, v.battle_id, v.criterion, v.ranking::text, v.model_a_id, v.model_b_id, v.outcome
    FROM votes AS v JOIN annotators AS a ON a.id = v.annotator_id ORDER BY a.key, v.battle_id
    """
)
TYPES = {"jsonl": "application/jsonl", "csv": "text/csv"}


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def run(post: Ask, ask: Ask, import_runner: ImportRunner) -> Ask:
    """Import a file, and return how it ended."""

    def run(content: str | bytes, kind: str = "jsonl", **params: Any) -> Any:
        body = post(content, media_type=TYPES[kind], **params).json()
        import_runner.run_next()
        return ask("GET", f"/imports/{body['id']}", scope="ingest").json()

    return run


def stored(database: Database) -> list[tuple[Any, ...]]:
    with database.read() as conn:
        return [tuple(row) for row in conn.execute(STORED)]


def test_a_file_stores_what_requests_store(run: Ask, ask: Ask, database: Database) -> None:
    for ranking in RANKINGS:
        assert ask("POST", "/votes", json=ranking).status_code == 201
    sent = stored(database)
    with database.begin() as conn:
        conn.execute(text("TRUNCATE votes"))
    done = run(
        lines(
            *RANKINGS,
            {**RANKINGS[0], "ranking": [["m3"], ["m1", "m2"]]},
            {**RANKINGS[0], "ranking": [["m3", "m1"], ["m2"]]},
        )
    )
    assert {name: done["counts"][name] for name in ("created", "duplicates", "conflicts")} == {
        "created": 3, "duplicates": 1, "conflicts": 1,
    }  # fmt: skip
    assert stored(database) == sent
    known = {"annotator": "bob", "ranking": [["m4"], ["m1"], ["m2"]]}
    others = run(lines(known, {**known, "ranking": [["m4"], ["m2", "m1"]]}), new_rows_only=True)
    assert (others["counts"]["created"], others["counts"]["duplicates"]) == (1, 1)
    undone = ask("POST", "/retractions", json={"target": "import", "id": done["id"], "reason": "x"}, scope="review")
    assert undone.json()["votes"] == 3
    with database.read() as conn:
        assert len(read_votes(conn).outcome) == 3, "of the second file"


@pytest.mark.parametrize("kind", TYPES)
def test_an_export_is_imported_as_it_was(run: Ask, ask: Ask, database: Database, tmp_path: Path, kind: str) -> None:
    pair = {"annotator": "cid", "model_a": "m1", "model_b": "=m2", "winner": "tie"}
    results = ask("POST", "/votes/batch", json={"votes": [*RANKINGS, pair]}).json()["results"]
    before, path = stored(database), tmp_path / f"votes.{kind}"
    assert write_export(database, "votes", "csv" if kind == "csv" else "jsonl", ExportFilters(), path).rows == 4
    if kind == "jsonl":
        records = [json.loads(line) for line in path.read_text().splitlines()]
        assert [record["ranking"] for record in records] == [*(one["ranking"] for one in RANKINGS), None]
        assert [record["model_a"] for record in records] == [None, None, None, "m1"]
    known = run(path.read_bytes(), kind, again=True)
    assert (known["counts"]["created"], known["counts"]["duplicates"]) == (0, 4), results
    with database.begin() as conn:
        conn.execute(text("TRUNCATE votes"))
    assert run(path.read_bytes(), kind, again=True)["counts"]["created"] == 4
    assert stored(database) == before


def test_votes_of_a_model_are_those_that_count_for_it(ask: Ask, database: Database, tmp_path: Path) -> None:
    for ranking in RANKINGS:
        ask("POST", "/votes", json=ranking)
    ask("POST", "/models", json={"name": "whole"}, scope="admin")
    assert ask("POST", "/models/m2/merge", json={"into": "whole", "reason": "x"}, scope="admin").status_code < 300
    for name, rows in (("m4", 1), ("m3", 1), ("m2", 3), ("whole", 3)):
        filters = ExportFilters(model=name)
        assert write_export(database, "votes", "csv", filters, tmp_path / f"{name}.csv").rows == rows, name
    write_dataset(database, ExportFilters(), tmp_path / "dataset")
    assert "3 votes of 2 annotators on 4 models" in (tmp_path / "dataset/README.md").read_text()


def test_rankings_that_are_none_are_rejected(run: Ask, ask: Ask) -> None:
    ask("POST", "/votes", json={"annotator": "ann", "ranking": [["m1"], ["m2"]]})
    ask("POST", "/models/m1/aliases", json={"name": "first"})
    wrong = [
        [],
        [[]],
        [["m1"], ["m1"]],
        [[f"m{i}"] for i in range(21)],
        ["m1"],
        [["m1"], [" "]],
        [["m1"], ["first"]],
        "m1",
    ]
    both = {"annotator": "ann", "ranking": [["m1"], ["m2"]], "model_a": "m1", "model_b": "m2", "winner": "tie"}
    featured = {"annotator": "ann", "ranking": [["m1"], ["m2"]], "features": {"length": [1, 2]}}
    records = [*({"annotator": "ann", "ranking": ranking} for ranking in wrong), both, featured]
    failed = run(lines(*records, RANKINGS[0]))
    assert (failed["state"], failed["detail"]) == (
        "failed", f"upload: {len(records)} of {len(records) + 1} records are not valid votes",
    )  # fmt: skip


def test_a_ranking_is_recognised_whatever_the_order_in_its_groups(run: Ask, database: Database) -> None:
    votes: list[dict[str, Any]] = [
        {"annotator": "ann", "ranking": [["m3"], ["m2", "m1"], ["m4"]]},
        {"annotator": "ann", "ranking": [["m3"], ["m2"], ["m1"]]},
        {"annotator": "bob", "ranking": [["m1", "m2"]], "criterion": "accuracy"},
    ]
    assert run(lines(*votes))["counts"]["created"] == 3
    votes[0]["ranking"] = [["m3"], ["m1", "m2"], ["m4"]]
    again = run(lines(*votes))
    assert (again["state"], "3 of its 3 votes are on record" in again["detail"]) == ("failed", True)
    votes[1]["ranking"] = [["m3"], ["m1"], ["m2"]]
    del votes[2]["criterion"]
    new = run(lines(*votes), new_rows_only=True)
    assert (new["counts"]["created"], new["counts"]["duplicates"]) == (2, 1), "another order, another criterion"
    assert len(stored(database)) == 5
