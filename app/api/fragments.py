"""Answers that are made once and differ a little from reader to reader: these fragments are filled in last."""

import re
import secrets
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import Response

_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_AS_IT_IS = 0  # zlib's level


@dataclass(frozen=True)
class Fragment:
    """What is filled in for a reader.

    Attributes
    ----------
    fill : makes it from the newest state; None before the first
    tag : what of it changes the answer's entity tag; None where nothing does
    mark : the text that stands in its place, in the body and in the headers
    """

    fill: Callable[[Any], str]
    tag: Callable[[Any], str] | None = None
    mark: str = field(default_factory=lambda: secrets.token_urlsafe(16))


class FragmentedResponse(Response):
    """An answer with the marks of fragments, which `KeptAnswers` fills in."""

    def __init__(self, content: bytes | str, fragments: tuple[Fragment, ...], **settings: Any) -> None:
        super().__init__(content, **settings)
        self.fragments = fragments


def split(body: bytes, fragments: Iterable[Fragment]) -> tuple[bytes, ...]:
    """Return the body in parts: every second one is the mark of a fragment."""
    marks = b"|".join(re.escape(one.mark.encode()) for one in fragments)
    return tuple(re.split(b"(" + marks + b")", body)) if marks else (body,)


def fill_in(parts: Iterable[bytes], filled: Mapping[bytes, bytes]) -> bytes:
    """Return a body with its fragments filled in."""
    return b"".join(filled.get(part, part) for part in parts)


def deflate(parts: Iterable[bytes], level: int) -> tuple[bytes, ...]:
    """Compress the parts between fragments, each for itself, so that any text may be put between them."""
    return tuple(part if place % 2 else _deflate(part, level) for place, part in enumerate(parts))


def gzip_filled(parts: Sequence[bytes], deflated: Sequence[bytes], filled: Mapping[bytes, bytes]) -> bytes:
    """Return `fill_in` of the parts in gzip's format; the fragments are stored as they are."""
    body = fill_in(parts, filled)
    short = [_deflate(filled[part], _AS_IT_IS) if part in filled else part for part in deflated]
    end = struct.pack("<II", zlib.crc32(body), len(body) & 0xFFFFFFFF)
    return b"".join([_GZIP_HEAD, *short, b"\x03\x00", end])


def _deflate(part: bytes, level: int) -> bytes:
    compressor = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(part) + compressor.flush(zlib.Z_FULL_FLUSH)
