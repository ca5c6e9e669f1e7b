"""Files whose rows stand for several votes: a vote on record is one vote, so an import asks, or refuses them."""

from collections.abc import Callable
from typing import Any

import pytest

from app.database.engine import Database
from app.imports.runner import ImportRunner
from tests.imports.uploads import count

Ask = Callable[..., Any]
RANKS = "item,annotator,model,rank\n1,k,a,0\n1,k,b,1\n1,k,c,2\n"


def csv_of(column: str, *values: str) -> str:
    rows = [f"k{number},a,b,model_a,{value}\n" for number, value in enumerate(values)]
    return "".join([f"annotator,model_a,model_b,winner,{column}\n", *rows])


@pytest.fixture
def run(post: Ask, ask: Ask, import_runner: ImportRunner) -> Ask:
    """Import a file, and return how it ended."""

    def run(content: str, **params: Any) -> Any:
        body = post(content, **params).json()
        import_runner.run_next()
        return ask("GET", f"/imports/{body['id']}", scope="ingest").json()

    return run


def test_a_row_of_several_votes_is_no_vote(run: Ask, database: Database) -> None:
    refused = run(csv_of("weight", "1", "2"))
    assert (refused["state"], refused["n_faults"]) == ("failed", 1)
    assert refused["faults"][0]["place"] == "line 3, weight"
    assert "columns=weight%3D" in refused["faults"][0]["detail"]
    assert count(database) == 0
    once = run(csv_of("weight", "1", "2"), columns="weight=")
    assert (once["state"], once["counts"]["created"], count(database)) == ("done", 2, 2)


def test_rows_of_one_vote_each_are_votes(run: Ask, database: Database) -> None:
    done = run(csv_of("weight", "1", "1.0"))
    assert (done["state"], done["counts"]["created"], done["notes"], count(database)) == ("done", 2, [], 2)


@pytest.mark.parametrize("column", ["n", "count", "freq", "votes", "Weight"])
def test_a_column_that_may_be_a_weight_is_asked_about(run: Ask, database: Database, column: str) -> None:
    asked = run(csv_of(column, "1", "2"))
    assert (asked["state"], count(database)) == ("failed", 0)
    assert f"--columns weight={column} " in asked["detail"]
    assert "columns=weight%3D" in asked["detail"]
    assert run(csv_of(column, "1", "2"), columns=f"weight={column}")["n_faults"] == 1
    assert run(csv_of(column, "1", "2"), columns="weight=")["counts"]["created"] == 2


def test_ranks_of_0_are_asked_about(run: Ask, database: Database) -> None:
    asked = run(RANKS)
    assert (asked["state"], "zero_rank" in asked["detail"], count(database)) == ("failed", True, 0)
    assert run(RANKS, zero_rank="unranked")["counts"]["created"] == 1


def test_what_a_rank_of_0_means_is_one_of_two_words(post: Ask, assert_problem: Ask) -> None:
    assert_problem(post(RANKS, zero_rank="last"), 422, "invalid")
