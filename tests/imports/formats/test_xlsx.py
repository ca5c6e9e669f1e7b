"""Spreadsheets in, and spreadsheets out that are read back."""

import io
import sys
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from app.errors import BadInputError
from app.imports.formats import xlsx
from app.imports.formats.errors import FileTooLargeError, UnreadableFileError
from app.imports.formats.schemas import ColumnsError
from app.imports.formats.whole import read_vote_file
from app.leaderboard.row_files import rows_xlsx
from tests.fixtures.errors import limited_to

Write = Callable[[str, str | bytes], Path]
VOTES = [
    {"annotator": 7, "model_a": "=owl", "model_b": "580", "winner": "model_a", "timestamp": "2026-01-31T12:00:00Z"},
    {"annotator": 7, "model_a": "@elk", "model_b": "580", "winner": "tie", "timestamp": None},
    {"annotator": 8, "model_a": "@elk", "model_b": "580", "winner": "won", "timestamp": None},
]


def test_what_is_written_is_read_back(write: Write) -> None:
    file = read_vote_file(write("v.xlsx", rows_xlsx(VOTES)))
    assert file.frame.select("annotator", "model_a", "model_b", "outcome").rows() == [
        ("7", "=owl", "580", 0), ("7", "@elk", "580", 2),
    ]  # fmt: skip
    assert file.frame["voted_at"][0] == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert [fault.pointer for fault in file.faults] == ["row 4, winner"]


def test_cells_that_are_times_numbers_and_blank_rows(write: Write) -> None:
    frame = pl.DataFrame(
        {
            "annotator": ["k", None, "k"], "model_a": [4.0, None, 4.0], "model_b": ["b", None, "b"],
            "winner": ["tie", None, "won"], "timestamp": [datetime(2026, 1, 31, 12), None, None],  # noqa: DTZ001  as in a cell
        }
    )  # fmt: skip
    buffer = io.BytesIO()
    frame.write_excel(buffer)
    file = read_vote_file(write("v.xlsx", buffer.getvalue()))
    assert file.frame.select("model_a", "voted_at").rows() == [("4", datetime(2026, 1, 31, 12, tzinfo=UTC))]
    assert ([fault.pointer for fault in file.faults], file.rows_read) == (["row 4, winner"], 2)


def test_what_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnreadableFileError):
        read_vote_file(write("v.xlsx", "annotator,model_a\n"))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as empty:
        empty.writestr("a.txt", "nothing")
    with pytest.raises(UnreadableFileError):
        read_vote_file(write("w.xlsx", packed.getvalue()))
    path = write("x.xlsx", rows_xlsx(VOTES))
    with monkeypatch.context() as small:
        small.setattr(xlsx, "MAX_UNPACKED_BYTES", 1_000)
        with pytest.raises(FileTooLargeError, check=limited_to(1_000)):
            read_vote_file(path)
    with pytest.raises(ColumnsError):
        read_vote_file(write("y.xlsx", rows_xlsx([{"a": 1}])))
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    for use in (lambda: read_vote_file(path), lambda: rows_xlsx(VOTES)):
        with pytest.raises(BadInputError, match=r"the extra xlsx"):
            use()


def test_a_title_above_the_header(tmp_path: Path) -> None:
    path = tmp_path / "votes.xlsx"
    sheet = [["Votes of May", None, None, None], [None] * 4, ["annotator", "model_a", "model_b", "winner"],
             ["k", "a", "b", "tie"], ["k", "a", "b", "won"]]  # fmt: skip
    pl.DataFrame(sheet, orient="row").write_excel(path, include_header=False)
    file = read_vote_file(path)
    assert (file.frame["outcome"].to_list(), [fault.pointer for fault in file.faults]) == ([2], ["row 5, winner"])
