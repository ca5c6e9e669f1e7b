"""Parquet files: converts typed columns to text, or refuses them."""

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import polars as pl

from app.imports.formats.errors import FileTooLargeError, UnreadableFileError
from app.imports.formats.expansion import MAX_EXPANDED_BYTES
from app.imports.formats.schemas import Input
from app.imports.formats.sources import UNREADABLE, RawBatch, check_columns, first_line
from app.imports.formats.timestamps import storable_timestamps
from app.imports.formats.values import convert_each, text_of

ROWS_PER_BATCH = 50_000
"""Rows that are decoded at once, however many a row group has: polars would decode whole groups, and read ahead."""

_INEXPRESSIBLE = object()
"""Marks a value that polars cannot convert to Python."""


class ParquetSource:
    """A Parquet file."""

    kind = "parquet"

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def columns(self) -> list[str]:
        """The columns' names; raises FileTooLargeError where there are too many, inside other columns too."""
        check_columns(self._path, sum(map(_count_columns, self._schema.dtypes())))
        return self._schema.names()

    def has(self, column: str) -> bool:
        """Whether there is the column, or a value at the path inside one."""
        return _reach(self._schema, column) is not None

    def count(self) -> int:
        """Return the number of rows."""
        try:
            return int(self._scan.select(pl.len()).collect().item())
        except UNREADABLE as error:
            raise self._explained(error) from error

    def batches(self, wanted: Mapping[Input, str]) -> Iterator[RawBatch]:
        """Yield the rows in order; numbers become text, and values of other types are refused one by one.

        Raises FileTooLargeError: they expand too much, as repeated values do, which take hardly any space in the file.
        """
        found = {name: _reach(self._schema, column) for name, column in wanted.items()}
        nothing = pl.lit(None, pl.String)
        rows = self._scan.select((nothing if value is None else value).alias(name) for name, value in found.items())
        size = 0
        for start in range(0, self.count(), ROWS_PER_BATCH):
            try:
                batch = rows.slice(start, ROWS_PER_BATCH).collect()
            except UNREADABLE as error:
                raise self._explained(error) from error
            size += int(batch.estimated_size())
            if size > MAX_EXPANDED_BYTES:
                detail = f"{self._path} expands to more than {MAX_EXPANDED_BYTES:,} bytes: write it as several files"
                raise FileTooLargeError(detail, extensions={"limit": MAX_EXPANDED_BYTES})
            yield frame_as_text(batch)

    def places(self, rows: Collection[int]) -> dict[int, str]:
        """Return `row 7` (from 0) for the rows with these numbers."""
        return {row: f"row {row}" for row in rows}

    @property
    def _scan(self) -> pl.LazyFrame:
        return pl.scan_parquet(self._path, glob=False)

    @cached_property
    def _schema(self) -> pl.Schema:
        try:
            return self._scan.collect_schema()
        except UNREADABLE as error:
            raise self._explained(error) from error

    def _explained(self, error: BaseException) -> UnreadableFileError:
        return UnreadableFileError(f"{self._path} cannot be read as Parquet: {first_line(error)}")


def _count_columns(dtype: Any) -> int:
    """Return how many columns of plain values a column has inside."""
    if isinstance(dtype, pl.Struct):
        return sum(_count_columns(field.dtype) for field in dtype.fields)
    return _count_columns(dtype.inner) if isinstance(dtype, pl.List | pl.Array) else 1


def frame_as_text(frame: pl.DataFrame) -> RawBatch:
    """Return typed columns as text (times as timestamps), with the errors of values that are none."""
    converted = {name: _column_text(name, frame[name]) for name in cast("list[Input]", frame.columns)}
    unusable = {name: why for name, (_, why) in converted.items() if why}
    return RawBatch(pl.DataFrame([texts for texts, _ in converted.values()]), unusable)


def _column_text(name: Input, values: pl.Series) -> tuple[pl.Series, dict[int, str]]:
    """Return the column as text (or timestamps), and the errors by row."""
    dtype = values.dtype
    if name == "voted_at" and dtype in (pl.Datetime, pl.Date):
        return storable_timestamps(values)
    if dtype.is_temporal():  # some values have no counterpart in Python
        kind = str(dtype.base_type()).lower()
        why = dict.fromkeys(values.is_not_null().arg_true(), f"must be text, is a {kind}")
        return pl.Series(name, [None], pl.String).new_from_index(0, len(values)), why
    if dtype == pl.String:
        return values, {}
    if dtype in (pl.Categorical, pl.Enum) or dtype.is_integer():
        return values.cast(pl.String), {}
    convert = text_of(name)
    texts, why = convert_each(_in_python(values), lambda value: convert(_expressible(value)))
    return pl.Series(name, texts, pl.String), why


def _expressible(value: object) -> object:
    if value is _INEXPRESSIBLE:
        raise ValueError("holds a timestamp or a duration that is out of all bounds")
    return value


def _in_python(values: pl.Series) -> list[object]:
    """Return the values, `_INEXPRESSIBLE` for those that Python cannot represent; bisects, because these are rare."""
    try:
        return values.to_list()
    except (ValueError, OverflowError, pl.exceptions.PanicException):
        if len(values) == 1:
            return [_INEXPRESSIBLE]
    middle = len(values) // 2
    return _in_python(values[:middle]) + _in_python(values[middle:])


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
