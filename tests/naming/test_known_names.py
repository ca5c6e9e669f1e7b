from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from app.database.engine import Database
from app.naming import known_names
from app.naming.aliases import insert_alias
from app.naming.known_names import KnownNames
from app.votes.service import look_up_names, record_submissions, record_votes
from app.votes.vote import NewVote

VOTE = NewVote("a", "b", "tie", "judge")


@pytest.fixture
def statements(database: Database) -> Iterator[list[str]]:
    """What the test's database is asked."""
    asked: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        asked.append(statement)

    event.listen(database._engine, "before_cursor_execute", note)
    yield asked
    event.remove(database._engine, "before_cursor_execute", note)


def record(database: Database, *votes: NewVote) -> None:
    with database.begin() as conn:
        record_votes(conn, votes, api_key_id=None)


def numbers(database: Database, table: str, column: str) -> dict[str, int]:
    with database.read() as conn:
        return dict(conn.execute(text(f"SELECT {column}, id FROM {table}")).all())


def test_names_are_asked_for_once(database: Database, statements: list[str]) -> None:
    record(database, VOTE)
    names = KnownNames(database)
    first = look_up_names(names, [VOTE])
    assert first.models.own == numbers(database, "models", "name")
    assert first.annotators == numbers(database, "annotators", "key")
    statements.clear()
    again = look_up_names(names, [VOTE])
    assert (again.models.own, again.annotators) == (first.models.own, first.annotators)
    assert statements == []


def test_a_vote_on_known_names_is_one_statement(database: Database, statements: list[str]) -> None:
    record(database, VOTE)
    known = look_up_names(KnownNames(database), [VOTE])
    statements.clear()
    with database.begin() as conn:
        assert [each.status for each in record_submissions(conn, [(VOTE, None)] * 3, known)] == ["created"] * 3
    assert len(statements) == 1


def test_what_is_rolled_back_is_not_remembered(database: Database) -> None:
    names = KnownNames(database)
    with database.begin() as conn:
        record_votes(conn, [VOTE], api_key_id=None)
        known = look_up_names(names, [VOTE])
        assert (known.models.own, known.annotators) == ({}, {})
        conn.get_transaction().rollback()  # type: ignore[union-attr]  # begin() has begun it
    record(database, VOTE)
    assert look_up_names(names, [VOTE]).models.own == numbers(database, "models", "name")


def test_what_is_remembered_is_forgotten(database: Database) -> None:
    record(database, VOTE)
    patient, forgetful = KnownNames(database, seconds=3600), KnownNames(database, seconds=0)
    for names in (patient, forgetful):
        look_up_names(names, [VOTE])
    with database.begin() as conn:
        conn.execute(text("UPDATE models SET name = 'A' WHERE name = 'a'"))
        conn.execute(text("UPDATE annotators SET key = 'erased' WHERE key = 'judge'"))
    assert look_up_names(patient, [VOTE]).models.own.keys() == {"a", "b"}
    late = look_up_names(forgetful, [VOTE])
    assert (late.models.own.keys(), late.annotators) == ({"b"}, {})


def test_names_with_aliases_are_asked_for_every_time(database: Database, statements: list[str]) -> None:
    record(database, VOTE)
    turn = datetime(2026, 1, 1, tzinfo=UTC)
    with database.begin() as conn:
        model_id = conn.execute(text("SELECT id FROM models WHERE name = 'b'")).scalar_one()
        insert_alias(conn, "a", model_id, valid_from=turn, valid_until=None, created_by="a test")
    names = KnownNames(database)
    statements.clear()
    for _ in range(2):
        models = look_up_names(names, [VOTE]).models
        assert models.number("a", turn) == model_id
        assert models.number("a", turn - timedelta(days=1)) == models.own["a"] != model_id
    assert sum("model_aliases" in statement for statement in statements) == 2


def test_names_in_use_are_asked_for_together(
    database: Database, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(known_names.time, "monotonic", lambda: clock[0])
    votes = [replace(VOTE, annotator=f"k{i}") for i in range(10)]
    record(database, *votes, replace(VOTE, annotator="rare"))
    names = KnownNames(database, seconds=10)
    for i, vote in enumerate(votes):  # met one by one, they would be forgotten one by one
        clock[0] = i / 10
        look_up_names(names, [vote])
    look_up_names(names, [replace(VOTE, annotator="rare")])
    clock[0] = 6.0
    look_up_names(names, votes)
    clock[0] = 10.05
    statements.clear()
    for vote in votes:
        assert look_up_names(names, [vote]).annotators[vote.annotator]
    assert sum("annotators" in statement for statement in statements) == 1, "one statement renews all ten"
    clock[0] = 20.04
    statements.clear()
    assert look_up_names(names, votes).annotators.keys() == {vote.annotator for vote in votes}
    assert statements == [], "what was renewed is remembered as long as what was asked for"
    clock[0] = 20.06
    look_up_names(names, votes)
    assert statements, "but no longer"
