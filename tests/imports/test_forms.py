"""Files that are uploaded as a form sends them (`curl -F file=@votes.csv`)."""

from collections.abc import Callable
from typing import Any

import pytest

from app.database.engine import Database
from app.imports.runner import ImportRunner
from tests.imports.uploads import HEADER, TABLES, count

Ask = Callable[..., Any]
AssertProblem = Callable[..., dict[str, Any]]

VOTES = (HEADER + "k,a,b,tie,1\nk,a,,tie,2\n").encode()


def test_a_form_is_a_file_with_its_options(ask: Ask, import_runner: ImportRunner, database: Database) -> None:
    fields = {"skip_invalid": "true", "annotator_prefix": "study-", "schema": "votes"}
    posted = ask("POST", "/imports", scope="ingest", files={"file": ("may.csv", VOTES)}, data=fields)
    assert posted.status_code == 202, posted.text
    assert posted.json()["file_name"] == "may.csv"
    assert posted.json()["options"]["annotator_prefix"] == "study-"
    import_runner.run_next()
    done = ask("GET", f"/imports/{posted.json()['id']}", scope="ingest").json()
    assert (done["state"], done["counts"]["created"], done["counts"]["rejected"]) == ("done", 1, 1)
    raw = ask("POST", "/imports", scope="ingest", content=VOTES, headers={"Content-Type": "text/csv"})
    assert (raw.status_code, raw.json()["id"]) == (200, posted.json()["id"]), "the same file in another body"


@pytest.mark.parametrize(
    ("name", "kind", "data", "params"),
    [
        ("votes", "text/csv", {}, {}),
        ("votes", "application/octet-stream", {"format": "csv"}, {}),
        ("votes", "application/octet-stream", {"filename": "v.csv"}, {}),
        ("votes", "application/octet-stream", {}, {"format": "csv", "dry_run": "true"}),
    ],
)
def test_the_kind_of_the_file(ask: Ask, name: str, kind: str, data: dict[str, str], params: dict[str, str]) -> None:
    files = {"file": (name, VOTES, kind)}
    posted = ask("POST", "/imports", scope="ingest", files=files, data=data, params=params)
    assert posted.status_code == 202, posted.text
    assert posted.json()["options"]["suffix"] == ".csv"
    assert posted.json()["options"]["dry_run"] is (params.get("dry_run") == "true")


@pytest.mark.parametrize(
    ("files", "data", "status", "code", "pointer"),
    [
        ({"file": ("v", VOTES)}, {}, 415, "media-type", None),
        ({"file": ("v.csv", b"")}, {}, 422, "invalid", None),
        ({"other": ("v.csv", VOTES)}, {}, 422, "invalid", "/file"),
        ({"file": ("v.csv", VOTES)}, {"dry_rum": "true"}, 422, "invalid", "/dry_rum"),
        ({"file": ("v.csv", VOTES)}, {"dry_run": "perhaps"}, 422, "invalid", "/dry_run"),
        ({"file": ("v.csv", VOTES)}, {"columns": "x" * 2001}, 422, "invalid", "/columns"),
        ({"file": ("v.csv", VOTES)}, {"columns": "x" * 10**5}, 422, "invalid", None),
        ({"file": ("v.csv", VOTES)}, {"schema": "never"}, 422, "invalid", None),
        ({"file": ("v.csv", VOTES), "file2": ("w.csv", VOTES)}, {}, 422, "invalid", None),
        ({"file": ("a" * 201 + ".csv", VOTES)}, {}, 422, "invalid", "/filename"),
    ],
)
def test_a_faulty_form(
    ask: Ask, assert_problem: AssertProblem, database: Database,
    files: dict[str, Any], data: dict[str, str], status: int, code: str, pointer: str | None,
) -> None:  # fmt: skip
    problem = assert_problem(ask("POST", "/imports", scope="ingest", files=files, data=data), status, code)
    if pointer is not None:
        assert [error["pointer"] for error in problem["errors"]] == [pointer]
    assert [count(database, table) for table in TABLES] == [0, 0, 0, 0]


def test_a_form_that_is_none(ask: Ask, assert_problem: AssertProblem) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    for content in (b"--c\r\n", b"--b\r\nContent", VOTES):
        assert_problem(ask("POST", "/imports", scope="ingest", content=content, headers=headers), 422, "invalid")


def test_who_may_send_a_form(ask: Ask, assert_problem: AssertProblem) -> None:
    files = {"file": ("v.csv", VOTES)}
    assert_problem(ask("POST", "/imports", scope=None, files=files), 401, "not-authenticated")
    assert_problem(ask("POST", "/imports", scope="read", files=files), 403, "scope-missing")


def test_the_description_has_the_form(ask: Ask, client: Any) -> None:
    content = client.get("/api/v1/openapi.json").json()["paths"]["/api/v1/imports"]["post"]["requestBody"]["content"]
    form = content["multipart/form-data"]["schema"]
    assert form["required"] == ["file"]
    assert {"file", "schema", "dry_run", "annotator_prefix", "format"} <= form["properties"].keys()
    assert "text/csv" in content


def test_verdicts_in_other_words(ask: Ask, import_runner: ImportRunner, database: Database) -> None:
    french = (HEADER + "k,a,b,gauche,1\nk,a,b,gauche,2\nk,a,b,égal=é,3\n").encode()
    file = {"files": {"file": ("french.csv", french)}}
    refused = ask("POST", "/imports", scope="ingest", **file, params={"verdict": "gauche=left"})
    import_runner.run_next()
    failed = ask("GET", f"/imports/{refused.json()['id']}", scope="ingest").json()
    assert failed["state"] == "failed"
    assert "unknown verdicts: égal=é 1 time (" in failed["detail"]

    meant = {"params": {"verdict": "gauche=left"}, "data": {"verdict": ["égal=é=tie"]}}
    posted = ask("POST", "/imports", scope="ingest", **file, **meant)
    assert posted.json()["options"]["verdict"] == ["gauche=left", "égal=é=tie"], "a resumed import reads the same"
    import_runner.run_next()
    done = ask("GET", f"/imports/{posted.json()['id']}", scope="ingest").json()
    assert (done["state"], done["counts"]["created"]) == ("done", 3)
    wrong = ask("POST", "/imports", scope="ingest", content=french, params={"filename": "v.csv", "verdict": ["x=y"]})
    assert wrong.status_code == 422
