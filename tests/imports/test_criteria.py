"""Files with votes by several criteria."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.imports.runner import ImportRunner

Ask = Callable[..., Any]
HEADER = "annotator,model_a,model_b,winner,battle_id,criterion\n"
FILE = HEADER + "ann,x,y,model_a,1,\nann,x,y,model_b,1,accuracy\nann,x,y,tie,1,style\nbob,x,y,tie,1,overall\n"


@pytest.fixture
def run(post: Ask, ask: Ask, import_runner: ImportRunner) -> Ask:
    """Import a file, and return how it ended."""

    def run(content: str, **params: Any) -> Any:
        body = post(content, **params).json()
        import_runner.run_next()
        return ask("GET", f"/imports/{body['id']}", scope="ingest").json()

    return run


def test_a_file_has_a_vote_for_each_criterion(run: Ask, database: Database) -> None:
    assert run(FILE)["counts"]["created"] == 4
    with database.read() as conn:
        kept = conn.execute(text("SELECT criterion, outcome FROM votes ORDER BY outcome, criterion")).all()
    assert kept == [(None, 0), ("accuracy", 1), ("style", 2), (None, 2)]
    later = HEADER + "ann,x,y,model_b,1,accuracy\nann,x,y,model_a,1,accuracy\nann,x,y,model_a,1,fluency\n"
    counts = run(later)["counts"]
    assert (counts["created"], counts["duplicates"], counts["conflicts"]) == (1, 1, 1)


def test_the_same_verdict_by_another_criterion_is_another_vote(run: Ask) -> None:
    rows = [f"ann,x,m{i},model_a,{{}}\n" for i in range(30)]
    plain = "annotator,model_a,model_b,winner,criterion\n"
    assert run(plain + "".join(row.format("") for row in rows))["counts"]["created"] == 30
    assert run(plain + "".join(row.format("accuracy") for row in rows))["counts"]["created"] == 30
    again = run(plain + "ann,y,x,tie,accuracy\n" + "".join(row.format("accuracy") for row in rows))
    assert again["state"] == "failed"


def test_an_invalid_criterion_is_rejected(run: Ask) -> None:
    done = run(HEADER + f"ann,x,y,tie,1,{'x' * 101}\nann,x,y,tie,2,\nann,x,y,tie,3, a\n")
    assert done["counts"]["rejected"] == 2


def test_grades_are_stored_as_rankings(run: Ask, ask: Ask, database: Database) -> None:
    grades = [f"ann,i1,{criterion},{model},{model[1:]}" for model in ("m1", "m2", "m3") for criterion in ("", "style")]
    rows = [*grades, "ann,i2,,m1,4", "ann,i3,,m1,5", "ann,i3,,m2,good"]
    done = run("\n".join(["annotator,item,criterion,model,rating", *rows]), skip_invalid=True)
    counts = {name: done["counts"][name] for name in ("rows", "created", "skipped", "rejected")}
    assert counts == {"rows": 4, "created": 2, "skipped": 1, "rejected": 1}
    faults = ask("GET", f"/imports/{done['id']}/errors", scope="ingest").text
    assert "line 10" in faults
    assert "rating must be a number" in faults
    with database.read() as conn:
        battle = "coalesce(battle_id, criterion_battle_id)"
        kept = conn.execute(text(f"SELECT {battle}, criterion, jsonb_array_length(ranking) FROM votes")).all()
    assert sorted(kept, key=str) == [("i1", "style", 3), ("i1", None, 3)]


OVERALL = ["OVERALL", "Overall", "over\u200dall", "\uff4fverall"]


@pytest.mark.parametrize("criterion", OVERALL)
def test_overall_has_one_name(criterion: str, run: Ask, ask: Ask, database: Database) -> None:
    assert run(f"{HEADER}ann,x,y,tie,1,{criterion}\n")["counts"]["created"] == 1
    vote = {"model_a": "x", "model_b": "y", "winner": "tie", "annotator": "bob", "criterion": criterion}
    assert ask("POST", "/votes", scope="ingest", json=vote).status_code == 201
    with database.read() as conn:
        assert conn.execute(text("SELECT criterion FROM votes")).scalars().all() == [None, None]


HIDDEN = "over\u200ball"
VOTE = {"model_a": "x", "model_b": "y", "winner": "tie", "annotator": "bob"}


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"criterion": HIDDEN}, "/criterion"),
        ({"tags": ["fr", HIDDEN]}, "/tags/1"),
        ({"features": {HIDDEN: [1, 2]}}, f"/features/{HIDDEN}"),
    ],
)
def test_what_makes_a_group_has_no_invisible_character(
    more: dict[str, Any], pointer: str, ask: Ask, assert_problem: Callable[..., dict[str, Any]]
) -> None:
    problem = assert_problem(ask("POST", "/votes", scope="ingest", json=VOTE | more), 422, "invalid")
    assert problem["errors"][0]["pointer"].startswith(pointer)


def test_a_file_has_none_either(run: Ask) -> None:
    failed = run(f"{HEADER}ann,x,y,tie,1,{HIDDEN}\nann,x,y,tie,2,\n")
    assert (failed["state"], failed["n_faults"], failed["faults"][0]["place"]) == ("failed", 1, "line 2, criterion")


def test_a_category_of_a_prompt_has_none_either(ask: Ask, assert_problem: Callable[..., dict[str, Any]]) -> None:
    answers = {"answers": [{"prompt": "p", "model": "m", "answer": "a", "category": HIDDEN}]}
    assert_problem(ask("POST", "/answers", json=answers), 422, "invalid")
