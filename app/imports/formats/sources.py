"""The interface of every kind of vote file, and their shared errors."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import polars as pl

from app.errors import BadInputError
from app.imports.formats.records import bad_utf8_line
from app.imports.formats.schemas import Input

UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""What polars raises for a file of another kind than its name says; panics do not derive from PolarsError."""


@dataclass(frozen=True)
class RawBatch:
    """Records as they are in the file.

    Attributes
    ----------
    frame : one text column for each wanted input, with our name for it; `voted_at` may be timestamps.
    unusable : input → row of the batch → why its value is not text; the frame has null there.
    ambiguous : row of the batch → why the record is ambiguous.
    """

    frame: pl.DataFrame
    unusable: dict[Input, dict[int, str]] = field(default_factory=dict)
    ambiguous: dict[int, str] = field(default_factory=dict)


class VoteSource(Protocol):
    """A vote file of one kind: its columns, its records and their places."""

    @property
    def kind(self) -> str:
        """The kind of file: csv, jsonl or parquet."""

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns in the file."""

    def has(self, column: str) -> bool:
        """Whether there is the column, or a value at the path inside one."""

    def count(self) -> int:
        """Return the approximate number of records, for progress."""

    def batches(self, wanted: Mapping[Input, str]) -> Iterator[RawBatch]:
        """Yield the records in order; `wanted` maps our names to the file's columns, missing columns are null."""

    def places(self, rows: Collection[int]) -> dict[int, str]:
        """Return the places in the file of the records with these numbers."""


def not_utf8(path: Path) -> BadInputError:
    """Return the error for text that is not UTF-8, with its line where known."""
    line = bad_utf8_line(path)
    place = f" (line {line})" if line else ""
    return BadInputError(f"{path} is not UTF-8 text{place}: save it as UTF-8, or convert it with iconv")


def first_line(error: BaseException) -> str:
    """Return the first line of polars' message; the rest is advice for programmers."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
