import csv
import gzip
import io
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from httpx import Client
from pydantic import SecretStr
from sqlalchemy import text

from app.database.engine import Database
from app.imports.runner import ImportRunner
from app.main import create_app
from app.settings import ImportSettings, Settings, WorkerSettings
from tests.fixtures.console import SignIn
from tests.fixtures.waiting import wait_until
from tests.imports.uploads import HEADER, TABLES, count, zstd_of_zeros

Ask = Callable[..., Any]
AssertProblem = Callable[..., dict[str, Any]]


def test_a_file_is_received_then_run(post: Ask, ask: Ask, import_runner: ImportRunner, database: Database) -> None:
    posted = post(HEADER + "k,a,b,tie,1\nk,b,a,tie,1\nk,a,b,model_a,1\nl,a,b,model_a,\n", filename="march.csv")
    assert posted.status_code == 202, posted.text
    body = posted.json()
    assert (body["state"], body["file_name"], body["rows_total"]) == ("queued", "march.csv", None)
    assert posted.headers["location"] == f"/api/v1/imports/{body['id']}"
    assert count(database) == 0
    assert str(import_runner.run_next()) == body["id"]
    assert import_runner.run_next() is None
    done = ask("GET", f"/imports/{body['id']}", scope="ingest").json()
    assert (done["state"], done["rows_done"], done["rows_total"], done["detail"]) == ("done", 4, 4, None)
    assert done["counts"] == {
        "rows": 4,
        "created": 2,
        "duplicates": 1,
        "conflicts": 1,
        "rejected": 0,
        "skipped": 0,
        "replaced": 0,
        "retracted": 0,
    }
    assert [(fault["place"], fault["kind"]) for fault in done["faults"]] == [("line 4", "conflict")]
    assert done["started_at"] <= done["finished_at"]
    assert [count(database, table) for table in TABLES] == [2, 1, 0, 0]


def test_the_same_file_again_is_the_earlier_import(post: Ask, import_runner: ImportRunner, database: Database) -> None:
    first, waiting = post(HEADER + "k,a,b,tie,\n"), post(HEADER + "k,a,b,tie,\n")
    assert (waiting.status_code, waiting.json()["id"]) == (202, first.json()["id"])
    import_runner.run_next()
    again = post(HEADER + "k,a,b,tie,\n", media_type="application/csv", filename="other.csv")
    assert (again.status_code, again.json()["id"], again.json()["state"]) == (200, first.json()["id"], "done")
    assert [count(database, table) for table in TABLES[:3]] == [1, 1, 0]
    assert post(HEADER + "k,a,b,tie,\n", again=True).json()["id"] != first.json()["id"]
    import_runner.run_next()
    assert count(database) == 2


@pytest.mark.parametrize(
    ("content", "media_type", "params"),
    [
        (json.dumps({"annotator": "k", "model_a": "a", "model_b": "b", "winner": "tie"}), "application/jsonl", {}),
        (json.dumps({"judge": "k", "model_a": "a", "model_b": "b", "winner": "tie"}), "application/x-ndjson", {}),
        (gzip.compress((HEADER + "k,a,b,tie,\n").encode(), mtime=0), "text/csv", {}),
        (
            gzip.compress((HEADER + "k,a,b,tie,\n").encode(), mtime=0),
            "application/octet-stream",
            {"filename": "v.csv.gz"},
        ),
        (HEADER + "k,a,b,tie,\n", "application/octet-stream", {"format": "csv"}),
        (HEADER + "k,a,b,tie,\n", "text/csv; charset=utf-8", {}),
        ("model_a,model_b,winner\na,b,tie\n", "text/csv", {"pool_annotators": True}),
        ("model_a,model_b,winner,session\na,b,tie,s\n", "text/csv", {"annotator_column": "session", "schema": "votes"}),
        (HEADER + "k,a,b,tie,\nk,a,,tie,\n", "text/csv", {"skip_invalid": True}),
    ],
)
def test_kinds_and_options(
    post: Ask, import_runner: ImportRunner, database: Database,
    content: str | bytes, media_type: str, params: dict[str, Any],
) -> None:  # fmt: skip
    assert post(content, media_type=media_type, **params).status_code == 202
    assert import_runner.run_next() is not None
    assert count(database) == 1


def test_parquet(post: Ask, import_runner: ImportRunner, database: Database) -> None:
    content = io.BytesIO()
    pl.DataFrame({"user_id": [1.0], "model_a": ["a"], "model_b": ["b"], "winner": ["tie"]}).write_parquet(content)
    assert post(content.getvalue(), media_type="application/vnd.apache.parquet").status_code == 202
    import_runner.run_next()
    assert count(database) == 1


def test_a_faulty_file_is_refused_whole_and_says_why(
    post: Ask, ask: Ask, import_runner: ImportRunner, database: Database
) -> None:
    rows = 'k,a,b,tie,\nk,=a,,tie,\nk,a,b,"=cmd()",\nSECRET\x01,a,b,tie,\n'
    import_id = post(HEADER + rows).json()["id"]
    import_runner.run_next()
    failed = ask("GET", f"/imports/{import_id}").json()
    assert failed["state"] == "failed"
    assert failed["detail"].startswith("upload: 3 of 4 records are not valid votes; unknown verdicts: =cmd() 1 time (")
    assert (failed["rows_total"], failed["counts"]["rejected"], failed["n_faults"]) == (4, 3, 3)
    assert [count(database, table) for table in TABLES] == [0, 1, 0, 0]
    answer = ask("GET", f"/imports/{import_id}/errors")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    lines = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(line["record"], line["place"], line["kind"]) for line in lines] == [
        ("1", "line 3, model_b", "invalid"), ("2", "line 4, winner", "invalid"), ("3", "line 5, annotator", "invalid"),
    ]  # fmt: skip
    assert "SECRET" not in answer.text
    jsonl = ask("GET", f"/imports/{import_id}/errors", params={"format": "jsonl"}).text.splitlines()
    assert [json.loads(line)["record"] for line in jsonl] == [1, 2, 3]
    assert post(HEADER + rows, skip_invalid=True).json()["id"] != import_id
    import_runner.run_next()
    assert count(database) == 1


def test_what_was_assumed_about_times_is_on_its_record(
    post: Ask, ask: Ask, import_runner: ImportRunner, sign_in: SignIn
) -> None:
    content = "annotator,model_a,model_b,winner,timestamp\nk,a,b,tie,1700000000000\nk,a,b,tie,1700000001000\n"
    note = "times such as 1700000000000 are read as milliseconds since 1970"
    for dry_run in ("true", "false"):
        sent = post(content.encode(), dry_run=dry_run)
        assert ask("GET", f"/imports/{sent.json()['id']}").json()["notes"] == []
        import_runner.run_next()
        assert ask("GET", f"/imports/{sent.json()['id']}").json()["notes"] == [note]
    assert f"T{note[1:]}." in sign_in("admin").get(f"/console/imports/{sent.json()['id']}").text


def test_a_dry_run(post: Ask, ask: Ask, import_runner: ImportRunner, database: Database) -> None:
    import_id = post(HEADER + "k,a,b,tie,\nk,a,,tie,\n", dry_run=True).json()["id"]
    import_runner.run_next()
    done = ask("GET", f"/imports/{import_id}").json()
    assert (done["state"], done["n_faults"]) == ("done", 1)
    unknown = dict.fromkeys(("duplicates", "retracted", "conflicts"))
    assert done["counts"] == {"rows": 2, "rejected": 1, "skipped": 0, "created": 0, "replaced": 0, **unknown}
    assert [count(database, table) for table in TABLES] == [0, 1, 0, 0]
    assert post(HEADER + "k,a,b,tie,\nk,a,,tie,\n", skip_invalid=True).json()["id"] != import_id


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        ("x,y\n1,2\n", "missing columns"),
        (HEADER, "has no votes"),
        (HEADER.encode() + b"k,a\xff,b,tie,\n", "not UTF-8"),
        (gzip.compress((HEADER + "k,a,b,tie,\n" * 1000).encode(), mtime=0)[:-12], "cannot be decompressed"),
        (b"\x28\xb5\x2f\xfd" + b"\x00" * 9, "cannot be decompressed"),
        (b"\x00" * 5000, "not UTF-8"),
        (gzip.compress(b"0" * 70_000_000, mtime=0), "has a record of more than 16,777,216 bytes"),
    ],
)
def test_what_is_no_vote_file_fails_with_a_line(
    post: Ask, ask: Ask, import_runner: ImportRunner, database: Database, content: str | bytes, detail: str
) -> None:
    posted = post(content, filename="bad.csv")
    assert posted.status_code == 202
    import_runner.run_next()
    failed = ask("GET", f"/imports/{posted.json()['id']}").json()
    assert failed["state"] == "failed"
    assert detail in failed["detail"]
    assert failed["detail"].startswith("bad.csv")
    assert "\n" not in failed["detail"]
    assert [count(database, table) for table in TABLES] == [0, 1, 0, 0]


def test_a_bomb_is_not_unpacked(post: Ask, ask: Ask, import_runner: ImportRunner) -> None:
    import_id = post(zstd_of_zeros(9 << 30)).json()["id"]
    import_runner.run_next()
    assert ask("GET", f"/imports/{import_id}").json()["detail"] == "upload has a record of more than 16,777,216 bytes"


@pytest.mark.parametrize(
    ("content", "media_type", "params", "status", "code"),
    [
        (HEADER, "text/plain", {}, 415, "media-type"),
        (HEADER, "text/plain", {"filename": "votes.xlsx"}, 415, "media-type"),
        ("", "text/csv", {}, 422, "invalid"),
        (HEADER, "text/csv", {"schema": "nonsense"}, 422, "invalid"),
        (HEADER, "text/csv", {"format": "xlsx"}, 422, "invalid"),
        (HEADER, "text/csv", {"filename": "a\nb.csv"}, 422, "invalid"),
        (HEADER, "text/csv", {"annotator_column": "a\x00"}, 422, "invalid"),
        (HEADER, "text/csv", {"annotator_column": "a", "pool_annotators": True}, 422, "invalid"),
    ],
)
def test_what_is_refused_at_once(
    post: Ask, assert_problem: AssertProblem, database: Database,
    content: str, media_type: str, params: dict[str, Any], status: int, code: str,
) -> None:  # fmt: skip
    assert_problem(post(content, media_type=media_type, **params), status, code)
    assert [count(database, table) for table in TABLES] == [0, 0, 0, 0]


def test_who_may(post: Ask, ask: Ask, assert_problem: AssertProblem) -> None:
    assert_problem(post(HEADER, scope=None), 401, "not-authenticated")
    assert_problem(post(HEADER, scope="read"), 403, "scope-missing")
    import_id = post(HEADER + "k,a,b,tie,\n").json()["id"]
    for path in ("/imports", f"/imports/{import_id}", f"/imports/{import_id}/errors"):
        assert_problem(ask("GET", path, scope=None), 401, "not-authenticated")
        assert_problem(ask("GET", path, scope="review"), 403, "scope-missing")
        assert [ask("GET", path, scope=scope).status_code for scope in ("ingest", "read", "admin")] == [200] * 3
    assert_problem(ask("GET", f"/imports/{'0' * 32}"), 404, "not-found")
    assert_problem(ask("GET", f"/imports/{'0' * 32}/errors"), 404, "not-found")
    assert_problem(ask("GET", "/imports", params={"cursor": "x"}), 422, "invalid")


def test_imports_are_listed_newest_first(post: Ask, ask: Ask) -> None:
    ids = [post(f"{HEADER}k,a,b,tie,{i}\n").json()["id"] for i in range(3)]
    page = ask("GET", "/imports", params={"limit": 2}).json()
    assert [item["id"] for item in page["items"]] == ids[:0:-1]
    rest = ask("GET", "/imports", params={"limit": 2, "cursor": page["next_cursor"]}).json()
    assert ([item["id"] for item in rest["items"]], rest["next_cursor"]) == (ids[:1], None)


def test_uploads_have_a_limit_of_their_own(
    settings: Settings, keys: dict[str, str], serving: Any, assert_problem: AssertProblem, database: Database
) -> None:
    small = settings.model_copy(
        update={
            "imports": ImportSettings(max_bytes=100_000),
            "server": settings.server.model_copy(update={"max_body_bytes": 2_000}),
        }
    )
    headers = {"Authorization": f"Bearer {keys['ingest']}", "Content-Type": "text/csv"}
    with serving(create_app(small)) as url, Client(base_url=url, timeout=120) as client:
        fits = client.post("/api/v1/imports", content=b"x" * 50_000, headers=headers)
        assert fits.status_code == 202
        whole = client.post("/api/v1/imports", content=b"x" * 100_001, headers=headers)
        assert_problem(whole, 413, "body-too-large")
        piecewise = client.post("/api/v1/imports", content=(b"x" * 10_000 for _ in range(11)), headers=headers)
        assert_problem(piecewise, 413, "body-too-large")
        form = {"file": ("v.csv", b"x" * 100_001)}
        headers.pop("Content-Type")
        assert_problem(client.post("/api/v1/imports", files=form, headers=headers), 413, "body-too-large")
    assert [count(database, table) for table in TABLES[1:3]] == [1, 1]


def test_a_caller_who_leaves_leaves_nothing(client: Client, keys: dict[str, str], database: Database) -> None:
    with socket.create_connection((client.base_url.host, client.base_url.port)) as connection:
        head = (
            f"POST /api/v1/imports HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\nContent-Type: text/csv\r\n"
            f"Authorization: Bearer {keys['ingest']}\r\n\r\n"
        )
        connection.sendall(head.encode() + b"x" * 3_000_000)
        wait_until(lambda: count(database, "file_chunks") > 0)
    wait_until(lambda: count(database, "imports") == count(database, "file_chunks") == 0)


def test_a_parquet_file_that_would_fill_the_memory_is_refused(
    post: Ask,
    ask: Ask,
    database: Database,
    import_runner: ImportRunner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.imports.formats.parquet.MAX_EXPANDED_BYTES", 500_000)  # 8 GiB would take long
    rows, path = 100_000, tmp_path / "votes.parquet"
    columns = {"annotator": "k", "model_a": "a", "model_b": "b", "winner": "tie"}
    one = pl.select(**{name: pl.repeat(value, rows) for name, value in columns.items()})
    one.write_parquet(path, row_group_size=rows)
    import_id = post(path.read_bytes(), filename="march.parquet").json()["id"]
    import_runner.run_next()
    failed = ask("GET", f"/imports/{import_id}").json()
    assert failed["detail"].startswith("march.parquet expands to more than 500,000 bytes")
    assert [count(database, table) for table in TABLES] == [0, 1, 0, 0]


def test_a_moment_that_cannot_be_stored_is_found_before_anything_is_written(
    post: Ask, ask: Ask, database: Database, import_runner: ImportRunner, tmp_path: Path
) -> None:
    rows, path = 60_000, tmp_path / "votes.parquet"
    votes = pl.select(annotator=pl.lit("k"), model_a=pl.lit("a"), model_b=pl.lit("b"), winner=pl.lit("tie"))
    moments = pl.Series("timestamp", [2**50] * (rows - 1) + [2**58]).cast(pl.Datetime("us")).to_frame()
    votes.join(moments, how="cross").write_parquet(path)
    import_id = post(path.read_bytes(), filename="march.parquet").json()["id"]
    import_runner.run_next()
    failed = ask("GET", f"/imports/{import_id}").json()
    assert (failed["state"], failed["counts"]["rejected"]) == ("failed", 1)
    assert failed["faults"][0]["place"] == "row 59999, timestamp"
    assert count(database) == 0


@pytest.mark.campaign
def test_with_pseudonyms_raw_keys_are_nowhere_afterwards(
    settings: Settings, keys: dict[str, str], serving: Any, database: Database, tmp_path: Path
) -> None:
    working = settings.model_copy(update={"worker": WorkerSettings(), "pseudonym_key": SecretStr("s" * 40)})
    headers = {"Authorization": f"Bearer {keys['ingest']}", "Content-Type": "text/csv"}
    body = HEADER + "raw-key,a,b,tie,1\nraw-key,a,b,model_a,1\nraw-key,,b,tie,\n"
    with serving(create_app(working)) as url, Client(base_url=url, timeout=120) as client:
        posted = client.post("/api/v1/imports?skip_invalid=true", content=body.encode(), headers=headers).json()
        wait_until(lambda: count(database) == 1)
        errors = client.get(f"/api/v1/imports/{posted['id']}/errors", headers=headers).text
    assert len(errors.splitlines()) == 3
    assert "raw-key" not in errors
    with database.read() as conn:
        for table in ("annotators", "imports", "import_faults", "file_chunks", "votes"):
            assert "raw-key" not in str(conn.execute(text(f"SELECT {table}::text FROM {table}")).all()), table
