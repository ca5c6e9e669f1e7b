"""What every kind of vote file offers to the reader, and the errors they share."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import polars as pl

from app.errors import BadInputError
from app.imports.formats.records import bad_utf8_line
from app.imports.formats.schemas import Input

UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""What polars raises for a file that is not what its name says; panics do not derive from PolarsError."""


@dataclass(frozen=True)
class RawBatch:
    """Some records as they stand in the file.

    Attributes
    ----------
    frame : one column per wanted input, under our name for it, all text; `voted_at` may already be moments.
    unusable : input → row of the batch → why the value there is no text; the frame holds null there.
    ambiguous : row of the batch → why the record as a whole says nothing certain.
    """

    frame: pl.DataFrame
    unusable: dict[Input, dict[int, str]] = field(default_factory=dict)
    ambiguous: dict[int, str] = field(default_factory=dict)


class VoteSource(Protocol):
    """A vote file of one kind: knows its columns, hands out its records and the places of any of them."""

    @property
    def kind(self) -> str:
        """What kind of file it is: csv, jsonl or parquet."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns' names, as in the file."""

    def has(self, column: str) -> bool:
        """Whether there is such a column, or something at such a path inside one."""

    def count(self) -> int:
        """Return about how many records there are; for progress only."""

    def batches(self, wanted: Mapping[Input, str]) -> Iterator[RawBatch]:
        """Yield the records in order: our name → the file's column; one the file does not have is null."""

    def places(self, rows: Collection[int]) -> dict[int, str]:
        """Return where in the file the records with these numbers stand, as a user would look for them."""


def not_utf8(path: Path) -> BadInputError:
    """Return the error for text that is not UTF-8, with its line where it can be told."""
    line = bad_utf8_line(path)
    return BadInputError(f"{path} is not UTF-8 text" + (f" (line {line})" if line else ""))


def first_line(error: BaseException) -> str:
    """Return the first line of polars' message; the rest is advice to programmers."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
