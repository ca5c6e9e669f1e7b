"""Rows of a table as CSV or Parquet."""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from app.errors import BadInputError

if TYPE_CHECKING:
    import polars as pl

Rows = Iterable[Mapping[str, Any]]

_TYPES: dict[str, Any] = {
    **dict.fromkeys(("organization", "license", "link", "tied_with", "tag", "reason"), str),
    **dict.fromkeys(("tied", "provisional"), bool),
    **dict.fromkeys(("votes", "wins", "ties", "losses", "rank_set_best", "rank_set_worst"), int),
}
_AT_ONCE = 1_000  # rows that polars takes in one call, in which no other thread runs
MAX_SHEET_ROWS = 1_048_575
"""Rows of a sheet below its header."""

FORMULA = r"^[=+\-@\t\r'\uff1d\uff0b\uff0d\uff20\ufeff\u200b]"
"""Texts that a spreadsheet reads as formulas, and texts that begin with an apostrophe; also for PostgreSQL and polars.

Some spreadsheets take the full-width signs for the ASCII ones, and pass over a byte order mark or a zero-width space.
"""
_begins_formula = re.compile(FORMULA).match


def rows_csv(rows: Rows, columns: Sequence[str] = ()) -> bytes:
    """Return the rows as CSV, with an apostrophe before each text that `FORMULA` matches.

    A file without rows has the given columns.
    """
    safe = ({key: _no_formula(value) for key, value in row.items()} for row in rows)
    buffer = io.BytesIO()
    _frame(safe, columns).write_csv(buffer)
    return buffer.getvalue()


def rows_parquet(rows: Rows, columns: Sequence[str] = ()) -> bytes:
    """Return the rows as a Parquet file. A file without rows has the given columns."""
    buffer = io.BytesIO()
    _frame(rows, columns).write_parquet(buffer)
    return buffer.getvalue()


def rows_xlsx(rows: Rows, columns: Sequence[str] = ()) -> bytes:
    """Return the rows as a spreadsheet, texts as texts: none is a formula. A file without rows has the given columns.

    Raises BadInputError: the extra `xlsx` is not installed, or there are more rows than a sheet has.
    """
    return frame_xlsx(_frame(rows, columns))


ROW_FILES = {"csv": rows_csv, "parquet": rows_parquet, "xlsx": rows_xlsx}
"""The function that makes a file of rows, by format."""


def frame_xlsx(frame: "pl.DataFrame") -> bytes:
    """Return a table as `rows_xlsx` does."""
    try:
        import xlsxwriter  # noqa: PLC0415  an extra
    except ImportError:
        raise BadInputError("spreadsheets need the extra xlsx: pip install 'stable-arena[xlsx]'") from None
    if frame.height > MAX_SHEET_ROWS:
        raise BadInputError(f"a sheet has at most {MAX_SHEET_ROWS:,} rows, not {frame.height:,}: choose csv or parquet")
    buffer = io.BytesIO()
    plain = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False, "in_memory": True}
    with xlsxwriter.Workbook(buffer, plain) as book:
        frame.write_excel(book)
    return buffer.getvalue()


def _frame(rows: Rows, columns: Sequence[str]) -> "pl.DataFrame":
    import polars as pl  # noqa: PLC0415  slow to import, and servers start without it

    remaining = iter(rows)
    parts = [pl.DataFrame(part, infer_schema_length=None) for part in iter(lambda: _take(remaining), [])]
    if not parts:
        return pl.DataFrame(schema={name: _type_of(name, str) for name in columns})
    frame = pl.concat(parts, how="diagonal_relaxed")
    missing = [name for name, kind in frame.schema.items() if kind == pl.Null]
    return frame.with_columns(pl.col(name).cast(_type_of(name, float)) for name in missing)


def _type_of(column: str, otherwise: type) -> type:
    """Return the type of a column that has no value in any row."""
    return int if column.endswith("rank") else _TYPES.get(column, otherwise)


def _take(rows: Iterator[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [dict(row) for row in islice(rows, _AT_ONCE)]


def _no_formula(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and _begins_formula(value) else value
