"""Answers that are made once and differ a little from reader to reader: these places are blanks, filled in last."""

import re
import secrets
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Scope

_BLANKS = "blanks"
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_LONGEST_STORED = 65535  # bytes of a block that is not compressed


@dataclass(frozen=True)
class Blank:
    """What is filled in for a reader.

    Attributes
    ----------
    fill : makes it from the newest state
    tag : what of it changes the answer's entity tag; None where nothing does
    """

    fill: Callable[[Any], bytes]
    tag: Callable[[Any], str] | None = None


@dataclass
class Blanks:
    """The blanks of an answer that is being made, by the text that stands in their place."""

    known: dict[str, Blank] = field(default_factory=dict)

    def leave(self, blank: Blank) -> str:
        """Return a text that stands for the blank, in the body and in the headers."""
        mark = f"blank{secrets.token_hex(16)}"
        self.known[mark] = blank
        return mark

    def split(self, body: bytes) -> tuple[bytes, ...]:
        """Return the body in parts: every second one is the text of a blank."""
        if not self.known:
            return (body,)
        return tuple(re.split(b"(" + b"|".join(mark.encode() for mark in self.known) + b")", body))


def may_have_blanks(scope: Scope) -> bool:
    """Whether the answer to this request is one that is kept."""
    return _BLANKS in scope["state"]


def leave_blank(scope: Scope, blank: Blank) -> str:
    """Return a text that stands for the blank, in an answer that may have blanks."""
    blanks: Blanks = scope["state"][_BLANKS]
    return blanks.leave(blank)


def begin_blanks(scope: Scope) -> Blanks:
    """Let the answer to this request have blanks."""
    blanks: Blanks = scope["state"].setdefault(_BLANKS, Blanks())
    return blanks


def end_blanks(scope: Scope) -> None:
    """Let the request's answer have no further blanks: an error page is not kept."""
    scope["state"].pop(_BLANKS, None)


def fill_in(parts: Iterable[bytes], filled: Mapping[bytes, bytes]) -> bytes:
    """Return a body with its blanks filled in."""
    return b"".join(filled.get(part, part) for part in parts)


def deflate(parts: Iterable[bytes], level: int) -> tuple[bytes, ...]:
    """Compress the parts between blanks, each for itself, so that any text may be put between them."""
    return tuple(part if place % 2 else _deflate(part, level) for place, part in enumerate(parts))


def gzip_filled(parts: Iterable[bytes], deflated: Iterable[bytes], filled: Mapping[bytes, bytes]) -> bytes:
    """Return `fill_in` of the parts in gzip's format; what fills the blanks is stored as it is."""
    size, checksum, pieces = 0, 0, [_GZIP_HEAD]
    for place, (part, short) in enumerate(zip(parts, deflated, strict=True)):
        text = filled.get(part, part)
        size, checksum = size + len(text), zlib.crc32(text, checksum)
        pieces.append(_stored(text) if place % 2 else short)
    return b"".join([*pieces, b"\x03\x00", struct.pack("<II", checksum, size & 0xFFFFFFFF)])


def _deflate(part: bytes, level: int) -> bytes:
    compressor = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(part) + compressor.flush(zlib.Z_FULL_FLUSH)


def _stored(text: bytes) -> bytes:
    pieces = (text[start : start + _LONGEST_STORED] for start in range(0, len(text), _LONGEST_STORED))
    return b"".join(b"\x00" + struct.pack("<HH", len(one), len(one) ^ 0xFFFF) + one for one in pieces)
