from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from app.votes.extras import MAX_TAGS
from app.votes.service import record_votes
from app.votes.vote import NewVote, VoteReceipt, check_vote

VOTE = NewVote("a", "b", "model_a", "judge", battle_id="battle")
SWAPPED = replace(VOTE, model_a="b", model_b="a", winner="model_b")


def record(conn: Connection, *votes: NewVote) -> list[VoteReceipt]:
    return record_votes(conn, votes, api_key_id=None)


def stored(conn: Connection) -> list[Any]:
    statement = """
    SELECT v.id, a.name AS model_a, b.name AS model_b, v.outcome, k.key, v.battle_id, v.voted_at, v.tags, v.metadata
    FROM votes v JOIN models a ON a.id = model_a_id JOIN models b ON b.id = model_b_id
    JOIN annotators k ON k.id = annotator_id ORDER BY v.id
    """
    return list(conn.execute(text(statement)).all())


def test_a_vote_is_stored_as_it_came(connection: Connection) -> None:
    voted_at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=5)))
    tags = ('a "quoted" one', "back\\slash", "{brace,comma}", "NULL", "ünïcode")
    metadata = {"prompt": 'π \\ "', "numbers": [1, 2.5, None, True], "deep": {"er": {}}}
    vote = replace(VOTE, voted_at=voted_at, tags=tags, metadata=metadata)
    (receipt,) = record(connection, vote)
    assert receipt.status == "created"
    (row,) = stored(connection)
    assert row == (receipt.id, "a", "b", 0, "judge", "battle", voted_at, list(tags), metadata)


@pytest.mark.parametrize(("winner", "number"), [("model_a", 0), ("model_b", 1), ("tie", 2), ("tie (bothbad)", 3)])
def test_outcome_words_and_numbers(connection: Connection, winner: str, number: int) -> None:
    record(connection, replace(VOTE, winner=winner))
    assert stored(connection)[0].outcome == number


@pytest.mark.parametrize("again", [VOTE, SWAPPED, replace(VOTE, tags=("other",), voted_at=datetime.now(UTC))])
def test_the_same_verdict_is_a_duplicate(connection: Connection, again: NewVote) -> None:
    (first,) = record(connection, VOTE)
    assert record(connection, again) == [VoteReceipt("duplicate", first.id)]
    assert len(stored(connection)) == 1


@pytest.mark.parametrize("winner", ["tie", "tie (bothbad)"])
def test_a_swapped_tie_is_a_duplicate(connection: Connection, winner: str) -> None:
    (first,) = record(connection, replace(VOTE, winner=winner))
    assert record(connection, replace(SWAPPED, winner=winner)) == [VoteReceipt("duplicate", first.id)]


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (replace(VOTE, winner="model_b"), "another verdict"),
        (replace(VOTE, winner="tie"), "another verdict"),
        (replace(SWAPPED, winner="model_a"), "another verdict"),
        (replace(VOTE, model_b="c"), "other models"),
        (replace(VOTE, model_a="c"), "other models"),
    ],
)
def test_another_verdict_is_a_conflict(connection: Connection, other: NewVote, why: str) -> None:
    (first,) = record(connection, VOTE)
    (receipt,) = record(connection, other)
    assert (receipt.status, receipt.id) == ("conflict", first.id)
    assert why in (receipt.detail or "")
    assert [row.outcome for row in stored(connection)] == [0]


def test_the_two_kinds_of_tie_are_different_verdicts(connection: Connection) -> None:
    statuses = [record(connection, replace(VOTE, winner=w))[0].status for w in ("tie", "tie (bothbad)")]
    assert statuses == ["created", "conflict"]


def test_others_may_judge_the_battle_and_the_annotator_others(connection: Connection) -> None:
    votes = [VOTE, replace(VOTE, annotator="second"), replace(VOTE, battle_id="second")]
    assert {receipt.status for receipt in record(connection, *votes)} == {"created"}


def test_without_a_battle_every_vote_is_new(connection: Connection) -> None:
    vote = replace(VOTE, battle_id=None)
    assert [receipt.status for receipt in record(connection, vote, vote)] == ["created", "created"]


def test_within_one_batch_the_first_counts(connection: Connection) -> None:
    first, second, third = record(connection, VOTE, SWAPPED, replace(VOTE, winner="tie"))
    assert (first.status, second.status, third.status) == ("created", "duplicate", "conflict")
    assert first.id == second.id == third.id


def test_nothing_to_record(connection: Connection) -> None:
    assert record(connection) == []


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"model_a": ""}, "/model_a"),
        ({"model_b": " \t"}, "/model_b"),
        ({"annotator": "nul\x00"}, "/annotator"),
        ({"annotator": "\ud800"}, "/annotator"),
        ({"annotator": "x" * 501}, "/annotator"),
        ({"annotator": " x"}, "/annotator"),
        ({"battle_id": "line\nbreak"}, "/battle_id"),
        ({"model_b": "a"}, "/model_b"),
        ({"winner": "TIE"}, "/winner"),
        ({"winner": "both_bad"}, "/winner"),
        ({"voted_at": datetime(2026, 1, 1)}, "/voted_at"),  # noqa: DTZ001  the missing zone is the point
        ({"voted_at": datetime(1, 1, 1, tzinfo=UTC)}, "/voted_at"),
        ({"voted_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))}, "/voted_at"),
        ({"tags": ("fine", "")}, "/tags/1"),
        ({"tags": ("x",) * (MAX_TAGS + 1)}, "/tags"),
        ({"metadata": {"x": float("nan")}}, "/metadata"),
        ({"metadata": {"x": [float("-inf")]}}, "/metadata"),
        ({"metadata": {"x\x00": 1}}, "/metadata"),
        ({"metadata": {"x": "\udfff"}}, "/metadata"),
        ({"metadata": {"x": "y" * 20_000}}, "/metadata"),
    ],
)
def test_invalid_votes(connection: Connection, change: dict[str, Any], pointer: str) -> None:
    (receipt,) = record(connection, replace(VOTE, **change))
    assert (receipt.status, receipt.id) == ("invalid", None)
    assert [fault.pointer for fault in receipt.errors] == [pointer]
    assert stored(connection) == []


def test_metadata_that_nests_too_deep() -> None:
    metadata: dict[str, Any] = {}
    for _ in range(50):
        metadata = {"x": metadata}
    assert [fault.pointer for fault in check_vote(replace(VOTE, metadata=metadata))] == ["/metadata"]


def test_the_longest_names_fit(connection: Connection) -> None:
    long = "\U0001f600" * 500
    vote = NewVote(long, "b", "tie", long, battle_id=long)
    assert [receipt.status for receipt in record(connection, vote, vote)] == ["created", "duplicate"]


WINNERS = st.sampled_from(["model_a", "model_b", "tie", "tie (bothbad)", "nobody"])
MODELS = st.sampled_from(["a", "b", "c", ""])
VOTES = st.builds(
    NewVote,
    model_a=MODELS,
    model_b=MODELS,
    winner=WINNERS,
    annotator=st.sampled_from(["k", "l"]),
    battle_id=st.sampled_from([None, "1", "2"]),
)


class NaiveRecord:
    """What the statement does, one vote at a time in a dictionary."""

    def __init__(self) -> None:
        self.first: dict[tuple[str, str], tuple[tuple[str, str, str], int]] = {}

    def take(self, vote: NewVote, place: int) -> tuple[str, int | None]:
        if not (vote.model_a and vote.model_b) or vote.model_a == vote.model_b or vote.winner == "nobody":
            return "invalid", None
        better = {"model_a": vote.model_a, "model_b": vote.model_b}.get(vote.winner, vote.winner)
        verdict = (*sorted((vote.model_a, vote.model_b)), better)
        if vote.battle_id is None:
            return "created", place
        earlier = self.first.setdefault((vote.battle_id, vote.annotator), (verdict, place))
        if earlier[1] == place:
            return "created", place
        return ("duplicate" if earlier[0] == verdict else "conflict"), earlier[1]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(VOTES, max_size=8), min_size=1, max_size=3))
def test_every_vote_gets_what_a_naive_record_says(connection: Connection, batches: list[list[NewVote]]) -> None:
    savepoint = connection.begin_nested()
    try:
        naive, ids, place = NaiveRecord(), dict[int | None, UUID | None]({None: None}), 0
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
