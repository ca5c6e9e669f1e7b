import gzip
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from app.imports.formats.errors import FileTooLargeError, UnreadableFileError
from app.imports.formats.expansion import MAX_LINE_BYTES, check_expansion
from app.imports.formats.expansion import zstd as zstandard
from tests.fixtures.errors import limited_to
from tests.imports.uploads import zstd_of_zeros

Write = Callable[[str, str | bytes], Path]

TEXT = b"k,a,b,tie\n" * 50_000


def zstd(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "x.csv.zst"
    pl.DataFrame({"x": content.decode().splitlines()}).write_csv(path, compression="zstd", include_header=False)
    return path


@pytest.mark.parametrize("copies", [1, 3])
def test_gzip_counts_every_member(write: Write, copies: int) -> None:
    path = write("x.csv.gz", gzip.compress(TEXT) * copies + b"\0" * 7)
    check_expansion(path, max_bytes=len(TEXT) * copies)
    with pytest.raises(FileTooLargeError, check=limited_to(len(TEXT) * copies - 1)):
        check_expansion(path, max_bytes=len(TEXT) * copies - 1)


@pytest.mark.parametrize("copies", [1, 3])
def test_zstd_counts_every_frame(write: Write, copies: int) -> None:
    skipped = b"\x50\x2a\x4d\x18\x04\0\0\0none"
    path = write("x.csv.zst", (zstandard.compress(TEXT) + skipped) * copies)
    check_expansion(path, max_bytes=len(TEXT) * copies)
    with pytest.raises(FileTooLargeError, check=limited_to(len(TEXT) * copies - 1)):
        check_expansion(path, max_bytes=len(TEXT) * copies - 1)


def test_an_implausible_zstd_file_is_refused_if_it_is_large(write: Write) -> None:
    frame = zstandard.compress(TEXT * 20)
    check_expansion(write("x.csv.zst", frame * 26))
    with pytest.raises(UnreadableFileError):
        check_expansion(write("x.csv.zst", frame * 27))


def test_a_line_without_an_end_is_refused_in_zstd_too(write: Write) -> None:
    with pytest.raises(FileTooLargeError, check=limited_to(MAX_LINE_BYTES)):
        check_expansion(write("x.csv.zst", zstd_of_zeros(9 << 30)))


@pytest.mark.parametrize("part", [5, 9, 20, -5, -1])
def test_what_ends_in_the_middle_is_refused(write: Write, tmp_path: Path, part: int) -> None:
    for path in (write("x.csv.gz", gzip.compress(TEXT)), zstd(tmp_path, TEXT)):
        path.write_bytes(path.read_bytes()[:part])
        with pytest.raises(UnreadableFileError):
            check_expansion(path)


def test_long_lines_are_refused_in_plain_files_too(write: Write) -> None:
    path = write("x.csv", b"")
    for end in (MAX_LINE_BYTES // 2, MAX_LINE_BYTES):
        with path.open("r+b") as file:  # sparse: it takes no space on the disk
            file.seek(end)
            file.write(b"\n")
        check_expansion(path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + MAX_LINE_BYTES + 1)
    with pytest.raises(FileTooLargeError, check=limited_to(MAX_LINE_BYTES)):
        check_expansion(path)


def test_broken_gzip_is_refused(write: Write) -> None:
    content = bytearray(gzip.compress(TEXT))
    content[40] ^= 0xFF
    with pytest.raises(UnreadableFileError):
        check_expansion(write("x.csv.gz", bytes(content)))
