"""CSV files: polars reads them; line numbers are looked up only for messages."""

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import polars as pl

from app.imports.formats.errors import NoVotesError, UnreadableFileError
from app.imports.formats.expansion import check_expansion
from app.imports.formats.schemas import ColumnsError, Input
from app.imports.formats.sources import UNREADABLE, RawBatch, explain_text, not_utf8, scan_lines, select_wanted

ROWS_PER_BATCH = 50_000

DELIMITERS = (",", ";", "\t", "|")


def _well_quoted(delimiter: str) -> re.Pattern[str]:
    mark = re.escape(delimiter)
    field = rf'(?:[^"{mark}\n]*|"[^"]*(?:""[^"]*)*")'
    return re.compile(rf"{field}(?:{mark}{field})*")


_WELL_QUOTED = {delimiter: _well_quoted(delimiter) for delimiter in DELIMITERS}


_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
"""A first line by which spreadsheets name the delimiter."""
LOOKED_AT = 10
FEWEST_NAMES, OF_A_TITLE = 3, 2
"""Names in the header of a table below a title, and the most texts in a title."""


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

    @property
    def n_texts(self) -> int:
        """Number of fields that are not blank, outside quotes."""
        return sum(bool(part.strip(' "')) for part in self.text.split(self.delimiter))

    def likely_delimiter(self) -> str:
        """Return the delimiter that makes the most fields of a header; a comma where several make as many."""
        return max(DELIMITERS, key=lambda mark: self._replace(delimiter=mark).n_fields)


class CsvSource:
    """A CSV file with a header, quoted by RFC 4180, plain or compressed.

    Its fields are separated by commas, semicolons, tabs or bars, whichever makes the most columns of the header. Lines
    with a title above the header are skipped, and the line `sep=;` of spreadsheets.
    """

    kind = "csv"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = check_expansion(path, quoted=True)

    @cached_property
    def columns(self) -> list[str]:
        """The names in the header; raises BadInputError where one is repeated, or the header is invalid."""
        header = next(self._records(), None)
        if header is None:
            raise NoVotesError(f"{self._path} is empty")
        if "\x00" in header.text:  # UTF-16 without a byte order mark looks like text
            raise not_utf8(self._path)
        if not header.is_well_quoted:
            raise UnreadableFileError.at_line(self._path, header.line, self._misquoted(header))
        names = self._names(header)
        repeated = [name for name, times in Counter(names).items() if name and times > 1]
        if repeated:
            raise ColumnsError(f"{self._path}, line {header.line}: repeated columns ", repeated)
        return names

    def _names(self, header: Record) -> list[str]:
        try:
            return next(csv.reader(header.text.split("\n"), strict=True, delimiter=header.delimiter))
        except csv.Error as error:
            reason = f"the header cannot be read: {error}"
            if "\r" in header.text:
                reason = "there is a carriage return in the header: lines must end with a line feed, or with both"
            elif max(map(len, header.text.split(header.delimiter))) > csv.field_size_limit():
                reason = f"the header has a name of more than {csv.field_size_limit():,} characters"
            raise UnreadableFileError.at_line(self._path, header.line, reason) from None

    @property
    def notes(self) -> list[str]:
        """Which line is taken for the header, where it is not the first."""
        skipped, _ = self._head
        return [f"the header is line {skipped + 1}"] if skipped else []

    def has(self, column: str) -> bool:
        """Whether the header has the column."""
        return column in self.columns

    def count(self) -> int:
        """Return the number of lines below the header."""
        return self._lines - 1 - self._head[0]

    def batches(self, wanted: Mapping[Input, str]) -> Iterator[RawBatch]:
        """Yield the records in order, without blank lines.

        Reads every column and selects afterwards: with a selection of columns, polars does not notice a record with too
        many fields.
        """
        start = 0
        try:
            skipped, delimiter = self._head
            scan = pl.scan_csv(self._path, infer_schema=False, glob=False, separator=delimiter, skip_lines=skipped)
            for batch in scan.collect_batches(chunk_size=ROWS_PER_BATCH):
                yield RawBatch(select_wanted(self._without_blank_lines(batch, start), wanted))
                start += batch.height
        except UNREADABLE as error:
            raise self._explained(error) from error

    def places(self, rows: Collection[int]) -> dict[int, str]:
        """Return `line 7` for the records with these numbers (blank lines not counted)."""
        looked_for, last = set(rows), max(rows, default=-1)
        numbered = enumerate(record.line for record in self._body() if not record.is_blank)
        return {row: f"line {line}" for row, line in islice(numbered, last + 1) if row in looked_for}

    def _records(self) -> Iterator[Record]:
        """Yield the header and the records after it; polars skips blank lines before the header."""
        found = False
        skipped, delimiter = self._head
        try:
            for record in csv_records(self._path):
                if record.line > skipped and (found or not record.is_blank):
                    found = True
                    yield record._replace(delimiter=delimiter)
        except UNREADABLE as error:
            raise explain_text(self._path, error, "CSV") from error

    @cached_property
    def _head(self) -> tuple[int, str]:
        """The lines above the header, and the delimiter."""
        try:
            records = [one for one in islice(csv_records(self._path), LOOKED_AT) if not one.is_blank]
        except UNREADABLE as error:
            raise explain_text(self._path, error, "CSV") from error
        if not records:
            return 0, ","
        first, *others = records
        if named := _SEPARATOR.fullmatch(first.text.strip()):
            return first.line, named[1]
        marks = [one.likely_delimiter() for one in records]
        first, *others = (one._replace(delimiter=marks[0]) for one in records)
        whole = first.n_texts == first.n_fields > 1 and all(one.n_fields == first.n_fields for one in others)
        if first.n_texts > OF_A_TITLE or whole or "\x00" in first.text:
            return 0, marks[0]
        for one, mark, after in zip(others, marks[1:], others[1:], strict=False):
            header = one._replace(delimiter=mark)
            same = after._replace(delimiter=mark).n_fields == header.n_fields
            if header.n_texts == header.n_fields >= FEWEST_NAMES and same:
                return one.line - 1, mark
        return 0, marks[0]

    def _body(self) -> Iterator[Record]:
        records = self._records()
        next(records, None)
        return records

    @cached_property
    def _blank_records(self) -> list[int]:
        """Return the numbers of the records that are blank lines; polars gives the same nulls for a line of commas."""
        return [number for number, record in enumerate(self._body()) if record.is_blank]

    def _without_blank_lines(self, batch: pl.DataFrame, start: int) -> pl.DataFrame:
        nothing = batch.select(pl.all_horizontal(pl.all().is_null())).to_series()
        if not nothing.any():
            return batch
        numbers = pl.int_range(start, start + batch.height, eager=True)
        return batch.filter(~(nothing & numbers.is_in(self._blank_records)))

    def _explained(self, error: BaseException) -> UnreadableFileError:
        """Find the record that polars cannot read, because its error does not say which."""
        for record in self._body():
            if not record.is_well_quoted:
                return UnreadableFileError.at_line(self._path, record.line, self._misquoted(record))
            if record.n_fields > len(self.columns):
                reason = f"{record.n_fields} fields where the header has {len(self.columns)}"
                return UnreadableFileError.at_line(self._path, record.line, reason)
        return explain_text(self._path, error, "CSV")

    @staticmethod
    def _misquoted(record: Record) -> str:
        if record.text.count('"') % 2:
            return "a quote is opened and never closed (a quote inside a field is written twice, in a quoted field)"
        return "a quote inside a field must be written twice, in a quoted field"


def csv_records(path: Path) -> Iterator[Record]:
    """Yield the records of a CSV file: lines, joined while a quote is open, including blank lines."""
    start, parts, is_open = 1, list[str](), False
    number = 0
    for number, line in enumerate(scan_lines(path), start=1):
        parts.append(line)
        is_open ^= line.count('"') % 2 == 1
        if not is_open:
            yield Record(start, "\n".join(parts))
            start, parts = number + 1, []
    if parts:
        yield Record(start, "\n".join(parts))
