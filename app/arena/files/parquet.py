"""Parquet files: typed columns, so what is no text is turned to text or refused column by column."""

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import polars as pl

from app.arena.files.schemas import Input
from app.arena.files.sources import UNREADABLE, RawBatch, first_line
from app.arena.files.text_values import text_of
from app.errors import BadInputError

ROWS_PER_BATCH = 50_000


class ParquetSource:
    """A Parquet file."""

    kind = "parquet"

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def columns(self) -> list[str]:
        """The columns' names."""
        return self._schema.names()

    def has(self, column: str) -> bool:
        """Whether there is such a column, or something at such a path inside one."""
        return _reach(self._schema, column) is not None

    def count(self) -> int:
        """Return the number of rows."""
        try:
            return int(pl.scan_parquet(self._path, glob=False).select(pl.len()).collect().item())
        except UNREADABLE as error:
            raise self._explained(error) from error

    def batches(self, wanted: Mapping[Input, str]) -> Iterator[RawBatch]:
        """Yield the rows in order; numbers and moments become text, other types are refused value by value."""
        found = {name: _reach(self._schema, column) for name, column in wanted.items()}
        nothing = pl.lit(None, pl.String)
        try:
            scan = pl.scan_parquet(self._path, glob=False)
            columns = [(nothing if value is None else value).alias(name) for name, value in found.items()]
            for batch in scan.select(columns).collect_batches(chunk_size=ROWS_PER_BATCH):
                yield _as_text(batch)
        except UNREADABLE as error:
            raise self._explained(error) from error

    def places(self, rows: Collection[int]) -> dict[int, str]:
        """Return `row 7` (from 0) for the rows with these numbers."""
        return {row: f"row {row}" for row in rows}

    @cached_property
    def _schema(self) -> pl.Schema:
        try:
            return pl.scan_parquet(self._path, glob=False).collect_schema()
        except UNREADABLE as error:
            raise self._explained(error) from error

    def _explained(self, error: BaseException) -> BadInputError:
        return BadInputError(f"{self._path} cannot be read as Parquet: {first_line(error)}")


def _as_text(frame: pl.DataFrame) -> RawBatch:
    columns: dict[Input, pl.Series] = {}
    unusable: dict[Input, dict[int, str]] = {}
    name: Input
    for name in frame.columns:  # type: ignore[assignment]  # they were named so when they were selected
        columns[name], why = _column_text(name, frame[name])
        if why:
            unusable[name] = why
    return RawBatch(pl.DataFrame(list(columns.values())), unusable)


def _column_text(name: Input, values: pl.Series) -> tuple[pl.Series, dict[int, str]]:
    """Return the column as text (or moments) and why some rows are not."""
    dtype = values.dtype
    if name == "voted_at" and dtype.is_temporal() and dtype in (pl.Datetime, pl.Date):
        return _as_utc(values), {}
    if dtype == pl.String:
        return values, {}
    if dtype in (pl.Categorical, pl.Enum) or dtype.is_integer():
        return values.cast(pl.String), {}
    convert, texts, why = text_of(name), list[str | None](), dict[int, str]()
    for row, value in enumerate(values.to_list()):
        try:
            texts.append(convert(value))
        except ValueError as error:
            texts.append(None)
            why[row] = str(error)
    return pl.Series(name, texts, pl.String), why


def _as_utc(values: pl.Series) -> pl.Series:
    moments = values.cast(pl.Datetime("us", getattr(values.dtype, "time_zone", None)))
    if moments.dtype.time_zone is None:  # type: ignore[attr-defined]  # it was just cast to Datetime
        return moments.dt.replace_time_zone("UTC")
    return moments.dt.convert_time_zone("UTC")


def _reach(schema: pl.Schema, path: str) -> pl.Expr | None:
    """Return how to get at a column, or into one by a path such as `data.rating`; None where there is nothing."""
    if path in schema:
        return pl.col(path)
    name, *parts = path.split(".")
    if name not in schema:
        return None
    found, dtype = pl.col(name), cast("Any", schema[name])
    for part in parts:
        if isinstance(dtype, pl.Struct) and part in (inner := {field.name: field.dtype for field in dtype.fields}):
            found, dtype = found.struct.field(part), inner[part]
        elif isinstance(dtype, pl.List) and part.isdecimal():
            found, dtype = found.list.get(int(part), null_on_oob=True), dtype.inner
        else:
            return None
    return found
