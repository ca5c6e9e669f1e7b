from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from app.naming.known_names import Known
from app.votes.schemas import Vote, VoteReceipt
from app.votes.service import record_votes
from tests.fixtures.crowds import SENDER

VOTE = Vote(model_a="a", model_b="b", winner="model_a", annotator="judge", battle_id="battle")


def changed(vote: Vote = VOTE, **changes: Any) -> Vote:
    return Vote.model_validate({**vote.model_dump(), **changes})


SWAPPED = changed(model_a="b", model_b="a", winner="model_b")


def record(conn: Connection, *votes: Vote) -> list[VoteReceipt]:
    return record_votes(conn, [(vote, SENDER) for vote in votes], Known())


def stored(conn: Connection) -> list[Any]:
    statement = """
    SELECT v.id, a.name AS model_a, b.name AS model_b, v.outcome, k.key, v.battle_id, v.voted_at, v.tags, v.metadata
    FROM votes v JOIN models a ON a.id = model_a_id JOIN models b ON b.id = model_b_id
    JOIN annotators k ON k.id = annotator_id ORDER BY v.id
    """
    return list(conn.execute(text(statement)).all())


def test_a_vote_is_stored_as_it_came(connection: Connection) -> None:
    voted_at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=5)))
    tags = ['a "quoted" one', "back\\slash", "{brace,comma}", "NULL", "ünïcode"]
    metadata = {"prompt": 'π \\ "', "numbers": [1, 2.5, None, True], "deep": {"er": {}}}
    vote = changed(voted_at=voted_at, tags=tags, metadata=metadata)
    (receipt,) = record(connection, vote)
    assert receipt.status == "created"
    (row,) = stored(connection)
    assert row == (receipt.id, "a", "b", 0, "judge", "battle", voted_at, tags, metadata)


@pytest.mark.parametrize(("winner", "number"), [("model_a", 0), ("model_b", 1), ("tie", 2), ("tie (bothbad)", 3)])
def test_outcome_words_and_numbers(connection: Connection, winner: str, number: int) -> None:
    record(connection, changed(winner=winner))
    assert stored(connection)[0].outcome == number


@pytest.mark.parametrize("again", [VOTE, SWAPPED, changed(tags=["other"], voted_at=datetime.now(UTC))])
def test_the_same_verdict_is_a_duplicate(connection: Connection, again: Vote) -> None:
    (first,) = record(connection, VOTE)
    assert record(connection, again) == [VoteReceipt("duplicate", first.id)]
    assert len(stored(connection)) == 1


@pytest.mark.parametrize("winner", ["tie", "tie (bothbad)"])
def test_a_swapped_tie_is_a_duplicate(connection: Connection, winner: str) -> None:
    (first,) = record(connection, changed(winner=winner))
    assert record(connection, changed(SWAPPED, winner=winner)) == [VoteReceipt("duplicate", first.id)]


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (changed(winner="model_b"), "another verdict"),
        (changed(winner="tie"), "another verdict"),
        (changed(SWAPPED, winner="model_a"), "another verdict"),
        (changed(model_b="c"), "other models"),
        (changed(model_a="c"), "other models"),
    ],
)
def test_another_verdict_is_a_conflict(connection: Connection, other: Vote, why: str) -> None:
    (first,) = record(connection, VOTE)
    (receipt,) = record(connection, other)
    assert (receipt.status, receipt.id) == ("conflict", first.id)
    assert why in (receipt.detail or "")
    assert [row.outcome for row in stored(connection)] == [0]


def test_the_two_kinds_of_tie_are_different_verdicts(connection: Connection) -> None:
    statuses = [record(connection, changed(winner=w))[0].status for w in ("tie", "tie (bothbad)")]
    assert statuses == ["created", "conflict"]


def test_others_may_judge_the_battle_and_the_annotator_others(connection: Connection) -> None:
    votes = [VOTE, changed(annotator="second"), changed(battle_id="second")]
    assert {receipt.status for receipt in record(connection, *votes)} == {"created"}


def test_without_a_battle_every_vote_is_new(connection: Connection) -> None:
    vote = changed(battle_id=None)
    assert [receipt.status for receipt in record(connection, vote, vote)] == ["created", "created"]


def test_within_one_batch_the_first_counts(connection: Connection) -> None:
    first, second, third = record(connection, VOTE, SWAPPED, changed(winner="tie"))
    assert (first.status, second.status, third.status) == ("created", "duplicate", "conflict")
    assert first.id == second.id == third.id


def test_nothing_to_record(connection: Connection) -> None:
    assert record(connection) == []


def test_the_longest_names_fit(connection: Connection) -> None:
    long = "\U0001f600" * 500
    vote = changed(model_a=long, winner="tie", annotator=long, battle_id=long)
    assert [receipt.status for receipt in record(connection, vote, vote)] == ["created", "duplicate"]


WINNERS = st.sampled_from(["model_a", "model_b", "tie", "tie (bothbad)"])
MODELS = st.permutations(["a", "b", "c"])
VOTES = st.builds(
    lambda models, **rest: Vote(model_a=models[0], model_b=models[1], **rest),
    MODELS,
    winner=WINNERS,
    annotator=st.sampled_from(["k", "l"]),
    battle_id=st.sampled_from([None, "1", "2"]),
)


class NaiveRecord:
    """What the statement does, one vote at a time in a dictionary."""

    def __init__(self) -> None:
        self.first: dict[tuple[str, str], tuple[tuple[str, str, str], int]] = {}

    def take(self, vote: Vote, place: int) -> tuple[str, int]:
        better = {"model_a": vote.model_a, "model_b": vote.model_b}.get(vote.winner, vote.winner)
        verdict = (*sorted((vote.model_a, vote.model_b)), better)
        if vote.battle_id is None:
            return "created", place
        earlier = self.first.setdefault((vote.battle_id, vote.annotator), (verdict, place))
        if earlier[1] == place:
            return "created", place
        return ("duplicate" if earlier[0] == verdict else "conflict"), earlier[1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(VOTES, max_size=8), min_size=1, max_size=3))
def test_every_vote_gets_what_a_naive_record_says(connection: Connection, batches: list[list[Vote]]) -> None:
    savepoint = connection.begin_nested()
    try:
        naive, ids, place = NaiveRecord(), dict[int, UUID | None](), 0
        for batch in batches:
            for vote, receipt in zip(batch, record(connection, *batch), strict=True):
                status, owner = naive.take(vote, place)
                ids.setdefault(owner, receipt.id)
                assert (receipt.status, receipt.id) == (status, ids[owner])
                place += 1
        created = {value for value in ids.values() if value is not None}
        assert {row.id for row in stored(connection)} == created
    finally:
        savepoint.rollback()
