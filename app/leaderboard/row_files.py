"""Rows as files that other programs read."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

Rows = Sequence[Mapping[str, Any]]

_TYPES = {
    **dict.fromkeys(("organization", "license", "link", "tied_with", "tag"), pl.String),
    "tied": pl.Boolean,
    **dict.fromkeys(("rank", "best_rank", "worst_rank"), pl.Int64),
}
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def rows_csv(rows: Rows, columns: Sequence[str] = ()) -> bytes:
    """Return the rows as CSV; texts that a spreadsheet would take for a formula get an apostrophe in front.

    Without any row, the file has these columns.
    """
    safe = [{key: _no_formula(value) for key, value in row.items()} for row in rows]
    return _frame(safe, columns).write_csv().encode()


def rows_parquet(rows: Rows, columns: Sequence[str] = ()) -> bytes:
    """Return the rows as a Parquet file; without any row, one with these columns."""
    buffer = io.BytesIO()
    _frame(rows, columns).write_parquet(buffer)
    return buffer.getvalue()


def _frame(rows: Rows, columns: Sequence[str]) -> pl.DataFrame:
    if not rows:
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    frame = pl.DataFrame([dict(row) for row in rows], infer_schema_length=None)
    # What is null in every row is a number, except these.
    typed = [pl.col(name).cast(kind) for name, kind in _TYPES.items() if name in frame.columns]
    return frame.with_columns(*typed).with_columns(pl.col(pl.Null).cast(pl.Float64))


def _no_formula(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value
