import gzip
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from app.errors import BadInputError
from app.imports.formats.errors import UnreadableFileError
from app.imports.formats.options import ReadOptions
from app.imports.formats.whole import read_vote_file
from tests.fixtures.errors import having

Write = Callable[[str, str | bytes], Path]
HEADER = "annotator,model_a,model_b,winner,timestamp\n"


def test_every_value_stays_text(write: Write) -> None:
    votes = read_vote_file(write("v.csv", HEADER + "007,580,1e3,model_a,\ntrue,NA,null,tie,\n")).frame
    assert votes.select("annotator", "model_a", "model_b", "outcome").rows() == [
        ("007", "580", "1e3", 0),
        ("true", "NA", "null", 2),
    ]
    assert votes["voted_at"].to_list() == [None, None]
    assert votes["row"].to_list() == [0, 1]


def test_lines_are_counted_through_quoted_newlines_blank_lines_and_crlf(write: Write) -> None:
    content = (
        "\r\n"  # 1
        "annotator,model_a,model_b,winner,note\r\n"  # 2
        'k,a,b,tie,"one\r\ntwo\r\n\r\nfour"\r\n'  # 3 to 6
        "\r\n"  # 7
        'k,a,b,won,"he said ""no"""\r\n'  # 8
        'k,a,b,tie,""\r\n'  # 9
        "k,a,,tie,\r\n"  # 10
        "\r\n"
    )
    file = read_vote_file(write("v.csv", content))
    assert [(fault.pointer, fault.detail[:15]) for fault in file.faults] == [
        ("line 8, winner", "unknown outcome"),
        ("line 10, model_b", "must not be bla"),
    ]
    assert (file.rows_read, file.rejected, file.frame["row"].to_list()) == (4, 2, [0, 2])


def test_a_line_of_commas_is_a_record_and_a_blank_one_is_none(write: Write) -> None:
    file = read_vote_file(write("v.csv", HEADER + "k,a,b,tie,\n\n,,,,\n"))
    assert (file.rows_read, file.skipped, file.rejected) == (2, 1, 0)


def test_a_short_line_is_no_vote_only_without_what_a_vote_needs(write: Write) -> None:
    file = read_vote_file(write("v.csv", HEADER + "k,a,b,tie\nk,a,b\nk,a\n"))
    assert (file.skipped, file.faults) == (2, [])
    assert file.frame.height == 1


def test_a_byte_order_mark_is_no_part_of_the_first_column(write: Write) -> None:
    assert read_vote_file(write("v.csv", "\ufeff" + HEADER + "k,a,b,tie,\n")).rows_read == 1


def test_compressed_files_are_read_and_their_lines_named(write: Write) -> None:
    content = (HEADER + 'k,a,b,tie,\nk,"a",b,nobody,\n').encode()
    file = read_vote_file(write("v.csv.gz", gzip.compress(content)))
    assert [fault.pointer for fault in file.faults] == ["line 3, winner"]


def test_zstandard_too(tmp_path: Path) -> None:
    votes = pl.DataFrame({"annotator": ["k"], "model_a": ["a"], "model_b": ["b"], "winner": ["nobody"]})
    votes.write_csv(tmp_path / "v.csv.zst", compression="zstd")
    votes.write_ndjson(tmp_path / "v.jsonl.zst", compression="zstd")
    for name in ("v.csv.zst", "v.jsonl.zst"):
        assert read_vote_file(tmp_path / name).faults[0].pointer.endswith(", winner")


def test_a_path_with_wildcards_is_one_file(write: Write) -> None:
    write("v1.csv", HEADER + "k,a,b,tie,\n")
    assert read_vote_file(write("v[1]*.csv", HEADER + "k,a,b,tie,\nk,a,b,tie,\n")).rows_read == 2


def test_progress_runs_to_the_end(write: Write) -> None:
    shares: list[float] = []
    read_vote_file(write("v.csv", HEADER + "k,a,b,tie,\n" * 120_000), progress=shares.append)
    assert shares == sorted(shares)
    assert len(shares) > 1
    assert shares[-1] == 1.0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        (HEADER, "has no votes"),
        (HEADER + "\n\n", "has no votes"),
        (HEADER + "k,a,b,tie,\nk,a,b,tie,,6\n", "line 3: 6 fields where the header has 5"),
        (HEADER + 'k,"a\n\n2",b,tie,\nk,a,b,tie,,6\n', "line 5: 6 fields"),
        (HEADER + 'k,a,b,tie,\nk,"a,b,tie,\nk,a,b,tie,\n', "line 3: a quote is opened and never closed"),
        (HEADER + 'k,a,b,tie,\nk,"a"x,b,tie,\n', "line 3: a quote inside a field"),
        ('annotator,"model_a,model_b,winner\nk,a,b,tie\n', "line 1: a quote is opened"),
        ("annotator,model_a,model_b,winner,model_a\nk,a,b,tie,c\n", "line 1: repeated columns model_a"),
        ("annotator,model_a,model_b,winner\ru,A,B,tie\r", "line 1: there is a carriage return in the header"),
        (f"annotator,{'x' * 131_073}\nk,a\n", "line 1: the header has a name of more than 131,072 characters"),
        (f'\nannotator,"{"x," * 70_000}"\nk,a\n', "line 2: the header cannot be read: field larger than"),
        (HEADER.encode() + b"k,a,b,tie,\nk,\xff,b,tie,\n", "is not UTF-8 text (line 3)"),
        (b"annotator,model_a\xff\nk,a\n", "is not UTF-8 text (line 1)"),
        ((HEADER + "k,a,b,tie,\n").encode("utf-16-le"), "is not UTF-8 text"),
    ],
)
def test_a_broken_file_is_refused_with_its_place(write: Write, content: str | bytes, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        read_vote_file(write("v.csv", content))
    assert message in caught.value.detail
    assert "v.csv" in caught.value.detail
    assert "\n" not in caught.value.detail


def test_a_truncated_gzip_file_is_refused(write: Write) -> None:
    whole = gzip.compress((HEADER + "k,a,b,tie,\n" * 10_000).encode())
    for progress in (None, lambda _: None):
        with pytest.raises(UnreadableFileError):
            read_vote_file(write("v.csv.gz", whole[:-20]), progress=progress)


def test_a_broken_file_is_refused_the_same_with_progress(write: Write) -> None:
    with pytest.raises(UnreadableFileError, check=having(extensions={"line": 3})):
        read_vote_file(write("v.csv", HEADER + "k,a,b,tie,\nk,a,b,tie,,6\n"), progress=lambda _: None)


def test_a_header_of_two_columns_is_no_title(write: Write) -> None:
    rows = 'user\tranked\nk\t[""a"", ""b"", ""c""]\nk\t[""b"", ""a"", ""c""]\n'.replace('""', "'")
    file = read_vote_file(write("v.tsv", rows), ReadOptions(columns="annotator=user,ranking=ranked"))
    assert (file.rows_read, file.notes) == (2, [])
