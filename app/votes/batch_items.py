"""Where the votes of a batch lie in its body, found before a single one is parsed."""

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from app.rating.compiled import compiled

_HEAD = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"votes"[ \t\r\n]*:[ \t\r\n]*\[')
_TAIL = re.compile(rb"[ \t\r\n]*\}[ \t\r\n]*")
_QUOTE, _BACKSLASH, _COMMA, _BLANK = b'"\\, '
_OPEN_LIST, _CLOSE_LIST, _OPEN_OBJECT, _CLOSE_OBJECT = b"[]{}"


class BatchItems:
    """The items of `{"votes": [item, …]}`, each as the bytes that it has in the body, and the number of its parts.

    Parts are the commas and opening brackets outside strings: an item of few is parsed soon, whatever its length.

    The scan goes no further than `most + 1` items and does not hold the interpreter's lock. It builds no object of an
    item, so the length of a body says what it costs, whatever is in it. What lies between two commas of the list is an
    item: whether it is JSON is seen when it is parsed.

    Attributes
    ----------
    count : items found, at most `most + 1`; 0 where the body is no such object or its list is empty
    """

    def __init__(self, body: bytes, *, most: int) -> None:
        self._body = body
        self._ends: NDArray[np.int64] = np.empty(most + 1, dtype=np.int64)
        self._parts: NDArray[np.int64] = np.zeros(most + 1, dtype=np.int64)
        head = _HEAD.match(body)
        self._start = head.end() if head else len(body)
        self.count = int(_find_ends(np.frombuffer(body, dtype=np.uint8), self._start, self._ends, self._parts))
        if self.count <= most and (not self.count or not _TAIL.fullmatch(body, int(self._ends[self.count - 1]) + 1)):
            self.count = 0

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        start = self._start
        for end, parts in zip(self._ends[: self.count].tolist(), self._parts[: self.count].tolist(), strict=True):
            yield self._body[start:end], parts
            start = end + 1


def compile_batch_scan() -> None:
    """Compile the scan ahead of the first batch; numba caches the machine code on disk."""
    BatchItems(b'{"votes": [""]}', most=1)


@compiled
def _end_of_string(body: NDArray[np.uint8], start: int) -> int:
    """Return where the quote is that ends the string which begins at `start`; past the end where there is none."""
    i = start + 1
    while i < len(body) and body[i] != _QUOTE:
        i += 2 if body[i] == _BACKSLASH else 1
    return i


@compiled
def _find_ends(body: NDArray[np.uint8], start: int, ends: NDArray[np.int64], parts: NDArray[np.int64]) -> int:
    """Write where each item of the list that begins at `start` ends, and its parts; return how many there are.

    0 for a list that is empty or does not end. The scan stops when `ends` is full.
    """
    depth, count = 0, 0
    blank = True
    i = start
    while i < len(body):
        byte = body[i]
        if depth == 0 and byte in (_COMMA, _CLOSE_LIST):
            if blank and count == 0 and byte == _CLOSE_LIST:
                return 0
            ends[count] = i
            count += 1
            if byte == _CLOSE_LIST or count == len(ends):
                return count
        elif byte in (_OPEN_LIST, _OPEN_OBJECT):
            depth += 1
            parts[count] += 1
        elif byte in (_CLOSE_LIST, _CLOSE_OBJECT):
            depth -= 1
        elif byte == _COMMA:
            parts[count] += 1
        elif byte == _QUOTE:
            i = _end_of_string(body, i)
        blank &= byte <= _BLANK
        i += 1
    return 0
