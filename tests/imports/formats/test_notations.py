"""Other delimiters, lists, columns, dates and names of files, read as what they mean."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import BadInputError
from app.imports.formats.errors import UnreadableFileError
from app.imports.formats.options import ReadOptions
from app.imports.formats.schemas import ColumnsError, read_columns
from app.imports.formats.timestamps import DatesError, find_order, slashed_timestamps
from app.imports.formats.whole import read_vote_file
from tests.fixtures.errors import having

Write = Callable[[str, str | bytes], Path]
HEADER = "annotator,model_a,model_b,winner,timestamp\n"
AS_AN_IMPORT = ReadOptions(keep_features=True)
VOTE = {"annotator": "k", "model_a": "a", "model_b": "b", "winner": "tie"}


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_the_delimiter_is_found(write: Write, mark: str) -> None:
    rows = [HEADER, 'k,"a,1",b,tie,\n', "k,a,b,won,\n", 'k,a,"b,tie,\n']
    content = "".join(row.replace(",", mark).replace(f"a{mark}1", f"a,{mark.strip() or ' '}1") for row in rows[:3])
    file = read_vote_file(write("v.csv", content))
    assert file.frame["model_a"].to_list() == [f"a,{mark.strip() or ' '}1"]
    assert [fault.pointer for fault in file.faults] == ["line 3, winner"]
    with pytest.raises(UnreadableFileError, check=having(extensions={"line": 4})):
        read_vote_file(write("w.csv", content + rows[3].replace(",", mark)))
    with pytest.raises(UnreadableFileError, check=having(extensions={"line": 4})):
        read_vote_file(write("x.tsv", content + mark.join(["k", "a", "b", "tie", "", "x\n"])))


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", ["v.json", "v.jsonl"])
def test_a_list_of_objects(write: Write, indent: int | None, name: str) -> None:
    votes = [{**VOTE, "metadata": {"turns": [{"n": i}, []]}} for i in range(3)] + [{**VOTE, "winner": "won"}]
    file = read_vote_file(write(name, "\ufeff" + json.dumps(votes, indent=indent)))
    assert (file.frame.height, file.frame["metadata"][2]) == (3, '{"turns":[{"n":2},[]]}')
    assert [fault.pointer for fault in file.faults] == ["item 4, winner"]


@given(st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=3) | st.lists(st.booleans()), max_size=3)))
def test_a_list_is_read_as_json_reads_it(objects: list[dict[str, object]]) -> None:
    import tempfile  # noqa: PLC0415  beside its only use

    from app.imports.formats.jsonl import JsonlSource  # noqa: PLC0415  the parser alone, without the rules of votes

    with tempfile.TemporaryDirectory() as folder:
        for indent in (None, 0, 3):
            path = Path(folder, "v.json")
            path.write_text(json.dumps(objects, indent=indent), encoding="utf-8")
            assert [record for record, _ in JsonlSource(path).objects()] == objects


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "has no votes"),
        ("[1]", "not a list of JSON objects after item 0"),
        ('[{"a": 1},,{}]', "after item 1"),
        ('[{"a": 1} {}]', "after item 1"),
        ('[{"a": 1}', "ends in the middle, after item 1"),
        ('[{"a": 1', "ends in the middle, after item 0"),
        ('[{"a": tru}]', "line 1, item 1: not JSON"),
        ('[{"a": 1}] []', "after item 1"),
        ('[{"a": ' + "1" * 5000 + "}]", "line 1, item 1: not JSON"),
        ('[{"a":' * 100_000 + "}]", "nested too deeply"),
    ],
)
def test_a_list_that_is_none(write: Write, content: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        read_vote_file(write("v.json", content))


def test_other_names_of_columns_and_words(write: Write) -> None:
    path = write("v.csv", "User;First, shown;Second;Label\nu;a;b;A\nu;a;b; Right\nu;a;b;b\nu;A;B;B\nu;a;b;Draw\n")
    columns = "winner=Label,model_a=First, shown,model_b=Second,annotator=User"
    file = read_vote_file(path, ReadOptions(columns=columns, annotator_prefix="study 1/"))
    assert file.frame["outcome"].to_list() == [0, 1, 1, 1, 2]
    assert file.frame["annotator"].unique().to_list() == ["study 1/u"]
    with pytest.raises(ColumnsError):
        read_vote_file(path, ReadOptions(columns=columns.replace("Label", "Other")))
    for wrong in ("winner", "winner=", "colour=Label", "winner=a,winner=b", ""):
        with pytest.raises(BadInputError):
            read_columns(wrong)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("Annotator,Model A,model-b,Winner", "--columns 'annotator=Annotator,model_a=Model A,model_b=model-b,winner="),
        ("annotator:model_a:model_b:winner", "separated by something else"),
        ("ann,owl,elk,tie", "perhaps there is no header line"),
        ("annotator,model_a,model_b,verdict", "--columns winner="),
        ("Judge,model_a,model_b,winner", "perhaps --columns annotator=Judge"),
    ],
)
def test_what_is_missing_has_a_likely_cause(write: Write, header: str, said: str) -> None:
    with pytest.raises(BadInputError) as caught:
        read_vote_file(write("v.csv", f"{header}\nk,x,y,tie\n"))
    assert said in caught.value.detail
    assert header.split(",", maxsplit=1)[0] in caught.value.detail


DAY = datetime(2026, 3, 5, tzinfo=UTC)
EARLY, LATE = datetime.fromisoformat("1971-01-01"), datetime.fromisoformat("2025-12-31")


@pytest.mark.parametrize(
    ("texts", "expected", "note"),
    [
        (["3/5/2026", "3/25/2026"], DAY, "month/day/year, because of '3/25/2026'"),
        (["5/3/2026", "25-3-2026"], DAY, "day/month/year, because of '25-3-2026'"),
        (["05.03.2026"], DAY, "day/month/year"),
        (["3/5/2026 2:30 PM", "12/31/2025 12:00 am"], DAY.replace(hour=14, minute=30), "month/day/year"),
        (["3/5/2026 14:30:01.25", "12/31/2025"], DAY.replace(hour=14, minute=30, second=1, microsecond=250_000), ""),
        (["1772668800"], DAY, "1772668800 are read as seconds since 1970"),
        (["1772668800.5"], DAY.replace(microsecond=500_000), "seconds"),
        (["1772668800000"], DAY, "milliseconds"),
        (["1772668800000000"], DAY, "microseconds"),
        (["1772668800000000000"], DAY, "nanoseconds"),
        (["2026-03-05"], DAY, None),
    ],
)
def test_times_in_other_notations(write: Write, texts: list[str], expected: datetime, note: str | None) -> None:
    file = read_vote_file(write("v.csv", HEADER + "".join(f"k,a,b,tie,{text}\n" for text in texts)))
    assert (file.frame["voted_at"][0], file.faults) == (expected, [])
    assert file.notes == [] if note is None else note in file.notes[0]


@pytest.mark.parametrize(
    "text", ["20261305", "12", "13/13/2026", "3/5/26", "2/30/2026", "3/25/2026 13:00 PM", "3/25/2026 1:61"]
)
def test_what_is_no_time_is_an_error_of_its_line(write: Write, text: str) -> None:
    file = read_vote_file(write("v.csv", HEADER + f"k,a,b,tie,{text}\nk,a,b,tie,12/31/2025\n"), AS_AN_IMPORT)
    assert [fault.pointer for fault in file.faults] == ["line 2, timestamp"]


def test_ambiguous_dates_are_refused_with_a_way_out(write: Write) -> None:
    path = write("v.csv", HEADER + "k,a,b,tie,\nk,a,b,tie,3/5/2026\n")
    with pytest.raises(DatesError):
        read_vote_file(path, AS_AN_IMPORT)
    file = read_vote_file(path)  # nothing uses them
    assert (file.frame.height, file.frame["voted_at"].count(), "--dates mdy" in file.notes[0]) == (2, 0, True)
    assert read_vote_file(path, ReadOptions(dates="mdy")).frame["voted_at"][1] == DAY
    both = write("w.csv", HEADER + "k,a,b,tie,3/25/2026\nk,a,b,tie,25/3/2026\n")
    with pytest.raises(DatesError):
        read_vote_file(both, AS_AN_IMPORT)


@given(st.lists(st.datetimes(EARLY, LATE), min_size=1, max_size=5), st.booleans())
def test_dates_are_read_back(times: list[datetime], day_first: bool) -> None:
    """Whatever the dates: a column that shows its order is read in it."""
    form = "%d/%m/%Y %H:%M:%S.%f" if day_first else "%m/%d/%Y %H:%M:%S.%f"
    times = [*times, LATE]
    texts = pl.Series("voted_at", [time.strftime(form) for time in times])
    order, _ = find_order([texts])
    assert order == ("dmy" if day_first else "mdy")
    assert slashed_timestamps(texts, order).to_list() == [time.replace(tzinfo=UTC) for time in times]
