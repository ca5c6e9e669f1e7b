"""Rows of a table as CSV or Parquet."""

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

Rows = Sequence[Mapping[str, Any]]

_TYPES = {
    **dict.fromkeys(("organization", "license", "link", "tied_with", "tag"), pl.String),
    "tied": pl.Boolean,
    **dict.fromkeys(("rank", "best_rank", "worst_rank", "rank_set_best", "rank_set_worst", "class_rank"), pl.Int64),
}
FORMULA = r"^[=+\-@\t\r']"
"""Texts that a spreadsheet reads as formulas, and texts that begin with an apostrophe; also for PostgreSQL."""


def rows_csv(rows: Rows, columns: Sequence[str] = ()) -> bytes:
    """Return the rows as CSV, with an apostrophe before each text that `FORMULA` matches.

    A file without rows has the given columns.
    """
    safe = [{key: _no_formula(value) for key, value in row.items()} for row in rows]
    return _frame(safe, columns).write_csv().encode()


def rows_parquet(rows: Rows, columns: Sequence[str] = ()) -> bytes:
    """Return the rows as a Parquet file. A file without rows has the given columns."""
    buffer = io.BytesIO()
    _frame(rows, columns).write_parquet(buffer)
    return buffer.getvalue()


def _frame(rows: Rows, columns: Sequence[str]) -> pl.DataFrame:
    if not rows:
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    frame = pl.DataFrame([dict(row) for row in rows], infer_schema_length=None)
    # A column that is null in every row becomes a number, except these.
    typed = [pl.col(name).cast(kind) for name, kind in _TYPES.items() if name in frame.columns]
    return frame.with_columns(*typed).with_columns(pl.col(pl.Null).cast(pl.Float64))


def _no_formula(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and re.match(FORMULA, value) else value
