"""The schema is the one place that checks a vote sent over HTTP."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import BadInputError
from app.http.errors import MalformedBodyError
from app.naming.names import name_error
from app.votes.rules import MAX_METADATA_LENGTH, MAX_TAGS
from app.votes.schemas import Vote, parse_batch, parse_vote

VOTE = {"model_a": "a", "model_b": "b", "winner": "model_a", "annotator": "judge"}
LATE = datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))


def nested(depth: int) -> dict[str, Any]:
    return {"x": nested(depth - 1)} if depth else {}


INVALID = [
    ({"model_a": ""}, "/model_a"),
    ({"model_b": " \t"}, "/model_b"),
    ({"annotator": "nul\x00"}, "/annotator"),
    ({"annotator": "x" * 501}, "/annotator"),
    ({"annotator": " x"}, "/annotator"),
    ({"battle_id": "line\nbreak"}, "/battle_id"),
    ({"model_b": "a"}, "/model_b"),
    ({"winner": "TIE"}, "/winner"),
    ({"winner": "both_good"}, "/winner"),
    ({"voted_at": "2026-01-01T00:00:00"}, "/voted_at"),
    ({"voted_at": datetime(1, 1, 1, tzinfo=UTC).isoformat()}, "/voted_at"),
    ({"voted_at": LATE.isoformat()}, "/voted_at"),
    ({"tags": ["fine", ""]}, "/tags/1"),
    ({"tags": ["x"] * (MAX_TAGS + 1)}, "/tags"),
    ({"metadata": {"x": float("nan")}}, "/metadata"),
    ({"metadata": {"x": [float("-inf")]}}, "/metadata"),
    ({"metadata": {"x\x00": 1}}, "/metadata"),
    ({"metadata": {"x": "y" * (MAX_METADATA_LENGTH + 1)}}, "/metadata"),
    ({"metadata": nested(50)}, "/metadata"),
]


@pytest.mark.parametrize(("change", "pointer"), INVALID)
def test_an_invalid_vote_is_refused_with_its_place(change: dict[str, Any], pointer: str) -> None:
    vote = {**VOTE, **change}
    with pytest.raises(BadInputError) as caught:
        parse_vote(json.dumps(vote).encode())
    assert [error.pointer for error in caught.value.errors] == [pointer]
    first, second = parse_batch(json.dumps({"votes": [vote, VOTE]}).encode())
    assert isinstance(first, tuple)
    assert [error.pointer for error in first] == [pointer]
    assert isinstance(second, Vote)


@pytest.mark.parametrize("word", ["\ud800", {"x": "\udfff"}])
def test_half_of_a_surrogate_pair_is_not_json(word: Any) -> None:
    name = "annotator" if isinstance(word, str) else "metadata"
    with pytest.raises(MalformedBodyError):
        parse_vote(json.dumps({**VOTE, name: word}).encode())


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_json_does_not_know_is_refused(number: str) -> None:
    with pytest.raises(BadInputError, match="/metadata: must not contain NaN or Infinity"):
        parse_vote(json.dumps({**VOTE, "metadata": {"x": [0]}}).replace("[0]", f"[{number}]").encode())


def test_a_name_says_what_it_must_not_be() -> None:
    with pytest.raises(BadInputError, match="must not be blank, start or end with a blank, or contain control"):
        parse_vote(json.dumps({**VOTE, "model_a": " a"}).encode())


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.text(st.sampled_from(" \ta\u2028\x85\u00a0b"))
)
def test_requests_and_files_take_the_same_names(name: str) -> None:
    (vote,) = parse_batch(json.dumps({"votes": [{**VOTE, "annotator": name}]}).encode())
    assert isinstance(vote, Vote) == (name_error(name) is None)


@given(st.text(max_size=3))
def test_a_name_is_refused_for_what_is_in_it(name: str) -> None:
    bad = not name.strip() or name != name.strip() or any(not c.isprintable() and not c.isspace() for c in name)
    control = any(c in name for c in "\u2028\u2029") or any(ord(c) < 32 or 127 <= ord(c) < 160 for c in name)
    surrogate = any("\ud800" <= c <= "\udfff" for c in name)
    refused = name_error(name) is not None
    assert refused or not (control or surrogate or not name.strip() or name != name.strip())
    assert bad or control or surrogate or not refused


def test_a_vote_of_the_future_is_refused_beyond_the_skew_of_clocks() -> None:
    now = datetime.now(UTC)
    for ahead, refused in ((timedelta(minutes=4), False), (timedelta(minutes=6), True), (timedelta(days=20_000), True)):
        body = json.dumps({**VOTE, "voted_at": (now + ahead).isoformat()}).encode()
        (item,) = parse_batch(b'{"votes":[' + body + b"]}")
        if not refused:
            assert parse_vote(body).voted_at == item.voted_at == now + ahead  # type: ignore[union-attr]
            continue
        with pytest.raises(BadInputError, match=r"/voted_at: must not lie in the future, by more than 5 minutes"):
            parse_vote(body)
        assert isinstance(item, tuple)
        assert item[0].pointer == "/voted_at"
