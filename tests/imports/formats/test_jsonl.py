import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.errors import BadInputError
from app.imports.formats.errors import UnreadableFileError
from app.imports.formats.jsonl import LOOKED_AT_FOR_COLUMNS
from app.imports.formats.options import ReadOptions
from app.imports.formats.reading import VoteReader
from app.imports.formats.whole import read_vote_file

Write = Callable[[str, str | bytes], Path]
VOTE = {"annotator": "k", "model_a": "a", "model_b": "b", "winner": "tie"}


def lines(*changes: dict[str, object]) -> str:
    return "".join(json.dumps({**VOTE, **change}) + "\n" for change in changes)


def test_whole_numbers_are_their_digits(write: Write) -> None:
    votes = read_vote_file(write("v.jsonl", lines({"model_a": 580, "annotator": 7.0}))).frame
    assert votes.select("annotator", "model_a").row(0) == ("7", "580")


def test_the_optional_fields_of_a_vote(write: Write) -> None:
    content = lines(
        {},
        {
            "timestamp": "2026-01-31T12:00:00+02:00",
            "battle_id": "b1",
            "tags": ["hard", "de"],
            "metadata": {"turn": 1, "back": "\\u0000"},
        },
    )
    row = read_vote_file(write("v.jsonl", content)).frame.row(1, named=True)
    assert row["voted_at"] == datetime(2026, 1, 31, 10, tzinfo=UTC)
    assert (row["battle_id"], row["tags"]) == ("b1", ["hard", "de"])
    assert json.loads(row["metadata"]) == {"turn": 1, "back": "\\u0000"}


@pytest.mark.parametrize(
    ("change", "place", "detail"),
    [
        ({"model_a": float("nan")}, "model_a", "must not be NaN"),
        ({"model_b": None}, "model_b", "must not be blank"),
        ({"annotator": 1.5}, "annotator", "must be text, is the number 1.5"),
        ({"annotator": True}, "annotator", "must be text, is true or false"),
        ({"model_a": ["a"]}, "model_a", "must be text, is a list"),
        ({"model_a": "\ud800"}, "model_a", "must not contain the lone surrogate U+D800"),
        ({"model_a": "a\x00"}, "model_a", "U+0000"),
        ({"winner": 1}, "winner", "unknown outcome '1'"),
        ({"tags": "[1]"}, "tags", "must be a list of texts"),
        ({"tags": ["a\n"]}, "tags", "a tag must not contain the character U+000A"),
        ({"tags": {"a": 1}}, "tags", "must be a list of texts"),
        ({"tags": 5}, "tags", "must be text, a list or an object, is 5"),
        ({"metadata": [1]}, "metadata", "must be a JSON object"),
        ({"metadata": "{"}, "metadata", "is not JSON"),
        ({"metadata": {"x": float("nan")}}, "metadata", "NaN"),
        ({"metadata": {"x": ["a\x00"]}}, "metadata", "U+0000"),
        ({"metadata": {"x": "\udfff"}}, "metadata", "half of a surrogate pair"),
        ({"timestamp": 17000000}, "timestamp", "is not a timestamp"),
    ],
)
def test_a_faulty_value_is_named_with_its_line(
    write: Write, change: dict[str, object], place: str, detail: str
) -> None:
    path = write("v.jsonl", "\n" + lines({}) + "\n" + lines(change, {}))
    file = read_vote_file(path, ReadOptions(keep_features=True))
    assert [fault.pointer for fault in file.faults] == [f"line 4, {place}"]
    assert detail in file.faults[0].detail
    assert (file.rows_read, file.rejected, file.frame["row"].to_list()) == (3, 1, [0, 2])


@pytest.mark.parametrize(
    ("record", "name"),
    [
        ('{"annotator": "k", "model_a": "a", "model_b": "b", "winner": "tie", "winner": "model_a"}', "winner"),
        ('{"annotator": "k", "model_a": "a", "model_b": "b", "winner": "tie", "\\u0077inner": "tie"}', "winner"),
        ('{"annotator": "k", "model_a": "a", "model_b": "b", "winner": "tie", "metadata": {"x": 1, "x": 1}}', "x"),
        ('{"winner": "x", "annotator": "k", "annotator": "k", "model_a": "a", "model_b": "a"}', "annotator"),
    ],
)
def test_a_name_given_twice_is_a_fault_of_its_line(write: Write, record: str, name: str) -> None:
    file = read_vote_file(write("v.jsonl", "\n" + lines({}) + record + "\n" + lines({})))
    detail = f"an object has the name {name!r} more than once"
    assert [(fault.pointer, fault.detail) for fault in file.faults] == [("line 3", detail)]
    assert (file.rows_read, file.rejected, file.frame["row"].to_list()) == (3, 1, [0, 2])


def test_a_name_given_twice_is_no_missing_vote(write: Write) -> None:
    vote = {"model_a": "a", "model_b": "b", "primary_intent": "x", "judge": "k"}
    twice = json.dumps(vote)[:-1] + ', "winner": "tie", "winner": null}\n'
    file = read_vote_file(
        write("v.jsonl", json.dumps({**vote, "winner": None}) + "\n" + twice), ReadOptions("search-arena")
    )
    assert ([fault.pointer for fault in file.faults], file.skipped) == (["line 2"], 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lines({}) + '{"annotator": \n', "line 2: not JSON"),
        (lines({}) + "[1]\n", "line 2: not a JSON object"),
        (lines({}) + "[" * 100_000 + "\n", "line 2: nested too deeply"),
        (lines({}) + '{"a": ' + "1" * 5000 + "}\n", "line 2: not JSON"),
        (lines({}).encode() + b'{"annotator": "\xff"}\n', "not UTF-8 text (line 2)"),
        ("\n \n", "has no votes"),
        ('{"model_a": "a", "model_b": "b", "winner": "tie"}\n', "there is no annotator column"),
    ],
)
def test_a_broken_file_is_refused_with_its_place(write: Write, content: str | bytes, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        read_vote_file(write("v.jsonl", content))
    assert message in caught.value.detail


def test_an_optional_field_may_first_come_late_and_the_file_be_compressed(write: Write) -> None:
    content = lines(*[{}] * 6_000, {"battle_id": "late"})
    shares: list[float] = []
    file = read_vote_file(write("v.jsonl.gz", gzip.compress(content.encode())), progress=shares.append)
    assert file.frame["battle_id"].drop_nulls().to_list() == ["late"]
    assert shares[-1] == 1.0


def test_a_truncated_gzip_file_is_refused(write: Write) -> None:
    whole = gzip.compress(lines(*[{}] * 10_000).encode())
    for progress in (None, lambda _: None):
        with pytest.raises(UnreadableFileError):
            read_vote_file(write("v.jsonl.gz", whole[:-20]), progress=progress)


def test_columns_that_come_late_are_seen_or_refused(write: Write) -> None:
    first = [{}] * (LOOKED_AT_FOR_COLUMNS + 1)
    ranking = json.dumps({"annotator": "k", "ranking": [["a"], ["b"]]})
    reader = VoteReader(
        write("v.jsonl", lines(*first, {"criterion": "style"}) + ranking), ReadOptions(keep_features=True)
    )
    [batch] = reader.batches(max_faults=1)
    assert (batch.rejected, batch.votes["criterion"][-2], batch.votes["outcome"][-1]) == (0, "style", 0)
    late = VoteReader(write("late.jsonl", lines(*first, {"length_a": 3})), ReadOptions(keep_features=True))
    with pytest.raises(UnreadableFileError, match="length_a"):
        list(late.batches(max_faults=1))
