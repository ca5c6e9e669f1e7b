from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from app.database.engine import Database
from app.naming import known_names
from app.naming.aliases import insert_alias
from app.naming.known_names import Known, KnownNames
from app.votes.schemas import Vote
from app.votes.service import look_up_names, record_votes
from tests.fixtures.crowds import SENDER

VOTE = Vote(model_a="a", model_b="b", winner="tie", annotator="judge")


@pytest.fixture
def statements(database: Database) -> Iterator[list[str]]:
    """What the test's database is asked."""
    asked: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        asked.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    yield asked
    event.remove(database.engine, "before_cursor_execute", note)


def record(database: Database, *votes: Vote) -> None:
    with database.begin() as conn:
        record_votes(conn, [(vote, SENDER) for vote in votes], Known())


def numbers(database: Database, table: str, column: str) -> dict[str, int]:
    with database.read() as conn:
        return dict(conn.execute(text(f"SELECT {column}, id FROM {table}")).all())


def test_names_are_asked_for_once(database: Database, statements: list[str]) -> None:
    record(database, VOTE)
    names = KnownNames(database)
    first = look_up_names(names, [VOTE])
    assert first.models == numbers(database, "models", "name")
    assert first.annotators == numbers(database, "annotators", "key")
    statements.clear()
    again = look_up_names(names, [VOTE])
    assert (again.models, again.annotators) == (first.models, first.annotators)
    assert statements == []


def test_a_vote_on_known_names_is_one_statement(database: Database, statements: list[str]) -> None:
    record(database, VOTE)
    known = look_up_names(KnownNames(database), [VOTE])
    statements.clear()
    with database.begin() as conn:
        assert [each.status for each in record_votes(conn, [(VOTE, SENDER)] * 3, known)] == ["created"] * 3
    assert len(statements) == 1


def test_what_is_rolled_back_is_not_remembered(database: Database) -> None:
    names = KnownNames(database)
    with database.begin() as conn:
        record_votes(conn, [(VOTE, SENDER)], Known())
        known = look_up_names(names, [VOTE])
        assert (known.models, known.annotators) == ({}, {})
        conn.get_transaction().rollback()  # type: ignore[union-attr]  # begin() has begun it
    record(database, VOTE)
    assert look_up_names(names, [VOTE]).models == numbers(database, "models", "name")


def test_what_is_remembered_is_forgotten(database: Database) -> None:
    record(database, VOTE)
    patient, forgetful = KnownNames(database, seconds=3600), KnownNames(database, seconds=0)
    for names in (patient, forgetful):
        look_up_names(names, [VOTE])
    with database.begin() as conn:
        conn.execute(text("UPDATE models SET name = 'A' WHERE name = 'a'"))
        conn.execute(text("UPDATE annotators SET key = 'erased' WHERE key = 'judge'"))
    assert look_up_names(patient, [VOTE]).models.keys() == {"a", "b"}
    late = look_up_names(forgetful, [VOTE])
    assert (late.models.keys(), late.annotators) == ({"b"}, {})


def test_a_name_with_aliases_is_read_for_every_group_of_votes(database: Database, statements: list[str]) -> None:
    record(database, VOTE)
    turn = datetime(2026, 1, 1, tzinfo=UTC)
    with database.begin() as conn:
        model_id = conn.execute(text("SELECT id FROM models WHERE name = 'b'")).scalar_one()
        insert_alias(conn, "a", model_id, valid_from=turn, valid_until=None, created_by="a test")
    names = KnownNames(database)
    for at, model in ((turn, "b"), (turn - timedelta(days=1), "a")):
        vote = VOTE.model_copy(update={"model_b": "c", "voted_at": at})
        known = look_up_names(names, [vote])
        assert known.models["a"] is None
        statements.clear()
        with database.begin() as conn:
            (receipt,) = record_votes(conn, [(vote, SENDER)], known)
            stored = conn.execute(
                text("SELECT name FROM models JOIN votes ON models.id = model_a_id WHERE votes.id = :id"),
                {"id": receipt.id},
            ).scalar_one()
        assert stored == model
        assert any("model_aliases" in statement for statement in statements)


def test_names_are_forgotten_together(
    database: Database, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(known_names.time, "monotonic", lambda: clock[0])
    votes = [VOTE.model_copy(update={"annotator": f"k{i}"}) for i in range(10)]
    record(database, *votes)
    names = KnownNames(database, seconds=10)
    for i, vote in enumerate(votes):
        clock[0] = 100 + i / 10
        look_up_names(names, [vote])
    clock[0] = 109.9
    statements.clear()
    look_up_names(names, votes)
    assert statements == []
    clock[0] = 110.0  # 10 seconds after the first name was read; the last one is 9.1 seconds old
    assert look_up_names(names, votes).annotators.keys() == {vote.annotator for vote in votes}
    assert sum("annotators" in statement for statement in statements) == 1, "one statement reads all ten"


def test_names_read_while_the_rest_is_forgotten_do_not_stay_longer(database: Database) -> None:
    record(database, VOTE)
    names = KnownNames(database, seconds=3600)
    before = look_up_names(names, [VOTE])
    names.forget()
    assert look_up_names(names, [VOTE]) is not before, "what a thread still adds to the old names is forgotten"
