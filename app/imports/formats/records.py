"""The lines of a text file's records, for the places in messages."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

LINES_PER_BATCH = 5_000
"""Lines in memory at once; arena logs have whole conversations in a line."""

_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")  # gzip, zstd

DELIMITERS = (",", ";", "\t", "|")


def _well_quoted(delimiter: str) -> re.Pattern[str]:
    mark = re.escape(delimiter)
    field = rf'(?:[^"{mark}\n]*|"[^"]*(?:""[^"]*)*")'
    return re.compile(rf"{field}(?:{mark}{field})*")


_WELL_QUOTED = {delimiter: _well_quoted(delimiter) for delimiter in DELIMITERS}


class Record(NamedTuple):
    """One record of a text file, with the number of its first physical line (from 1), and the delimiter of fields."""

    line: int
    text: str
    delimiter: str = ","

    @property
    def is_blank(self) -> bool:
        """Whether the line is empty."""
        return not self.text

    @property
    def is_well_quoted(self) -> bool:
        """Whether every quote of a CSV record opens, closes or doubles inside a quoted field."""
        return _WELL_QUOTED[self.delimiter].fullmatch(self.text) is not None

    @property
    def n_fields(self) -> int:
        """Number of fields of a well quoted CSV record: the delimiters outside quotes, plus one."""
        return 1 + sum(part.count(self.delimiter) for part in self.text.split('"')[::2])

    def likely_delimiter(self) -> str:
        """Return the delimiter that makes the most fields of a header; a comma where several make as many."""
        return max(DELIMITERS, key=lambda mark: self._replace(delimiter=mark).n_fields)


def scan_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, decompressed, without line ends and byte order mark.

    Raises
    ------
    polars.exceptions.ComputeError, OSError : not UTF-8, or a damaged compressed file.
    """
    first = True
    for batch in pl.scan_lines(path, glob=False).collect_batches(chunk_size=LINES_PER_BATCH):
        for line in batch.to_series():
            yield line.removeprefix("\ufeff") if first else line
            first = False


def csv_records(path: Path) -> Iterator[Record]:
    """Yield the records of a CSV file: lines, joined while a quote is open, including blank lines."""
    yield from _join_quoted(scan_lines(path))


def _join_quoted(lines: Iterable[str]) -> Iterator[Record]:
    start, parts, is_open = 1, list[str](), False
    number = 0
    for number, line in enumerate(lines, start=1):
        parts.append(line)
        is_open ^= line.count('"') % 2 == 1
        if not is_open:
            yield Record(start, "\n".join(parts))
            start, parts = number + 1, []
    if parts:
        yield Record(start, "\n".join(parts))


def bad_utf8_line(path: Path) -> int | None:
    """Return the number of the first line that is not UTF-8; None where all are, or the file is compressed."""
    with path.open("rb") as lines:
        if lines.read(4).startswith(_COMPRESSED):
            return None
        lines.seek(0)
        for number, line in enumerate(lines, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return None
