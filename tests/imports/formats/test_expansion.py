import gzip
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from app.errors import BadInputError
from app.imports.formats import expansion
from app.imports.formats.expansion import check_expansion

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
    with pytest.raises(BadInputError, match=r"expands to more than [\d,]+ bytes"):
        check_expansion(path, max_bytes=len(TEXT) * copies - 1)


def test_zstd_is_bounded_without_unpacking(tmp_path: Path) -> None:
    path = zstd(tmp_path, b"".join(b"%d,\n" % (i * 7919) for i in range(200_000)))
    size = pl.read_csv(path, has_header=False).height * 8
    check_expansion(path, max_bytes=2 * size)
    with pytest.raises(BadInputError, match="expands to more than"):
        check_expansion(path, max_bytes=size // 4)


def test_an_implausible_zstd_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zstd(tmp_path, b"0" * 5_000_000)
    check_expansion(path)
    monkeypatch.setattr(expansion, "_LITTLE_EXPANDED", 1_000_000)
    with pytest.raises(BadInputError, match="expands to more than 200 times its size"):
        check_expansion(path)


@pytest.mark.parametrize("part", [5, 9, 20, -5, -1])
def test_what_ends_in_the_middle_is_refused(write: Write, tmp_path: Path, part: int) -> None:
    for path in (write("x.csv.gz", gzip.compress(TEXT)), zstd(tmp_path, TEXT)):
        path.write_bytes(path.read_bytes()[:part])
        with pytest.raises(BadInputError, match="cannot be decompressed"):
            check_expansion(path)


def test_long_lines_are_refused_in_plain_files_too(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "MAX_LINE_BYTES", 3 << 20)
    check_expansion(write("x.csv", b"\n".join([b"x" * (2 << 20)] * 3)))
    with pytest.raises(BadInputError, match="3,145,728"):
        check_expansion(write("x.csv", b"a\n" + b"x" * (5 << 20)))


def test_broken_gzip_is_refused(write: Write) -> None:
    content = bytearray(gzip.compress(TEXT))
    content[40] ^= 0xFF
    with pytest.raises(BadInputError, match="cannot be decompressed"):
        check_expansion(write("x.csv.gz", bytes(content)))
