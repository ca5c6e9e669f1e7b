"""Rows as files that other programs read."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

Rows = Sequence[Mapping[str, Any]]

_TEXT = ("organization", "license", "link")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def rows_csv(rows: Rows) -> bytes:
    """Return the rows as CSV; texts that a spreadsheet would take for a formula get an apostrophe in front."""
    safe = [{key: _no_formula(value) for key, value in row.items()} for row in rows]
    return _frame(safe).write_csv().encode()


def rows_parquet(rows: Rows) -> bytes:
    """Return the rows as a Parquet file."""
    buffer = io.BytesIO()
    _frame(rows).write_parquet(buffer)
    return buffer.getvalue()


def _frame(rows: Rows) -> pl.DataFrame:
    frame = pl.DataFrame([dict(row) for row in rows], infer_schema_length=None)
    text = [pl.col(name).cast(pl.String) for name in _TEXT if name in frame.columns]
    # Of what is null in every row only these are texts; the rest are numbers.
    return frame.with_columns(*text).with_columns(pl.col(pl.Null).cast(pl.Float64))


def _no_formula(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value
