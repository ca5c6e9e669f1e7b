"""Limits how much a file may grow by decompression, and how long its lines and records may be, before it is read."""

import gzip
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from app.imports.formats.errors import FileTooLargeError, UnreadableFileError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_EXPANDED_BYTES = 8 * 1024**3
MAX_LINE_BYTES = 64 * 1024**2
"""Longest line; a JSON list may stand on one line."""
MAX_RECORD_BYTES = 16 * 1024**2
"""Longest record; arena logs have whole conversations in a record."""

UNPACKABLE = (gzip.BadGzipFile, zlib.error, zstd.ZstdError, EOFError, ValueError)
"""What reading a damaged compressed file raises."""

_PIECE = 1 << 20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_LITTLE_EXPANDED = 256 * 1024**2
_PLAUSIBLE_RATIO = 200
"""Largest compression ratio of zstd for large files; decompression bombs reach thousands."""


def check_expansion(path: Path, *, max_bytes: int | None = None, quoted: bool = False) -> int:
    """Return the number of line ends in a text file, decompressed; refuse what is too large, in bounded memory.

    `max_bytes`: largest size of the text; by default 8 GiB.
    `quoted`: each line begins a record, which goes on in the next line while a quote is open (CSV).
    Raises FileTooLargeError: the file expands too much, or has too long lines or records.
    Raises UnreadableFileError: it cannot be decompressed.
    """
    limit = MAX_EXPANDED_BYTES if max_bytes is None else max_bytes
    try:
        return _check_lines(path, _pieces(path, limit), quoted=quoted)
    except UNPACKABLE as error:
        raise UnreadableFileError(f"{path} cannot be decompressed: {error}") from None


def check_record(place: str, text: str) -> None:
    """Refuse a record, or the beginning of one, that is too long. Raises FileTooLargeError."""
    if 4 * len(text) > MAX_RECORD_BYTES and len(text.encode()) > MAX_RECORD_BYTES:
        detail = f"{place}: a record of more than {MAX_RECORD_BYTES:,} bytes"
        raise FileTooLargeError(detail, extensions={"limit": MAX_RECORD_BYTES})


def _check_lines(path: Path, pieces: Iterator[bytes], *, quoted: bool) -> int:
    held = lines = 0
    is_open = False
    called, most = ("record", MAX_RECORD_BYTES) if quoted else ("line", MAX_LINE_BYTES)
    for piece in pieces:
        lines += piece.count(b"\n")
        is_open ^= quoted and piece.count(b'"') % 2 == 1
        end = last_end(piece, is_open=is_open, quoted=quoted)
        held = held + len(piece) if end < 0 else len(piece) - end - 1
        if held > most:
            raise FileTooLargeError(f"{path} has a {called} of more than {most:,} bytes", extensions={"limit": most})
    return lines


def last_end(piece: bytes, *, is_open: bool, quoted: bool) -> int:
    """Return where the last record in a piece ends, -1 where none does; `is_open` says whether a quote is, after it."""
    end, before = piece.rfind(b"\n"), len(piece)
    while quoted and end >= 0:
        is_open ^= piece.count(b'"', end, before) % 2 == 1
        if not is_open:
            break
        end, before = piece.rfind(b"\n", 0, end), end
    return end


def open_content(path: Path) -> BinaryIO:
    """Open a text file, to read its bytes decompressed."""
    with path.open("rb") as file:
        start = file.read(4)
    opener: Any = zstd.open if start == _ZSTD else gzip.open if start.startswith(_GZIP) else open
    return cast("BinaryIO", opener(path, "rb"))


def _pieces(path: Path, limit: int) -> Iterator[bytes]:
    """Yield the content, decompressed.

    Raises FileTooLargeError: there is more of it than the limit.
    Raises ValueError: the compression ratio of zstd is implausible for text.
    """
    most = max(_LITTLE_EXPANDED, _PLAUSIBLE_RATIO * path.stat().st_size)
    size = 0
    with open_content(path) as content:
        is_zstd = isinstance(content, zstd.ZstdFile)
        while piece := content.read(_PIECE):
            size += len(piece)
            if size > limit:
                raise FileTooLargeError(f"{path} expands to more than {limit:,} bytes", extensions={"limit": limit})
            if is_zstd and size > most:
                raise ValueError(f"it expands to more than {_PLAUSIBLE_RATIO} times its size")
            yield piece
