import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.errors import BadInputError
from app.imports.formats.checks import Checked
from app.imports.formats.errors import NoVotesError, UnreadableFileError
from app.imports.formats.measures import IN_ORDER
from app.imports.formats.options import ReadOptions
from app.imports.formats.reading import VoteReader, file_sha256
from app.imports.formats.schemas import SCHEMAS, ColumnsError
from app.imports.formats.schemas.derive import DERIVATIONS
from app.imports.formats.whole import read_vote_file
from app.votes.batches import parse_batch
from tests.fixtures.errors import having

Write = Callable[[str, str | bytes], Path]
HEADER = "annotator,model_a,model_b,winner,timestamp,battle_id,tags,metadata\n"


AS_AN_IMPORT = ReadOptions(keep_features=True)
"""Which uses times, so that none may be wrong."""


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("model_a", 0), ("model_b", 1), ("tie", 2),
        ("tie (bothbad)", 3), ("both_bad", 3), ("bothbad", 3), ("tie (both bad)", 3),
        ("both_good", 2), ("both_equal", 2), ("Tie", 2), (" tie", 2), ("draw", 2), ("A", 0), ("Right", 1), ("b", 1),
    ],
)  # fmt: skip
def test_outcome_words(write: Write, word: str, code: int) -> None:
    file = read_vote_file(write("v.csv", HEADER + f"k,owl,b,{word}\n"))
    assert file.frame["outcome"].to_list() == [code]


@pytest.mark.parametrize("word", ["won", "model_c", "0", "c", "null", "NaN"])
def test_any_other_word_is_a_fault_and_never_a_tie(write: Write, word: str) -> None:
    file = read_vote_file(write("v.csv", HEADER + f"k,a,b,tie\nk,a,b,{word}\n"))
    assert [fault.pointer for fault in file.faults] == ["line 3, winner"]
    assert f"unknown outcome '{word}'" in file.faults[0].detail


@pytest.mark.parametrize(
    ("record", "place", "detail"),
    [
        (",a,b,tie", "annotator", "must not be blank"),
        ('"  ",a,b,tie', "annotator", "must not be blank"),
        ('"",a,b,tie', "annotator", "must not be blank"),
        ("k,a ,b,tie", "model_a", "must not start or end with blanks"),
        ("k,a\x00,b,tie", "model_a", "must not contain the character U+0000"),
        ("k,a,\x1b[31m,tie", "model_b", "must not contain the character U+001B"),
        ('k,"a\nb",b,tie', "model_a", "must not contain the character U+000A"),
        (f"k,a,{'b' * 501},tie", "model_b", "must have at most 500 characters, has 501"),
        ("k,a,b,tie,yesterday", "timestamp", "'yesterday' is not a timestamp (ISO 8601 such as 2026-01-31T12:00:00Z)"),
        ("k,a,b,tie,17000000", "timestamp", "is not a timestamp"),
        ("k,a,b,tie,17120101511", "timestamp", "is not a timestamp"),
        ("k,a,b,tie,2026-02-30", "timestamp", "is not a timestamp"),
        ("k,a,b,tie,0001-01-01T00:00:00+10:00", "timestamp", "is not a timestamp"),
        ("k,a,b,tie,0001-01-01", "timestamp", "'0001-01-01' must lie between the years 1970 and 9999"),
        ("k,a,b,tie,1900-01-01T00:00:00Z", "timestamp", "must lie between the years 1970 and 9999"),
        ("k,a,b,tie,1969-12-31T23:59:59.999999", "timestamp", "must lie between the years 1970 and 9999"),
        ("k,a,b,tie,1970-01-01T00:59:59+01:00", "timestamp", "must lie between the years 1970 and 9999"),
        ("k,a,b,tie,9999-12-30 00:00:00.000001", "timestamp", "must lie between the years 1970 and 9999"),
        ("k,a,b,tie,2090-01-01", "timestamp", "'2090-01-01' must not lie in the future, by more than 5 minutes"),
        ("k,a,b,tie,9999-12-30T02:00:00+02:00", "timestamp", "must not lie in the future, by more than 5 minutes"),
        ("k,a,b,tie,,x\x7f", "battle_id", "must not contain the character U+007F"),
        ("k,a,b,tie,,,x;;y", "tags", "a tag must not be blank"),
        ('k,a,b,tie,,,,"{""x"": 1e999}"', "metadata", "must not contain NaN or Infinity"),
        (",a,b,won,yesterday", "annotator", "must not be blank"),
    ],
)
def test_a_faulty_record_is_named_once_with_its_first_fault(write: Write, record: str, place: str, detail: str) -> None:
    path = write("v.csv", HEADER + f"k,a,b,tie\n{record}\nk,a,b,tie\n")
    file = read_vote_file(path, AS_AN_IMPORT)
    assert [fault.pointer for fault in file.faults] == [f"line 3, {place}"]
    assert detail in file.faults[0].detail
    assert (file.rows_read, file.rejected, file.frame["row"].to_list()) == (3, 1, [0, 2])


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31 12:00:00.5", datetime(2026, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-01-31T12:00:00-05:00", datetime(2026, 1, 31, 17, tzinfo=UTC)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("1970-01-01T00:00:00Z", datetime(1970, 1, 1, tzinfo=UTC)),
        ('""', None),
    ],
)
def test_moments(write: Write, text: str, timestamp: datetime | None) -> None:
    file = read_vote_file(write("v.csv", HEADER + f"k,a,b,tie,{text}\n"))
    assert file.frame["voted_at"].to_list() == [timestamp]


@pytest.mark.parametrize("day", ["01-01", "12-30", "12-31"])
def test_files_and_requests_take_the_same_moments(write: Write, day: str) -> None:
    times = [f"{year:04}-{day}T00:00:00Z" for year in (*range(1, 9999, 613), 1969, 1970, 9998, 9999)]
    sent = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}
    votes = parse_batch(json.dumps({"votes": [{**sent, "voted_at": time} for time in times]}).encode())
    refused = [f"line {line}, timestamp" for line, vote in enumerate(votes, 2) if isinstance(vote, tuple)]
    path = write("v.csv", HEADER + "".join(f"k,a,b,tie,{time}\n" for time in times))
    faults = read_vote_file(path, AS_AN_IMPORT).faults
    assert [fault.pointer for fault in faults] == refused


def test_seconds_lie_between_the_same_years(write: Write) -> None:
    last = int(datetime(9999, 12, 30, tzinfo=UTC).timestamp())
    rows = "".join(f"k,a,b,tie,q{i},{second}\n" for i, second in enumerate((0, 1, -1, last, last + 1)))
    file = read_vote_file(
        write("v.csv", "judge,model_a,model_b,winner,question_id,tstamp\n" + rows),
        ReadOptions("lmarena-33k", keep_features=True),
    )
    assert [fault.pointer for fault in file.faults] == ["line 4, tstamp", "line 5, tstamp", "line 6, tstamp"]
    assert ["the future" in fault.detail for fault in file.faults] == [False, True, False]


def test_tags_and_metadata_in_csv(write: Write) -> None:
    content = HEADER + 'k,a,b,tie,,,hard; de,"{""turn"": 2}"\nk,a,b,tie,,,"[""x;y""]",\nk,a,b,tie,,"","",""\n'
    frame = read_vote_file(write("v.csv", content)).frame
    assert frame["tags"].to_list() == [["hard", "de"], ["x;y"], None]
    assert frame["metadata"].to_list() == ['{"turn":2}', None, None]
    assert frame["battle_id"].to_list() == [None, None, None]


def test_faults_are_listed_up_to_a_thousand_and_all_counted(write: Write) -> None:
    file = read_vote_file(write("v.csv", HEADER + "k,a,b,tie\n" + "k,a,b,won\n" * 120_000))
    assert len(file.faults) == 1_000
    assert (file.faults[0].pointer, file.faults[-1].pointer) == ("line 3, winner", "line 1002, winner")
    assert (file.rejected, file.rows_read, file.frame.height) == (120_000, 120_001, 1)


def test_the_lmarena_33k_row(write: Write) -> None:
    content = (
        "question_id,model_a,model_b,winner,judge,conversation_a,conversation_b,turn,anony,language,tstamp\n"
        'q1,alpaca,koala,tie (bothbad),arena_user_1,"[{""role"": ""user"",\n""content"": ""hi""}]",x,'
        "1,True,English,1682351591.1322\n"
        "q2,alpaca,koala,model_b,arena_user_1,x,x,1,True,English,nan\n"
        "q3,alpaca,koala,model_b,arena_user_1,x,x,1,True,English,1e18\n"
    )
    file = read_vote_file(write("v.csv", content), AS_AN_IMPORT)
    assert file.schema == "lmarena-33k"
    assert file.frame.select("annotator", "battle_id", "outcome", "voted_at").rows() == [
        ("arena_user_1", "q1", 3, datetime(2023, 4, 24, 15, 53, 11, 132_200, tzinfo=UTC))
    ]
    assert [fault.pointer for fault in file.faults] == ["line 4, tstamp", "line 5, tstamp"]
    assert file.faults[1].detail == "'1e18' is not a timestamp (seconds since 1970)"


def test_without_an_annotator_pooling_must_be_asked_for(write: Write) -> None:
    path = write("v.csv", "model_a,model_b,winner\na,b,tie\n")
    with pytest.raises(ColumnsError):
        read_vote_file(path)
    file = read_vote_file(path, ReadOptions(pool_annotators=True))
    assert file.frame["annotator"].to_list() == ["pooled"]
    assert file.options.pool_annotators


def test_pooling_overrides_the_annotators_there_are(write: Write) -> None:
    file = read_vote_file(write("v.csv", HEADER + "k,a,b,tie\n,a,b,tie\n"), ReadOptions(pool_annotators=True))
    assert file.frame["annotator"].to_list() == ["pooled", "pooled"]
    assert not file.faults


def test_a_format_asked_for_by_name(write: Write) -> None:
    path = write("v.csv", HEADER + "k,a,b,tie\n")
    assert read_vote_file(path, ReadOptions("votes")).schema == "votes"
    with pytest.raises(ColumnsError):
        read_vote_file(path, ReadOptions("lmarena-33k"))
    with pytest.raises(BadInputError):
        read_vote_file(path, ReadOptions("x"))


def test_missing_columns_are_named_beside_those_found(write: Write) -> None:
    with pytest.raises(ColumnsError, match=r"annotator, winner .*model_a, model_b"):
        read_vote_file(write("v.csv", "model_a,model_b\na,b\n"))


def test_what_is_no_file_is_refused(tmp_path: Path, write: Write) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name, content, error in [
        ("absent.csv", None, UnreadableFileError),
        ("folder.csv", None, UnreadableFileError),
        ("votes.ods", "x", UnreadableFileError),
        ("votes.xlsx", "x", UnreadableFileError),
        ("empty.jsonl", "", NoVotesError),
        ("empty.parquet", "", NoVotesError),
    ]:
        path = tmp_path / name if content is None else write(name, content)
        with pytest.raises(error):
            read_vote_file(path)


def test_the_digest_of_a_file(write: Write) -> None:
    assert file_sha256(write("v.csv", "x")) == hashlib.sha256(b"x").digest()


def test_what_the_receiver_refuses_counts_as_invalid_in_the_order_of_the_file(write: Write) -> None:
    path = write("v.csv", HEADER + "k,a,b,tie\nk,a,,tie\nk,a,c,tie\nk,a,b,won\nk,a,b,\n")
    reader, taken = VoteReader(path, ReadOptions()), list[str]()

    def refuse_c(batch: Checked) -> list[tuple[int, str]]:
        taken.extend(batch.votes["model_b"])
        return [(row, "model_b is unknown") for row, name in batch.votes.select("row", "model_b").rows() if name == "c"]

    report = reader.read(refuse_c, max_faults=2)
    assert taken == ["b", "c"]
    assert (report.rows_read, report.rejected, report.refused, report.skipped) == (5, 3, 1, 1)
    assert [(one.record, one.pointer) for one in report.faults] == [(1, "line 3, model_b"), (2, "line 4")]
    with pytest.raises(BadInputError, check=having(n_errors=3)):
        report.require_valid("v.csv")


def test_every_format_names_a_derivation_that_there_is() -> None:
    assert {one.derive for one in SCHEMAS if one.derive} == DERIVATIONS.keys()
    assert set(IN_ORDER) - {None} <= DERIVATIONS.keys()
