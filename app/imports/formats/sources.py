"""The interface of every kind of vote file, their shared errors, and how large their parts may be."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast

import polars as pl

from app.imports.formats.errors import FileTooLargeError, UnreadableFileError
from app.imports.formats.expansion import open_content
from app.imports.formats.schemas import Input
from app.votes.prompts import key_text, prompt_key

PROMPT: Input = "asked"
LINES_PER_BATCH = 5_000
"""Lines in memory at once; arena logs have whole conversations in a line."""

MAX_COLUMNS = 2_000
MAX_VALUE_BYTES = 1024**2
"""Small compressed files can hold values of gigabytes."""

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
    records : the number of the record of each row, where a record may have several.
    """

    frame: pl.DataFrame
    unusable: dict[Input, dict[int, str]] = field(default_factory=dict)
    ambiguous: dict[int, str] = field(default_factory=dict)
    records: pl.Series | None = None


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


def select_wanted(frame: pl.DataFrame, wanted: Mapping[Input, str]) -> pl.DataFrame:
    """Return the wanted columns under our names, null where the file does not have them."""
    return frame.select(
        (pl.col(column) if column in frame.columns else pl.lit(None, pl.String)).alias(name)
        for name, column in wanted.items()
    )


def not_utf8(path: Path) -> UnreadableFileError:
    """Return the error for text that is not UTF-8, with its line where known."""
    line = bad_utf8_line(path)
    place = f" (line {line})" if line else ""
    return UnreadableFileError(f"{path} is not UTF-8 text{place}: save it as UTF-8, or convert it with iconv")


def explain_text(path: Path, error: BaseException, kind: str) -> UnreadableFileError:
    """Return the error for a text file that polars cannot read."""
    if "utf-8" in str(error).lower() or "utf8" in str(error).lower():
        return not_utf8(path)
    return UnreadableFileError(f"{path} cannot be read as {kind}: {first_line(error)}")


def first_line(error: BaseException) -> str:
    """Return the first line of polars' message; the rest is advice for programmers."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def bad_utf8_line(path: Path) -> int | None:
    """Return the number of the first line that is not UTF-8; None where all are."""
    with open_content(path) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return None


def scan_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, decompressed, without line ends and byte order mark.

    Raises polars.exceptions.ComputeError or OSError: not UTF-8, or a damaged compressed file.
    """
    first = True
    for batch in pl.scan_lines(path, glob=False).collect_batches(chunk_size=LINES_PER_BATCH):
        for line in batch.to_series():
            yield line.removeprefix("\ufeff") if first else line
            first = False


def check_columns(path: Path, n_columns: int) -> None:
    """Refuse a file of too many columns. Raises FileTooLargeError."""
    if n_columns > MAX_COLUMNS:
        detail = f"{path} has {n_columns:,} columns, at most {MAX_COLUMNS:,} are read"
        raise FileTooLargeError(detail, extensions={"limit": MAX_COLUMNS})


def _with_keys(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the records with the keys of their prompts, written as text: keys stay as they are."""
    keys = [None if text is None or (key := prompt_key(text)) is None else key_text(key) for text in frame[PROMPT]]
    return frame.with_columns(pl.Series(PROMPT, keys, pl.String))


def refuse_long_values(raw: RawBatch) -> RawBatch:
    """Return the batch with keys of prompts, and an error in place of other values of more than `MAX_VALUE_BYTES`."""
    if PROMPT in raw.frame.columns:
        raw = replace(raw, frame=_with_keys(raw.frame), unusable={**raw.unusable, PROMPT: {}})
    longest = raw.frame.select(pl.col(pl.String).str.len_bytes().max())
    names = cast("list[Input]", [values.name for values in longest if (values[0] or 0) > MAX_VALUE_BYTES])
    if not names:
        return raw
    long = {name: (raw.frame[name].str.len_bytes() > MAX_VALUE_BYTES).fill_null(value=False) for name in names}
    detail = f"must have at most {MAX_VALUE_BYTES:,} bytes"
    why = {
        name: {**raw.unusable.get(name, {}), **dict.fromkeys(rows.arg_true(), detail)} for name, rows in long.items()
    }
    short = raw.frame.with_columns(pl.when(~rows).then(pl.col(name)).alias(name) for name, rows in long.items())
    return replace(raw, frame=short, unusable={**raw.unusable, **why})


def value_at(record: Any, path: str, otherwise: Any = None) -> Any:
    """Return the value of a key, or at a path such as `states.0.model_name`; `otherwise` without one."""
    if isinstance(record, dict) and (path in record or "." not in path):
        return record.get(path, otherwise)
    here: Any = record
    for part in path.split("."):
        if isinstance(here, dict) and part in here:
            here = here[part]
        elif isinstance(here, list) and part.isdecimal() and int(part) < len(here) and here[int(part)] is not None:
            here = here[int(part)]
        else:
            return otherwise
    return here
