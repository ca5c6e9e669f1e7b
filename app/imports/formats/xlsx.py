"""Spreadsheets: the first sheet of an XLSX file, its first row as header. Needs the extra `xlsx`."""

import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import polars as pl

from app.errors import BadInputError
from app.imports.formats.csv import FEWEST_NAMES, LOOKED_AT, OF_A_TITLE
from app.imports.formats.errors import FileTooLargeError, UnreadableFileError
from app.imports.formats.parquet import frame_as_text
from app.imports.formats.schemas import Input
from app.imports.formats.sources import UNREADABLE, RawBatch, first_line, select_wanted

MAX_UNPACKED_BYTES = 1024**3
"""A sheet is read as a whole; the format has at most 1,048,576 rows."""


class XlsxSource:
    """The first sheet of an XLSX file; blank rows are skipped."""

    kind = "xlsx"

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def columns(self) -> list[str]:
        """The names in the first row."""
        return [name for name in self._sheet.columns if name != _ROW]

    def has(self, column: str) -> bool:
        """Whether the first row has the name."""
        return column in self.columns

    def count(self) -> int:
        """Return the number of rows that are not blank."""
        return self._sheet.height

    def batches(self, wanted: Mapping[Input, str]) -> Iterator[RawBatch]:
        """Yield the rows, all at once."""
        if self._sheet.height:
            yield frame_as_text(select_wanted(self._sheet.drop(_ROW), wanted))

    def places(self, rows: Collection[int]) -> dict[int, str]:
        """Return `row 7` as the spreadsheet counts, the header being row 1."""
        numbers = self._sheet[_ROW]
        return {row: f"row {numbers[row]}" for row in rows}

    def _read(self, header: int) -> pl.DataFrame:
        return pl.read_excel(
            self._path, infer_schema_length=None, drop_empty_rows=False, drop_empty_cols=False, raise_if_empty=False,
            read_options={"header_row": header},
        )  # fmt: skip

    @cached_property
    def _sheet(self) -> pl.DataFrame:
        try:
            with zipfile.ZipFile(self._path) as packed:
                size = sum(one.file_size for one in packed.infolist())
        except (zipfile.BadZipFile, OSError) as error:
            raise UnreadableFileError(f"{self._path} cannot be read as XLSX: {first_line(error)}") from error
        if size > MAX_UNPACKED_BYTES:
            detail = f"{self._path} unpacks to more than {MAX_UNPACKED_BYTES:,} bytes: save it as CSV"
            raise FileTooLargeError(detail, extensions={"limit": MAX_UNPACKED_BYTES})
        try:
            import fastexcel  # noqa: PLC0415  an extra
        except ImportError:
            raise BadInputError(
                f"{self._path}: spreadsheets need the extra xlsx (pip install 'stable-arena[xlsx]'), or save it as CSV"
            ) from None
        try:
            sheet, header = self._read(0), 0
            titled = sum(not name.startswith(_UNNAMED) for name in sheet.columns) <= OF_A_TITLE
            if titled and (below := [i for i, row in enumerate(sheet.head(LOOKED_AT).rows()) if _is_header(row)]):
                header = below[0] + 1
                sheet = self._read(header)
        except (*UNREADABLE, ValueError, fastexcel.FastExcelError) as error:
            raise UnreadableFileError(f"{self._path} cannot be read as XLSX: {first_line(error)}") from error
        blank = pl.all_horizontal(pl.all().is_null()) if sheet.width else pl.lit(value=True)
        return (
            sheet.with_columns(blank=blank)
            .with_row_index(_ROW, offset=2 + header)
            .filter(~pl.col("blank"))
            .drop("blank")
        )


_ROW, _UNNAMED = "row of the sheet", "__UNNAMED__"


def _is_header(row: Sequence[object]) -> bool:
    return sum(value is not None for value in row) >= FEWEST_NAMES
