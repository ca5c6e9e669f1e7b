"""No vote of a file counts twice by accident."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from app.cli.command import application
from app.database.engine import Database
from app.imports import recognition
from app.imports.loading import import_turn
from app.imports.local import import_file
from app.imports.recognition import AlreadyRecordedError, Recognised, Recogniser
from app.imports.runner import ImportRunner
from app.imports.service import ImportOptions
from app.models.schemas import NewAlias
from app.models.service import add_alias
from tests.fixtures.environment import Configure

pytestmark = pytest.mark.usefixtures("on_database", "own_folder")

Post = Callable[..., Any]
HEADER = "annotator,model_a,model_b,winner,timestamp\n"
ROWS = [
    f"k{k},m{i},m{j},{'model_a' if (i + j + k) % 3 else 'tie'},2026-01-{k + 1:02}T10:{i}{j}:07.25Z"
    for k in range(5)
    for i, j in combinations(range(5), 2)
]


def write(name: str, rows: list[str], header: str = HEADER) -> Path:
    path = Path(name)
    path.write_text(header + "".join(f"{row}\n" for row in rows))
    return path


def run(*words: object) -> Any:
    return CliRunner().invoke(application, [str(word) for word in words])


def done(*words: object) -> dict[str, Any]:
    result = run(*words, "--format", "json")
    assert result.exit_code == 0, result.stderr
    return dict(json.loads(result.stdout))


def counting(database: Database) -> int:
    """Count the votes that are not retracted."""
    with database.read() as conn:
        query = "SELECT count(*) FROM votes WHERE id NOT IN (SELECT vote_id FROM retracted_votes)"
        return int(conn.execute(text(query)).scalar_one())


def test_a_grown_file_is_refused_with_a_choice(database: Database) -> None:
    assert done("import", write("day1.csv", ROWS))["created"] == 50
    grown = write("day2.csv", [*ROWS, "k9,m0,m1,tie,2026-02-01T00:00:00Z"])
    refused = run("import", grown)
    assert refused.exit_code == 2
    for said in ("50 of its 51 votes are on record already", "day1.csv", "--new-rows-only", "--allow-repeats"):
        assert said in refused.stderr
    assert counting(database) == 50
    new = done("import", grown, "--new-rows-only")
    assert (new["created"], new["duplicates"]) == (1, 50)
    assert counting(database) == 51


def test_a_file_that_grew_much_is_refused_too(database: Database) -> None:
    """Less than half of it is on record, but it holds the whole earlier import."""
    done("import", write("day1.csv", ROWS))
    others = [row.replace("2026-01", "2026-03") for row in ROWS * 2]
    assert run("import", write("day2.csv", [*ROWS, *others])).exit_code == 2
    assert done("import", write("later.csv", others))["created"] == 100


def test_a_sample_of_a_large_file_is_enough_to_suspect_it(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SAMPLED": 2, "LEAST_SAMPLED": 1, "LEAST_CELLS": 1}.items():
        monkeypatch.setattr(recognition, name, value)
    done("import", write("day1.csv", ROWS))
    others = [row.replace("2026-01", "2026-03") for row in ROWS]
    assert "50 of its 100 votes" in run("import", write("day2.csv", ROWS + others)).stderr
    assert done("import", write("others.csv", [*others, *ROWS[:5]]))["created"] == 55
    assert counting(database) == 105


def test_repeats_can_be_meant(database: Database) -> None:
    done("import", write("day1.csv", ROWS))
    assert done("import", write("copy.csv", ROWS[::-1]), "--allow-repeats")["created"] == 50
    assert run("import", "copy.csv", "--allow-repeats", "--new-rows-only").exit_code == 2
    assert counting(database) == 100


@pytest.mark.parametrize(
    ("times", "swapped"), [("microseconds", False), ("seconds", True), ("days", False), ("none", True)]
)
def test_the_same_votes_in_another_notation(database: Database, times: str, swapped: bool) -> None:
    done("import", write("votes.csv", ROWS))
    frame = pl.read_csv("votes.csv", try_parse_dates=True)
    frame = frame.with_columns(pl.col("timestamp").cast(pl.Datetime("us", "UTC")))
    frame = {
        "microseconds": frame,
        "seconds": frame.with_columns(pl.col("timestamp").dt.truncate("1s")),
        "days": frame.with_columns(pl.col("timestamp").dt.date()),
        "none": frame.drop("timestamp"),
    }[times]
    if swapped:
        other = pl.col("winner").replace({"model_a": "model_b", "model_b": "model_a"})
        frame = frame.rename({"model_a": "model_b", "model_b": "model_a"}).with_columns(other)
    frame.write_parquet("votes.parquet")
    assert "50 of its 50 votes" in run("import", "votes.parquet").stderr
    assert done("import", "votes.parquet", "--new-rows-only")["created"] == 0
    assert counting(database) == 50


def test_honest_repeats_in_a_file_stay(database: Database) -> None:
    row = "k,a,b,model_a,"
    assert done("import", write("votes.csv", [row] * 3))["created"] == 3
    more = done("import", write("more.csv", [row] * 5), "--new-rows-only")
    assert (more["created"], more["duplicates"]) == (2, 3)
    assert counting(database) == 5


def test_other_votes_of_the_same_people_are_new(database: Database) -> None:
    done("import", write("monday.csv", ROWS))
    tuesday = [row.replace(":07.25Z", ":08Z") for row in ROWS]
    assert done("import", write("tuesday.csv", tuesday))["created"] == 50
    assert counting(database) == 100


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_an_export_that_comes_back(database: Database, form: str) -> None:
    done("import", write("votes.csv", ROWS))
    assert run("export", "votes", "--output", f"export.{form}").exit_code == 0
    back = done("import", f"export.{form}")
    assert (back["created"], back["duplicates"], back["conflicts"]) == (0, 50, 0)
    assert counting(database) == 50


def test_an_edited_export_contradicts(database: Database) -> None:
    done("import", write("votes.csv", ROWS))
    run("export", "votes", "--output", "export.csv")
    lines = Path("export.csv").read_text().splitlines()
    edited = [line.replace(",tie,", ",model_b,") for line in lines]
    Path("export.csv").write_text("\n".join([*edited, lines[-1]]) + "\n")
    back = done("import", "export.csv")
    ties = sum("tie" in row for row in ROWS)
    assert (back["created"], back["conflicts"]) == (0, ties)
    assert back["duplicates"] == len(lines) - ties
    assert "on record with other models or another verdict" in back["conflict_places"][0]["detail"]


def test_two_exports_in_one_file_count_once(database: Database) -> None:
    done("import", write("votes.csv", ROWS))
    run("export", "votes", "--output", "export.csv")
    with database.begin() as conn:
        conn.execute(text("TRUNCATE votes"))
    header, *lines = Path("export.csv").read_text().splitlines(keepends=True)
    Path("both.csv").write_text("".join([header, *lines, *lines[:7]]))
    assert (done("import", "both.csv")["created"], counting(database)) == (50, 50)


def test_votes_that_were_sent_come_back_in_a_file(database: Database, ask: Post) -> None:
    for row in ROWS[:4]:
        annotator, a, b, winner, _ = row.split(",")
        vote = {"annotator": annotator, "model_a": a, "model_b": b, "winner": winner}
        assert ask("POST", "/votes", scope="ingest", json=vote).status_code == 201
    assert run("import", write("log.csv", ROWS[:5])).exit_code == 2
    assert done("import", "log.csv", "--new-rows-only")["created"] == 1


def test_a_file_with_battles_after_one_without(database: Database) -> None:
    done("import", write("votes.csv", ROWS))
    header = HEADER.replace("timestamp", "timestamp,battle_id")
    named = write("named.csv", [f"{row},b{i}" for i, row in enumerate(ROWS)], header)
    assert run("import", named).exit_code == 2
    fresh = [f"{row.replace('2026-01', '2026-05')},c{i}" for i, row in enumerate(ROWS)]
    assert done("import", write("fresh.csv", fresh, header))["created"] == 50
    again = write("again.csv", [*fresh, "k0,m0,m1,tie,,d1"], header)
    assert done("import", again)["duplicates"] == 50, "battles alone already make a vote count once"


def test_a_file_without_battles_after_one_with_them(database: Database) -> None:
    header = HEADER.replace("timestamp", "timestamp,battle_id")
    assert done("import", write("first.csv", [f"{row},b{i}" for i, row in enumerate(ROWS)], header))["created"] == 50
    assert "50 of its 50 votes are on record already" in run("import", write("again.csv", ROWS)).stderr
    some = write("some.csv", [f"{row},{'' if i else 'another'}" for i, row in enumerate(ROWS)], header)
    assert "49 of its 50 votes are on record already" in run("import", some).stderr


def test_pseudonyms_and_aliases_are_seen_through(database: Database, configure: Configure) -> None:
    configure(PSEUDONYM_KEY="a secret of the tests, with more than 32 characters")
    done("import", write("votes.csv", ROWS))
    with database.begin() as conn:
        add_alias(conn, "m4", NewAlias(name="m4-final"), added_by="a test")
    renamed = write("renamed.csv", [row.replace("m4", "m4-final") for row in ROWS])
    assert "50 of its 50 votes" in run("import", renamed).stderr


def test_merged_models_are_compared_by_their_names_of_record(database: Database) -> None:
    file = write("votes.csv", ROWS)
    assert done("import", file)["created"] == 50
    assert run("models", "merge", "m0", "--into", "m1").exit_code == 0
    assert run("export", "votes", "--output", "exported.csv").exit_code == 0
    assert done("import", "exported.csv")["created"] == 0
    again = write("again.csv", [*ROWS, "k9,m0,m2,tie,2026-02-01T00:00:00Z"])
    assert "50 of its 51 votes" in run("import", again).stderr
    renamed = write("renamed.csv", [row.replace(",m0,", ",new,") for row in ROWS if ",m0," in row])
    assert done("import", renamed)["created"] == 20, "another name of record"
    assert counting(database) == 70


def test_over_http(database: Database, post: Post, import_runner: ImportRunner, ask: Post) -> None:
    content = HEADER + "\n".join(ROWS)

    def send(body: str, **params: Any) -> dict[str, Any]:
        sent = post(body, **params)
        import_runner.run_next()
        return dict(ask("GET", f"/imports/{sent.json()['id']}", scope="ingest").json())

    assert send(content)["counts"]["created"] == 50
    refused = send(content + "\nk9,m0,m1,tie,")
    assert refused["state"] == "failed"
    assert "50 of its 51 votes" in refused["detail"]
    assert "new_rows_only=true" in refused["detail"]
    new = send(content + "\nk9,m0,m1,tie,", new_rows_only=True)
    assert (new["state"], new["counts"]["created"], new["counts"]["duplicates"]) == ("done", 1, 50)
    assert send(content, again=True)["counts"]["created"] == 50
    assert counting(database) == 101
    both = post(content, new_rows_only=True, allow_repeats=True)
    assert both.status_code == 422


def test_an_import_is_undone_and_can_come_again(database: Database) -> None:
    done("import", write("kept.csv", ROWS[:5]))
    first = done("import", write("votes.csv", ROWS[5:]))
    undone = done("imports", "undo", first["import_id"], "--reason", "the wrong file")
    assert (undone["target"], undone["votes"]) == ("import", 45)
    assert counting(database) == 5
    listed = done("imports", "list")["imports"]
    assert [one["undone_by"] for one in listed] == [undone["id"], None]
    assert "undone" in run("imports", "list").stdout
    assert done("import", "votes.csv")["created"] == 45
    assert counting(database) == 50
    assert run("imports", "undo", "00000000-0000-0000-0000-000000000000", "--reason", "x").exit_code == 1


def test_an_undone_import_does_not_come_back_beside_its_repetition(database: Database, ask: Post) -> None:
    first = done("import", write("votes.csv", ROWS))
    undone = done("imports", "undo", first["import_id"], "--reason", "a mistake")
    second = done("import", "votes.csv")

    def withdraw(retraction: str) -> int:
        body = {"reason": "it was right"}
        return int(ask("POST", f"/retractions/{retraction}/withdraw", scope="review", json=body).status_code)

    assert withdraw(undone["id"]) == 409
    assert counting(database) == 50
    done("imports", "undo", second["import_id"], "--reason", "it was there")
    assert (withdraw(undone["id"]), done("import", "votes.csv")["already_imported"]) == (200, True)
    with database.read() as conn:
        retracted = text(
            "SELECT count(*) FROM retracted_votes AS r WHERE NOT EXISTS "
            "(SELECT FROM withdrawn_retractions AS w WHERE w.retraction_id = r.retraction_id)"
        )
        assert conn.execute(retracted).scalar_one() == 50, "the votes of the second import"


def test_an_import_is_undone_over_http(database: Database, ask: Post) -> None:
    first = done("import", write("votes.csv", ROWS))
    body = {"target": "import", "id": first["import_id"], "reason": "the wrong file"}
    assert ask("POST", "/retractions", scope="ingest", json=body).status_code == 403
    undone = ask("POST", "/retractions", scope="review", json=body)
    assert (undone.status_code, undone.json()["votes"]) == (201, 50)
    shown = ask("GET", f"/imports/{first['import_id']}", scope="ingest").json()
    assert shown["undone_by"] == undone.json()["id"]
    assert counting(database) == 0
    for unknown in ("x", "00000000-0000-0000-0000-000000000000"):
        assert ask("POST", "/retractions", scope="review", json={**body, "id": unknown}).status_code == 404


def test_an_interrupted_import_goes_on_with_new_rows_only(database: Database, kill: Post) -> None:
    """What the killed import recorded itself is not taken for votes on record."""
    done("import", write("old.csv", ROWS[:15]))
    grown = write("grown.csv", ROWS + ROWS[:3])
    options = ImportOptions(new_rows_only=True)
    kill(4, lambda: import_file(database, grown, options, requested_by="a test"), rows=10)
    assert 15 < counting(database) < 53
    receipt = import_file(database, grown, options, requested_by="a test")
    assert receipt.resumed
    assert (receipt.counts.created, receipt.counts.duplicates) == (38, 15)
    assert counting(database) == 53


def test_a_running_import_that_is_undone_begins_anew(database: Database, kill: Post) -> None:
    path = write("votes.csv", ROWS)
    kill(3, lambda: import_file(database, path, ImportOptions(), requested_by="a test"), rows=10)
    assert counting(database) == 20
    running = done("imports", "list")["imports"][0]
    assert running["state"] == "running"
    assert done("imports", "undo", running["id"], "--reason", "wrong")["votes"] == 20
    receipt = import_file(database, path, ImportOptions(), requested_by="a test")
    assert (receipt.resumed, receipt.counts.created) == (False, 50)
    assert counting(database) == 50


def test_files_of_the_same_votes_at_once_count_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [write("votes.csv", ROWS), write("reversed.csv", ROWS[::-1])]
    compared = threading.Event()
    really = Recogniser.finish

    def finish(self: Recogniser) -> Recognised:
        found = really(self)
        compared.wait(0 if compared.is_set() else 1)  # both are compared meanwhile, if nothing prevents it
        compared.set()
        return found

    monkeypatch.setattr(Recogniser, "finish", finish)

    def load(path: Path) -> int | str:
        try:
            return import_file(database, path, ImportOptions(), requested_by="a test").counts.created
        except AlreadyRecordedError as error:
            return error.code

    with ThreadPoolExecutor(2) as pool:
        results = sorted(pool.map(load, paths), key=str)
    assert results[0] == len(ROWS)
    assert results[1] == "already-recorded"
    assert counting(database) == len(ROWS)


def test_an_uploaded_file_waits_for_one_that_is_imported(
    post: Post, ask: Post, database: Database, import_runner: ImportRunner
) -> None:
    import_id = post(HEADER + "\n".join(ROWS)).json()["id"]
    with import_turn(database, 30) as mine:
        assert mine
        assert import_runner.run_next() is None
    assert str(import_runner.run_next()) == import_id
    assert ask("GET", f"/imports/{import_id}").json()["counts"]["created"] == len(ROWS)
