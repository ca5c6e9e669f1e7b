"""The schema is the one place that checks a vote sent over HTTP."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from app.errors import BadInputError
from app.guard.bodies import SMALL
from app.guard.errors import MalformedBodyError
from app.naming.names import name_error
from app.votes import schemas
from app.votes.batches import MAX_EXPLAINED, MAX_PLACES, parse_batch
from app.votes.rules import MAX_METADATA_LENGTH, MAX_METADATA_VALUES, MAX_TAGS, MAX_VOTE_BYTES
from app.votes.schemas import MAX_BATCH, RankedVote, Vote, parse_as, parse_named, parse_vote
from tests.fixtures.errors import at, naming

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
    ({"metadata": {"x": "\\\x00"}}, "/metadata"),
    ({"metadata": {"x": [[0] * 50, [0] * (MAX_METADATA_VALUES - 53), {}]}}, "/metadata"),
    ({"metadata": {"x": "y" * (MAX_METADATA_LENGTH + 1)}}, "/metadata"),
    ({"metadata": nested(50)}, "/metadata"),
    ({"features": {"length": [1]}}, "/features/length/1"),
    ({"features": {"length": [1, "2"]}}, "/features/length/1"),
    ({"features": {"length": [1, float("inf")]}}, "/features/length/1"),
    ({"features": {"side": [1, 0]}}, "/features"),
    ({"features": {f"x{i}": [1, 0] for i in range(17)}}, "/features"),
]


@pytest.mark.parametrize(("change", "pointer"), INVALID)
def test_an_invalid_vote_is_refused_with_its_place(change: dict[str, Any], pointer: str) -> None:
    vote = {**VOTE, **change}
    with pytest.raises(BadInputError) as caught:
        parse_as(Vote, json.dumps(vote).encode())
    assert [error.pointer for error in caught.value.errors] == [pointer]
    first, second = parse_batch(json.dumps({"votes": [vote, VOTE]}).encode())
    assert isinstance(first, tuple)
    assert [error.pointer for error in first] == [pointer]
    assert isinstance(second, Vote)


@pytest.mark.parametrize("word", ["\ud800", {"x": "\udfff"}])
def test_half_of_a_surrogate_pair_is_not_json(word: Any) -> None:
    name = "annotator" if isinstance(word, str) else "metadata"
    with pytest.raises(MalformedBodyError):
        parse_as(Vote, json.dumps({**VOTE, name: word}).encode())


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_json_does_not_know_is_refused(number: str) -> None:
    with pytest.raises(BadInputError, check=at("/metadata")):
        parse_as(Vote, json.dumps({**VOTE, "metadata": {"x": [0]}}).replace("[0]", f"[{number}]").encode())


def test_a_name_says_what_it_must_not_be() -> None:
    with pytest.raises(BadInputError, match="must not be blank, start or end with a blank, or contain control"):
        parse_as(Vote, json.dumps({**VOTE, "model_a": " a"}).encode())


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


@pytest.mark.parametrize("parse", [parse_named, parse_vote])
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (json.dumps(VOTE), Vote),
        (json.dumps({**VOTE, "metadata": {"ranking": 1, "token": "x"}}), Vote),
        (json.dumps({"ranking": [["a"], ["b"]], "annotator": "judge"}), RankedVote),
        (r'{"\u0072anking": [["a"], ["b"]], "annotator": "judge"}', RankedVote),
    ],
)
def test_a_vote_is_of_the_kind_that_its_fields_say(parse: Callable[[bytes], object], body: str, kind: type) -> None:
    assert type(parse(body.encode())) is kind


def test_a_vote_of_the_future_is_refused_beyond_the_skew_of_clocks() -> None:
    now = datetime.now(UTC)
    for ahead, refused in ((timedelta(minutes=4), False), (timedelta(minutes=6), True), (timedelta(days=20_000), True)):
        body = json.dumps({**VOTE, "voted_at": (now + ahead).isoformat()}).encode()
        (item,) = parse_batch(b'{"votes":[' + body + b"]}")
        if not refused:
            assert parse_as(Vote, body).voted_at == item.voted_at == now + ahead  # type: ignore[union-attr]
            continue
        with pytest.raises(BadInputError, check=at("/voted_at")):
            parse_as(Vote, body)
        assert isinstance(item, tuple)
        assert item[0].pointer == "/voted_at"


def batch(*items: str, head: str = '{"votes": [', tail: str = "]}") -> bytes:
    return f"{head}{','.join(items)}{tail}".encode()


@pytest.fixture
def no_vote_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("parsed")

    for name in ("Vote", "VoteBatch"):
        monkeypatch.setattr(getattr(schemas, name), "model_validate_json", refuse)


@pytest.mark.usefixtures("no_vote_is_parsed")
@pytest.mark.parametrize("item", ["[]", '""', "0", json.dumps(VOTE)])
def test_too_many_votes_are_refused_before_one_is_parsed(item: str) -> None:
    with pytest.raises(BadInputError, check=at("/votes")):
        parse_batch(batch(*[item] * (MAX_BATCH + 1)))


@pytest.mark.usefixtures("no_vote_is_parsed")
@pytest.mark.parametrize(
    "body",
    [
        batch(*["[]"] * SMALL, head="[", tail="]"),
        batch('"' + "x" * SMALL, tail=""),
        batch("[" * SMALL),
        batch(" " * SMALL),
        batch("0", '"' + "]" * SMALL + '"', tail="], 0}"),
        batch("0", head='{"more": 0, "votes": ["' + "x" * SMALL + '",'),
    ],
)
def test_a_large_body_that_is_no_batch_is_refused_before_a_vote_is_parsed(body: bytes) -> None:
    with pytest.raises(MalformedBodyError):
        parse_batch(body)


@pytest.mark.parametrize("value", ["NaN", "1e999", f"{'[' * 2000}{']' * 2000}"])
def test_one_vote_that_strict_parsers_refuse_leaves_the_others(value: str) -> None:
    refused = json.dumps({**VOTE, "metadata": {"x": 0}}).replace("0", value)
    first, errors, last = parse_batch(batch(json.dumps(VOTE), refused, json.dumps(VOTE)))
    assert isinstance(errors, tuple)
    assert isinstance(first, Vote)
    assert first == last


def test_only_the_first_invalid_votes_say_why() -> None:
    many = json.dumps({f"k{i}": 0 for i in range(MAX_PLACES + 1)})
    items = ["[]", many, '{"winner": "tie"}', *["[]"] * MAX_EXPLAINED, many, json.dumps(VOTE)]
    *invalid, last = parse_batch(batch(*items))
    assert isinstance(last, Vote)
    assert [len(errors) for errors in invalid] == [1, 1, 3] + [1] * (MAX_EXPLAINED + 1)  # type: ignore[arg-type]  # all are invalid
    details = [errors[0].detail for errors in invalid]  # type: ignore[index]  # as above
    assert details[:3] == ["must be an object", "is wrong in 105 places", "is required"]
    assert "only the first 100" in details[MAX_EXPLAINED]


@pytest.mark.usefixtures("no_vote_is_parsed")
@pytest.mark.parametrize(
    "item", ['"' + "x" * MAX_VOTE_BYTES + '"', f"[{','.join(['0'] * 600)}]", "[" * 600 + "]" * 600]
)
def test_a_vote_longer_than_any_is_not_parsed(item: str) -> None:
    (errors,) = parse_batch(batch(item))
    assert isinstance(errors, tuple)
    assert "longer than any vote" in errors[0].detail


def test_a_vote_as_long_as_any_is_taken() -> None:
    metadata = {"x": ["," * 7000, "\\u0000" * 1100, *[[]] * (MAX_METADATA_VALUES - 4), {}]}
    assert MAX_METADATA_LENGTH - 1000 < len(json.dumps(metadata)) < MAX_METADATA_LENGTH
    (vote,) = parse_batch(batch(json.dumps({**VOTE, "tags": ["t,["] * MAX_TAGS, "metadata": metadata})))
    assert isinstance(vote, Vote)


def test_metadata_with_too_many_values_is_refused_by_number() -> None:
    metadata = {str(i): [] for i in range(MAX_METADATA_VALUES + 1)}
    with pytest.raises(BadInputError, check=at("/metadata")):
        parse_as(Vote, json.dumps({**VOTE, "metadata": metadata}).encode())
    (errors,) = parse_batch(batch(json.dumps({**VOTE, "metadata": metadata})))
    assert isinstance(errors, tuple)
    assert [error.pointer for error in errors] == ["/metadata"]


def test_a_vote_that_is_no_json_is_named() -> None:
    for place in (0, MAX_EXPLAINED + 1):
        with pytest.raises(MalformedBodyError, check=naming(f"vote {place}")):
            parse_batch(batch(*["[]"] * place, "{]", json.dumps(VOTE)))


PIECES = [
    json.dumps(VOTE),
    *'[]{},:"\\ 0',
    '"votes"',
    '{"votes":[',
    "]}",
    '"\\"]},"',
    '{"x":[{}]}',
    "\n",
    "\ud7ff",
    "null",
]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=8), st.booleans())
def test_a_batch_is_taken_apart_as_json_has_it(pieces: list[str], wrapped: bool) -> None:
    body = "".join(pieces).encode()
    body = b'{"votes": [' + body + b"]}" if wrapped else body
    try:
        sent = json.loads(body)
    except ValueError:
        with pytest.raises(MalformedBodyError):
            parse_batch(body)
        return
    if not (isinstance(sent, dict) and sent.keys() == {"votes"} and isinstance(sent["votes"], list) and sent["votes"]):
        with pytest.raises(BadInputError):
            parse_batch(body)
        return
    expected = []
    for item in sent["votes"]:
        try:
            expected.append(Vote.model_validate_json(json.dumps(item)))
        except ValidationError:
            expected.append(None)
    assert [item if isinstance(item, Vote) else None for item in parse_batch(body)] == expected
