"""Parquet files: typed columns, so what is no text is turned to text or refused column by column."""

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path

import polars as pl

from app.arena.files.schemas import Field
from app.arena.files.sources import UNREADABLE, RawBatch, first_line, select_wanted
from app.arena.files.text_values import text_of
from app.errors import BadInputError

ROWS_PER_BATCH = 50_000


class ParquetSource:
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def columns(self) -> list[str]:
        """The columns' names."""
        try:
            return pl.scan_parquet(self._path, glob=False).collect_schema().names()
        except UNREADABLE as error:
            raise self._explained(error) from error

    def count(self) -> int:
        """Return the number of rows."""
        try:
            return int(pl.scan_parquet(self._path, glob=False).select(pl.len()).collect().item())
        except UNREADABLE as error:
            raise self._explained(error) from error

    def batches(self, wanted: Mapping[Field, str]) -> Iterator[RawBatch]:
        """Yield the rows in order; numbers and moments become text, other types are refused value by value."""
        present = [column for column in wanted.values() if column in self.columns]
        try:
            scan = pl.scan_parquet(self._path, glob=False).select(present)
            for batch in scan.collect_batches(chunk_size=ROWS_PER_BATCH):
                yield _as_text(select_wanted(batch, wanted))
        except UNREADABLE as error:
            raise self._explained(error) from error

    def places(self, rows: Collection[int]) -> dict[int, str]:
        """Return `row 7` (from 0) for the rows with these numbers."""
        return {row: f"row {row}" for row in rows}

    def _explained(self, error: BaseException) -> BadInputError:
        return BadInputError(f"{self._path} cannot be read as Parquet: {first_line(error)}")


def _as_text(frame: pl.DataFrame) -> RawBatch:
    columns: dict[Field, pl.Series] = {}
    unusable: dict[Field, dict[int, str]] = {}
    name: Field
    for name in frame.columns:  # type: ignore[assignment]  # select_wanted named them by field
        columns[name], why = _column_text(name, frame[name])
        if why:
            unusable[name] = why
    return RawBatch(pl.DataFrame(list(columns.values())), unusable)


def _column_text(name: Field, values: pl.Series) -> tuple[pl.Series, dict[int, str]]:
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
