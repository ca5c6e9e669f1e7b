"""Limits how much a file may grow by decompression, and how long its lines and records may be, before it is read."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from app.imports.formats.errors import FileTooLargeError, UnreadableFileError

MAX_EXPANDED_BYTES = 8 * 1024**3
MAX_LINE_BYTES = 64 * 1024**2
"""Longest line; a JSON list may stand on one line."""
MAX_RECORD_BYTES = 16 * 1024**2
"""Longest record; arena logs have whole conversations in a record."""

_PIECE = 1 << 20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_LITTLE_EXPANDED = 256 * 1024**2
_PLAUSIBLE_RATIO = 200
"""Largest compression ratio of zstd for large files; decompression bombs reach thousands."""


def check_expansion(path: Path, *, max_bytes: int | None = None, quoted: bool = False) -> None:
    """Refuse a text file that would expand too much, or has too long lines or records, in bounded memory.

    `max_bytes`: largest size of the text; by default 8 GiB.
    `quoted`: each line begins a record, which goes on in the next line while a quote is open (CSV).
    Raises FileTooLargeError or UnreadableFileError.
    """
    limit = MAX_EXPANDED_BYTES if max_bytes is None else max_bytes
    try:
        with path.open("rb") as file:
            start = file.read(4)
            file.seek(0)
            if start.startswith(_ZSTD):
                _check_size(path, _zstd_bound(file, limit), limit)
            else:
                pieces = _gunzipped(file) if start.startswith(_GZIP) else iter(lambda: file.read(_PIECE), b"")
                _check_lines(path, pieces, limit, quoted=quoted)
    except (zlib.error, EOFError, ValueError) as error:
        raise UnreadableFileError(f"{path} cannot be decompressed: {error}") from None


def check_record(place: str, text: str) -> None:
    """Refuse a record, or the beginning of one, that is too long. Raises FileTooLargeError."""
    if 4 * len(text) > MAX_RECORD_BYTES and len(text.encode()) > MAX_RECORD_BYTES:
        detail = f"{place}: a record of more than {MAX_RECORD_BYTES:,} bytes"
        raise FileTooLargeError(detail, extensions={"limit": MAX_RECORD_BYTES})


def _check_lines(path: Path, pieces: Iterator[bytes], limit: int, *, quoted: bool) -> None:
    size = held = 0
    is_open = False
    called, most = ("record", MAX_RECORD_BYTES) if quoted else ("line", MAX_LINE_BYTES)
    for piece in pieces:
        size += len(piece)
        _check_size(path, size, limit)
        is_open ^= quoted and piece.count(b'"') % 2 == 1
        end = _last_end(piece, is_open=is_open, quoted=quoted)
        held = held + len(piece) if end < 0 else len(piece) - end - 1
        if held > most:
            raise FileTooLargeError(f"{path} has a {called} of more than {most:,} bytes", extensions={"limit": most})


def _last_end(piece: bytes, *, is_open: bool, quoted: bool) -> int:
    """Return where the last record in a piece ends, -1 where none does; `is_open` says whether a quote is, after it."""
    end, before = piece.rfind(b"\n"), len(piece)
    while quoted and end >= 0:
        is_open ^= piece.count(b'"', end, before) % 2 == 1
        if not is_open:
            break
        end, before = piece.rfind(b"\n", 0, end), end
    return end


def _check_size(path: Path, size: int, limit: int) -> None:
    if size > limit:
        raise FileTooLargeError(f"{path} expands to more than {limit:,} bytes", extensions={"limit": limit})


def _gunzipped(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a gzip file, member by member, in pieces of bounded size."""
    left = b""
    while left or (left := file.read(_PIECE)):
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            piece = member.decompress(left, _PIECE)
            left = member.unconsumed_tail
            if piece:
                yield piece
            elif not left and not (left := file.read(_PIECE)):
                raise EOFError("it ends in the middle")
        left = member.unused_data.lstrip(b"\0")  # members may be padded


def _zstd_bound(file: BinaryIO, limit: int) -> int:
    """Return a bound of the expanded size of a zstd file, from its block headers: a block has at most 128 KiB.

    Raises ValueError: the file is damaged, or its compression ratio is implausible for text.
    """
    bound, size = 0, file.seek(0, 2)
    file.seek(0)
    while magic := file.read(4):
        number = int.from_bytes(_whole(magic, 4), "little")
        if number & 0xFFFFFFF0 == 0x184D2A50:  # noqa: PLR2004  a skippable frame, by RFC 8878
            file.seek(int.from_bytes(_whole(file.read(4), 4), "little"), 1)
            continue
        if magic != _ZSTD:
            raise ValueError("it is not whole")
        bound += _frame_bound(file, limit - bound)
        if bound > limit:
            return bound
    if file.tell() > size:  # the content of the last blocks is missing
        raise ValueError("it ends in the middle")
    if bound > max(_LITTLE_EXPANDED, _PLAUSIBLE_RATIO * size):
        raise ValueError(f"it expands to more than {_PLAUSIBLE_RATIO} times its size")
    return bound


def _frame_bound(file: BinaryIO, limit: int) -> int:
    descriptor = _whole(file.read(1), 1)[0]
    single = descriptor >> 5 & 1
    size_length = (single, 2, 4, 8)[descriptor >> 6]
    file.seek((1 - single) + (0, 1, 2, 4)[descriptor & 3] + size_length, 1)
    bound, last = 0, 0
    while not last and bound <= limit:
        header = int.from_bytes(_whole(file.read(3), 3), "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        bound += size if kind < 2 else 128 * 1024  # noqa: PLR2004  0 is raw, 1 repeats a byte, 2 is compressed
        file.seek(1 if kind == 1 else size, 1)
    file.seek(4 * (descriptor >> 2 & 1), 1)
    return bound


def _whole(content: bytes, length: int) -> bytes:
    if len(content) < length:
        raise ValueError("it ends in the middle")
    return content
