import contextlib
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.imports.formats import footers
from app.imports.formats.footers import BYTES_PER_VALUE, MAX_FOOTER_BYTES, FooterError, read_row_groups

Write = Callable[[str, str | bytes], Path]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a Parquet file of 20 row groups with columns of several types, one of them nested."""
    path = tmp_path_factory.mktemp("footers") / "whole.parquet"
    rows = {
        "name": [f"n{i}" for i in range(100)],
        "at": range(100),
        "data": [{"x": i, "y": [1.5, 2]} for i in range(100)],
    }
    pl.DataFrame(rows).write_parquet(path, row_group_size=5, metadata={"made": "here"})
    return path.read_bytes()


def footer_of(content: bytes) -> bytes:
    return content[-8 - int.from_bytes(content[-8:-4], "little") : -8]


def with_footer(footer: bytes) -> bytes:
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def test_rows_and_sizes_of_the_groups_are_read(whole: bytes, write: Write) -> None:
    path = write("v.parquet", whole)
    nothing = read_row_groups(path, [])
    assert [(group.rows, group.size) for group in nothing] == [(5, 0)] * 20
    one, both, nested = (read_row_groups(path, columns)[0].size for columns in (["name"], ["name", "at"], ["data"]))
    assert 5 * BYTES_PER_VALUE < one < both < 1000
    assert nested > (5 + 10) * BYTES_PER_VALUE  # a number and two items of a list in every row


def test_a_footer_has_a_limit(whole: bytes, write: Write) -> None:
    footer = footer_of(whole).ljust(MAX_FOOTER_BYTES, b"\0")  # what follows its end is not read
    assert len(read_row_groups(write("v.parquet", with_footer(footer)), [])) == 20
    with pytest.raises(FooterError):
        read_row_groups(write("v.parquet", with_footer(footer + b"\0")), [])


@pytest.mark.parametrize(
    "footer",
    [
        b"",
        b"\x15",  # an integer begins
        b"\x18\x7fabc\x00",  # a text ends in the middle
        b"\x4c" * 50_000,  # a struct in a struct, and so on
        b"\x49\x15\x02\x00",  # row groups that are integers
        b"\x1d\x00",  # of no known type
        b"\x15\x02\x05\x02\x02\x00",  # a field twice
        b"\x15\x02\x05\x80\x80\x04\x02\x00",  # a field beyond the last one
        b"\x49\x1c\x36\x01\x00\x00",  # a negative count
        b"\x15" + b"\xff" * 20,  # an integer without an end
        b"\x19\xf3" + b"\xff" * 8 + b"\x7f\x00",  # a list longer than anything
    ],
)
def test_a_broken_footer_is_refused(write: Write, footer: bytes) -> None:
    with pytest.raises(FooterError):
        read_row_groups(write("v.parquet", with_footer(footer)), [])


def test_a_footer_of_too_many_parts_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("v.parquet", with_footer(b"\x49\x3c\x00\x19\x2c\x00\x00\x00\x00\x00"))  # three, one of two columns
    monkeypatch.setattr(footers, "MAX_PARTS", 5)
    assert [group.columns for group in read_row_groups(path, [])] == [0, 2, 0]
    monkeypatch.setattr(footers, "MAX_PARTS", 4)
    with pytest.raises(FooterError):
        read_row_groups(path, [])


def test_maps_and_truths_are_passed_over(write: Write) -> None:
    # field 1: {1: true} · 2: true · 3: [false] · 4: one row group of three rows · 5: {} · 6: set of a double
    before = b"\x1b\x01\x51\x02\x01" + b"\x11" + b"\x19\x11\x02"
    after = b"\x1b\x00" + b"\x1a\x17" + b"\x00" * 8
    path = write("v.parquet", with_footer(before + b"\x19\x1c\x36\x06\x00" + after + b"\x00"))
    assert [(group.rows, group.size) for group in read_row_groups(path, [])] == [(3, 0)]


@pytest.mark.parametrize("content", [b"PAR1", b"PAR1" + b"\0" * 100 + b"PAR2", b"\xff\0\0\0PAR1"])
def test_a_file_without_a_footer_is_refused(write: Write, content: bytes) -> None:
    with pytest.raises(FooterError):
        read_row_groups(write("v.parquet", content), [])


@given(st.data())
@settings(max_examples=150)
def test_whatever_a_footer_holds_it_is_read_or_refused(
    whole: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    footer = bytearray(footer_of(whole))
    for at in data.draw(st.lists(st.integers(0, len(footer) - 1), min_size=1, max_size=4)):
        footer[at] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "mutated.parquet"
    path.write_bytes(with_footer(bytes(footer)))
    with contextlib.suppress(FooterError):  # the only error there may be
        assert all(group.rows >= 0 and group.size >= 0 for group in read_row_groups(path, ["name"]))
