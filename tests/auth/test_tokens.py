"""What a page with an ingest token may do: vote, at a person's pace, on models that are on record."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.settings import Settings

Ask = Callable[..., Any]

VOTE = {"model_a": "ant", "model_b": "bee", "winner": "tie", "annotator": "judge"}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Five votes a minute by a token, three for an annotator."""
    ingest = settings.ingest.model_copy(update={"votes_per_token": 5, "token_votes_per_annotator": 3})
    return settings.model_copy(update={"ingest": ingest})


@pytest.fixture
def make_token(ask: Ask) -> Callable[..., dict[str, str]]:
    """Make a token and return the header that shows it."""

    def make(**body: str) -> dict[str, str]:
        made = ask("POST", "/keys/tokens", scope="ingest", json=body)
        assert made.status_code == 201, made.text
        return {"Authorization": f"Bearer {made.json()['token']}"}

    return make


@pytest.fixture(autouse=True)
def _models(database: Database) -> None:
    with database.begin() as conn:
        conn.execute(text("INSERT INTO models (name) VALUES ('ant'), ('bee')"))


def count_models(database: Database) -> int:
    with database.read() as conn:
        return int(conn.execute(text("SELECT count(*) FROM models")).scalar_one())


def test_a_token_adds_no_models(ask: Ask, database: Database, make_token: Ask, assert_problem: Ask) -> None:
    token = make_token()
    strange = {**VOTE, "model_b": "HACKED <script>"}
    refused = assert_problem(ask("POST", "/votes", scope=None, headers=token, json=strange), 422, "invalid")
    assert refused["errors"] == [
        {"pointer": "/model_b", "detail": "is not the name of a model; a vote by a token adds none"}
    ]
    batch = ask("POST", "/votes/batch", scope=None, headers=token, json={"votes": [strange, VOTE]}).json()
    assert [result["status"] for result in batch["results"]] == ["invalid", "created"]
    assert count_models(database) == 2
    assert ask("POST", "/votes", scope="ingest", json={**VOTE, "model_b": "new"}).status_code == 201
    assert (
        ask("POST", "/votes", scope=None, headers=token, json={**VOTE, "model_b": "new", "annotator": "k"}).status_code
        == 201
    )
    assert count_models(database) == 3


@pytest.mark.usefixtures("limits_clock")
def test_a_token_votes_at_a_persons_pace(ask: Ask, make_token: Ask, assert_problem: Ask) -> None:
    def vote(token: dict[str, str], annotator: str) -> Any:
        return ask("POST", "/votes", scope=None, headers=token, json={**VOTE, "annotator": annotator})

    first, second = make_token(), make_token()
    assert [vote(first, "judge").status_code for _ in range(3)] == [201] * 3
    problem = assert_problem(vote(first, "judge"), 429, "rate-limited")
    assert problem["detail"].startswith("one annotator may send 3 votes by tokens a minute")
    assert vote(second, "judge").status_code == 429, "the same annotator by another token of the key"
    assert [vote(first, name).status_code for name in ("k", "l", "m")] == [201, 201, 429]
    assert vote(second, "m").status_code == 201
    assert {ask("POST", "/votes", scope="ingest", json=VOTE).status_code for _ in range(6)} == {201}, "keys are free"


@pytest.mark.usefixtures("limits_clock")
def test_votes_of_a_batch_count_one_by_one(ask: Ask, make_token: Ask, assert_problem: Ask) -> None:
    token = make_token()

    def send(*annotators: str) -> Any:
        votes = [{**VOTE, "annotator": annotator} for annotator in annotators]
        return ask("POST", "/votes/batch", scope=None, headers=token, json={"votes": votes})

    assert_problem(send(*"abcdef"), 429, "rate-limited")
    assert_problem(send("a", "a", "a", "a"), 429, "rate-limited")
    assert send("a", "b", "c").json()["counts"]["created"] == 3
    assert send("d", "e").json()["counts"]["created"] == 2
    refused = send("f")
    assert_problem(refused, 429, "rate-limited")
    assert int(refused.headers["retry-after"]) > 0
