"""Prompts and answers over HTTP and from files: recorded, replaced, withdrawn, listed, exported."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from httpx import Client
from sqlalchemy import Connection, text

from app.answers.queries import lock_answers, measure_answer
from app.answers.schemas import MAX_TEXT_BYTES, AnswerCounts, NewAnswer
from app.answers.service import record_answers
from app.database.engine import Database
from app.database.errors import DatabaseUnreachableError
from app.errors import BadInputError
from app.exports.files import write_export
from app.exports.schemas import ExportFilters
from app.imports.answers import import_answers
from app.naming.aliases import read_names
from tests.fixtures.errors import at, having
from tests.fixtures.waiting import wait_until

Ask = Callable[..., Any]
AssertProblem = Callable[..., dict[str, Any]]
POOL = [
    {"prompt": prompt, "model": model, "answer": f"{model} says: {prompt}", "category": "science"}
    for prompt in ("Why is the sky blue?", "Why is grass green?")
    for model in ("a", "b")
]
COUNTS = {"prompts": 0, "created": 0, "duplicate": 0, "replaced": 0, "conflict": 0}


def test_answers_are_recorded_once_and_replaced_if_so_asked(ask: Ask) -> None:
    assert ask("POST", "/answers", json={"answers": POOL}).json() == {**COUNTS, "prompts": 2, "created": 4}
    padded = [{**POOL[0], "prompt": f" {POOL[0]['prompt']}\n", "category": "colours", "reference": "Rayleigh"}]
    assert ask("POST", "/answers", json={"answers": [*POOL, *padded]}).json() == {**COUNTS, "duplicate": 5}
    other = [{**POOL[0], "answer": "It is not."}]
    assert ask("POST", "/answers", json={"answers": other}).json() == {**COUNTS, "conflict": 1}
    assert ask("POST", "/answers", json={"answers": other, "replace": True}).json() == {**COUNTS, "replaced": 1}
    listed = ask("GET", "/prompts", params={"limit": 1}).json()
    more = ask("GET", "/prompts", params={"cursor": listed["next_cursor"]}).json()
    prompts = {one["text"]: one for one in (*listed["items"], *more["items"])}
    assert [one["answers"] for one in prompts.values()] == [2, 2]
    assert (more["next_cursor"], len(ask("GET", "/prompts?category=x").json()["items"])) == (None, 0)
    shown = ask("GET", f"/prompts/{prompts['Why is the sky blue?']['id']}").json()
    assert (shown["category"], shown["reference"]) == ("science", "Rayleigh"), "what a prompt lacks is added"
    assert [(one["model"], one["text"]) for one in shown["shown"]] == [("a", "It is not."), ("b", POOL[1]["answer"])]
    actions = [(one["action"], one["detail"]["created"]) for one in ask("GET", "/audit?action=answers").json()["items"]]
    assert actions == [("answers.record", 0), ("answers.record", 4)], "what changed nothing is no act"


def test_withdrawn_answers_are_no_longer_shown(ask: Ask, database: Database, assert_problem: AssertProblem) -> None:
    ask("POST", "/answers", json={"answers": POOL})
    prompt = ask("GET", "/prompts").json()["items"][0]["id"]
    one = {"model": "b", "prompt_id": prompt}
    assert [ask("POST", "/answers/withdraw", json=one).json()["withdrawn"] for _ in range(2)] == [1, 0]
    assert ask("GET", f"/prompts/{prompt}").json()["answers"] == 1
    coverage = ask("GET", "/answers/coverage").json()
    assert (coverage["prompts"], coverage["categories"]) == (2, {"science": 2})
    assert [(one["model"], one["answers"]) for one in coverage["models"]] == [("a", 2), ("b", 1)]
    assert ask("POST", "/answers/withdraw", json={"model": "a"}).json() == {"withdrawn": 2}
    unknown = {"model": "b", "prompt_id": "00000000-0000-0000-0000-000000000000"}
    assert_problem(ask("POST", "/answers/withdraw", json=unknown), 404, "not-found")
    assert_problem(ask("POST", "/answers/withdraw", json={"model": "z"}), 404, "not-found")
    assert_problem(ask("GET", f"/prompts/{unknown['prompt_id']}"), 404, "not-found")
    with database.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM answers")).scalar_one() == 4, "battles still find them"


def test_only_admins_have_answers_and_all_are_checked(ask: Ask, client: Client, assert_problem: AssertProblem) -> None:
    calls = [
        ("POST", "/answers", {"answers": POOL}),
        ("POST", "/answers/withdraw", {"model": "a"}),
        ("GET", "/answers/coverage", None),
        ("GET", "/prompts", None),
        ("GET", "/prompts/00000000-0000-0000-0000-000000000000", None),
    ]
    for method, path, body in calls:
        assert_problem(ask(method, path, scope=None, json=body), 401, "not-authenticated")
        assert_problem(ask(method, path, scope="review", json=body), 403, "scope-missing")
    long, limit = "ä" * (MAX_TEXT_BYTES // 2 + 1), f"{MAX_TEXT_BYTES:,} bytes"
    for changed in ({"answer": long}, {"prompt": long}, {"prompt": " \n"}, {"model": ""}, {"answer": "\0"}, {"x": 1}):
        refused = ask("POST", "/answers", json={"answers": [POOL[0], {**POOL[1], **changed}]})
        error = assert_problem(refused, 422, "invalid")["errors"][0]
        assert error["pointer"] == f"/answers/1/{next(iter(changed))}"
        assert (limit in error["detail"]) == (long in changed.values())
    assert ask("GET", "/prompts").json()["items"] == [], "all or none"


ALPACA = [
    {"instruction": one["prompt"], "output": one["answer"], "generator": one["model"], "dataset": "science"}
    for one in POOL
]
ARENA_HARD = [
    {
        "uid": "1",
        "model": one["model"],
        "ans_id": "2",
        "messages": [
            {"role": "user", "content": one["prompt"]},
            {"role": "assistant", "content": {"answer": one["answer"]}},
        ],
    }
    for one in POOL
]


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    match path.suffix:
        case ".jsonl":
            path.write_text("".join(json.dumps(one) + "\n" for one in records))
        case ".json":
            path.write_text(json.dumps(records, indent=1))
        case ".csv":
            pl.DataFrame(records).write_csv(path)
        case ".parquet":
            pl.DataFrame(records).write_parquet(path)
    return path


@pytest.mark.parametrize(
    ("name", "records"),
    [("a.jsonl", POOL), ("a.csv", POOL), ("a.parquet", POOL), ("a.json", ALPACA), ("a.jsonl", ARENA_HARD)],
)
def test_files_of_answers(database: Database, tmp_path: Path, name: str, records: list[dict[str, Any]]) -> None:
    file = write(tmp_path / name, records)
    done = import_answers(database, file, replace=False, recorded_by="me")
    again = import_answers(database, file, replace=False, recorded_by="me")
    assert (done, again) == (AnswerCounts(prompts=2, created=4), AnswerCounts(duplicate=4))
    exported = tmp_path / "out.jsonl"
    assert write_export(database, "answers", "jsonl", ExportFilters(), exported).rows == 4
    rows = [json.loads(line) for line in exported.read_text().splitlines()]
    assert [(row["prompt"], row["model"], row["answer"]) for row in rows] == [
        (one["prompt"], one["model"], one["answer"]) for one in POOL
    ]
    assert import_answers(database, exported, replace=False, recorded_by="me") == AnswerCounts(duplicate=4)


@pytest.mark.parametrize("wrap", [lambda said: {"content": said, "token_len": 3}, str], ids=["arena-hard", "mt-bench"])
def test_answers_that_name_their_questions(database: Database, tmp_path: Path, wrap: Callable[[str], Any]) -> None:
    prompts = list(dict.fromkeys(one["prompt"] for one in POOL))
    answers = [
        {
            "question_id": f"q{prompts.index(one['prompt'])}",
            "answer_id": "x",
            "model_id": one["model"],
            "choices": [{"index": 0, "turns": [wrap(one["answer"])]}],
            "tstamp": 1.5,
        }
        for one in POOL
    ]
    file = write(tmp_path / "answers.jsonl", answers)
    asked = [{"question_id": f"q{at}", "category": "c", "turns": [wrap(text)]} for at, text in enumerate(prompts)]
    with pytest.raises(BadInputError, match="question_id"):
        import_answers(database, file, replace=False, recorded_by="me")
    one = write(tmp_path / "one.jsonl", asked[:1])
    with pytest.raises(BadInputError, check=at("line 3, prompt", "line 4, prompt")):
        import_answers(database, file, replace=False, recorded_by="me", questions=one)
    questions = write(tmp_path / "question.jsonl", asked)
    done = import_answers(database, file, replace=False, recorded_by="me", questions=questions)
    assert done == AnswerCounts(prompts=2, created=4)
    plain = write(tmp_path / "plain.jsonl", POOL)
    assert import_answers(database, plain, replace=False, recorded_by="me") == AnswerCounts(duplicate=4)


def test_what_is_wrong_with_a_file_of_answers(database: Database, tmp_path: Path) -> None:
    bad = [*POOL, {**POOL[0], "model": "c", "answer": "x" * (MAX_TEXT_BYTES + 1)}, {**POOL[0], "prompt": None}]
    with pytest.raises(BadInputError, check=at("line 5, answer", "line 6, prompt")):
        import_answers(database, write(tmp_path / "a.jsonl", bad), replace=False, recorded_by="me")
    for name, records, code in (("b.jsonl", [{"prompt": "x"}], "columns"), ("c.xlsx", [], "invalid")):
        file = write(tmp_path / name, records)
        with pytest.raises(BadInputError, check=having(code=code)):
            import_answers(database, file, replace=False, recorded_by="me")
    with database.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM prompts")).scalar_one() == 0


def many(number: int) -> list[dict[str, Any]]:
    return [
        {"prompt": str(place), "model": "zeta" if place < 1000 else "alpha", "answer": "x"} for place in range(number)
    ]


def test_an_import_that_waits_holds_no_model_back(database: Database, tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", many(1_100))
    waiting = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    with ThreadPoolExecutor(1) as thread:
        with database.begin() as conn:
            lock_answers(conn)
            done = thread.submit(import_answers, database, file, replace=False, recorded_by="me")
            wait_until(lambda: conn.execute(waiting).scalar_one() == 1, 60)
            with database.read() as voting:
                assert read_names(voting, {"alpha", "zeta"}).own.keys() == {"alpha", "zeta"}
        assert done.result().created == 1_100


def test_an_import_that_fails_says_what_is_in_and_goes_on(
    database: Database, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, pieces = write(tmp_path / "a.jsonl", many(1_100)), list[int]()

    def fail_at_the_second(conn: Connection, given: list[NewAnswer], *, replace: bool) -> AnswerCounts:
        pieces.append(len(given))
        if len(pieces) == 2:
            raise DatabaseUnreachableError("gone")
        return record_answers(conn, given, replace=replace)

    monkeypatch.setattr("app.imports.answers.record_answers", fail_at_the_second)
    with pytest.raises(DatabaseUnreachableError) as failed:
        import_answers(database, file, replace=False, recorded_by="me")
    assert "1,000 of 1,100" in failed.value.detail
    assert import_answers(database, file, replace=False, recorded_by="me") == AnswerCounts(
        prompts=100, created=100, duplicate=1_000
    )
    assert pieces == [1_000, 100] * 2
    acts = [(one["action"], one["detail"]) for one in ask("GET", "/audit?action=answers").json()["items"]]
    assert [action for action, _ in acts] == ["answers.record", "answers.begin"]
    assert (acts[1][1], acts[0][1]["created"]) == ({"answers": 1_100}, 100)


def test_an_answer_is_measured_as_lmarena_measures_it() -> None:
    said = "# Why\n\n* **blue** __light__\n 1. scatters\n```\n# no header\n- no item **x**\n```\n" + "\n" * 50_000
    assert measure_answer(said) == {"length": 16, "headers": 1, "lists": 2, "bold": 2}
