"""Parses the time of a vote, in the notations of vote files, to timestamps in UTC."""

import re
from datetime import UTC, datetime
from typing import Any, cast

import polars as pl

from app.database.timestamps import EARLIEST, LATEST
from app.imports.formats.days import DayOrder, epoch_microseconds, slashed_texts
from app.imports.formats.schemas import Clock

TIMESTAMP = pl.Datetime("us", "UTC")
OUTSIDE = "must lie between the years 1970 and 9999"

_CLOCKS: dict[Clock, str] = {
    "iso": "ISO 8601 such as 2026-01-31T12:00:00Z",
    "seconds": "seconds since 1970",
    "either": "ISO 8601 such as 2026-01-31T12:00:00Z, or seconds since 1970",
}
_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_SECONDS_A_DAY = 86_400
_LARGEST = 2**63 - 1

_USUAL = r"^[12]\d{3}-\d\d-\d\d[T ]\d\d:[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?$"
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def parse_timestamps(values: pl.Series, clock: Clock, order: DayOrder | None = None) -> pl.Series:
    """Return the timestamps, null where the text is empty, not a timestamp, or one that cannot be stored.

    A timestamp without an offset is in UTC. A column of type `TIMESTAMP` is returned unchanged. `order` is that of day
    and month in dates such as 03/25/2026.
    """
    if values.dtype == TIMESTAMP:
        return values
    timestamps = _as_described(values, clock)
    left = timestamps.is_null() & values.is_not_null() & (values != "")
    if not left.any():
        return timestamps
    rest = values.filter(left)
    others = pl.Series(values.name, [None], TIMESTAMP).new_from_index(0, len(rest))
    if clock == "iso":  # a format whose times are numbers says in which unit
        others = epoch_microseconds(rest).cast(TIMESTAMP)
    if order is not None and clock != "seconds":
        others = others.fill_null(_usual_timestamps(slashed_texts(rest, order).rename(values.name)))
    others = others.set(~others.is_between(EARLIEST, LATEST).fill_null(value=True), None)
    return timestamps.scatter(left.arg_true(), others)


def _as_described(values: pl.Series, clock: Clock) -> pl.Series:
    if clock == "either":
        return _as_described(values, "iso").fill_null(_as_described(values, "seconds"))
    if clock == "seconds":
        seconds = values.cast(pl.Float64, strict=False)
        micros = seconds.set(~seconds.is_between(0, LATEST.timestamp()).fill_null(value=False), None) * 1e6
        return micros.round().cast(pl.Int64).cast(TIMESTAMP)
    timestamps = _usual_timestamps(values)
    unusual = values.filter(timestamps.is_null()).unique().to_list()
    others = {text: _iso_timestamp(text) for text in unusual if text is not None}
    if others:
        timestamps = timestamps.fill_null(values.replace_strict(others, default=None, return_dtype=TIMESTAMP))
    storable = timestamps.is_between(EARLIEST, LATEST)
    return timestamps if storable.all() else timestamps.set(~storable, None)


def timestamp_fault(text: str, clock: Clock) -> str:
    """Return why `parse_timestamps` does not accept a text, to be put after the text."""
    if clock != "seconds" and _iso_timestamp(text) is not None:
        return OUTSIDE
    return f"is not a timestamp ({_CLOCKS[clock]})"


def storable_timestamps(values: pl.Series) -> tuple[pl.Series, dict[int, str]]:
    """Return a column of dates or times as timestamps, and the errors by row; a time without a zone is in UTC.

    Works on the stored numbers: a column can have values that neither polars nor Python can represent.
    """
    if values.dtype == pl.Date:
        numbers, per_second, seconds = values.to_physical().cast(pl.Int64), 1, _SECONDS_A_DAY
    else:  # with a zone or without, the numbers count from 1970 in UTC
        numbers, per_second, seconds = values.to_physical(), _PER_SECOND[cast("Any", values.dtype).time_unit], 1
    latest = int(LATEST.timestamp()) * per_second // seconds
    outside = ~numbers.is_between(0, min(latest, _LARGEST)).fill_null(value=True)
    if outside.any():
        numbers = numbers.set(outside, None)
    micros = (
        numbers * (seconds * 1_000_000 // per_second)
        if per_second < _PER_SECOND["us"]
        else numbers // (per_second // _PER_SECOND["us"])
    )
    return micros.cast(TIMESTAMP), dict.fromkeys(outside.arg_true(), OUTSIDE)


def _usual_timestamps(values: pl.Series) -> pl.Series:
    """Return the timestamps of texts in the usual notation, all at once; null for other texts."""
    if values.null_count() == len(values):
        return values.cast(TIMESTAMP)
    text = pl.col(values.name)
    offset = pl.when(text.str.contains(r"\d$") & ~text.str.contains(r"[+-]\d\d:\d\d$"))
    complete = pl.concat_str(
        text.str.slice(0, 10), pl.lit(" "), text.str.slice(11).str.strip_chars_end("Z"),
        offset.then(pl.lit("+00:00")).when(text.str.ends_with("Z")).then(pl.lit("+00:00")).otherwise(pl.lit("")),
    )  # fmt: skip
    timestamp = complete.str.to_datetime("%Y-%m-%d %H:%M:%S%.f%:z", time_unit="us", strict=False)
    usual = pl.when(text.str.contains(_USUAL)).then(timestamp)
    return values.to_frame().select(usual.cast(TIMESTAMP).alias(values.name)).to_series()


def _iso_timestamp(text: str) -> datetime | None:
    if not _ISO_DATE.match(text):  # fromisoformat accepts some plain numbers as dates
        return None
    try:
        timestamp = datetime.fromisoformat(text)
        return timestamp.astimezone(UTC) if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
