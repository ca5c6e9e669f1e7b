"""When a vote was cast, from the ways in which files write it, as moments in UTC."""

import re
from datetime import UTC, datetime
from typing import Any, cast

import polars as pl

from app.database.timestamps import EARLIEST, LATEST
from app.imports.formats.schemas import Clock

MOMENT = pl.Datetime("us", "UTC")
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


def parse_moments(values: pl.Series, clock: Clock) -> pl.Series:
    """Return the moments, null where the text is empty, none, or a moment that cannot be stored.

    A moment without an offset is in UTC. What is of type `MOMENT` already is returned as it is.
    """
    if values.dtype == MOMENT:
        return values
    if clock == "either":
        return parse_moments(values, "iso").fill_null(parse_moments(values, "seconds"))
    if clock == "seconds":
        seconds = values.cast(pl.Float64, strict=False)
        micros = seconds.set(~seconds.is_between(0, LATEST.timestamp()).fill_null(value=False), None) * 1e6
        return micros.round().cast(pl.Int64).cast(MOMENT)
    moments = _usual_moments(values)
    unusual = values.filter(moments.is_null()).unique().to_list()
    others = {text: _iso_moment(text) for text in unusual if text is not None}
    if others:
        moments = moments.fill_null(values.replace_strict(others, default=None, return_dtype=MOMENT))
    storable = moments.is_between(EARLIEST, LATEST)
    return moments if storable.all() else moments.set(~storable, None)


def moment_fault(text: str, clock: Clock) -> str:
    """Return what is wrong with a text of which `parse_moments` made nothing, to be put behind the text."""
    if clock != "seconds" and _iso_moment(text) is not None:
        return OUTSIDE
    return f"is no moment ({_CLOCKS[clock]})"


def storable_moments(values: pl.Series) -> tuple[pl.Series, dict[int, str]]:
    """Return a column of dates or times as moments, and why some rows are none; a time without a zone is in UTC.

    Told from the numbers behind them: most that a column can hold lie where neither polars nor Python can follow.
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
    return micros.cast(MOMENT), dict.fromkeys(outside.arg_true(), OUTSIDE)


def _usual_moments(values: pl.Series) -> pl.Series:
    """Return the moments of texts in the usual form, all at once; null for others, which may be moments too."""
    if values.null_count() == len(values):
        return values.cast(MOMENT)
    text = pl.col(values.name)
    offset = pl.when(text.str.contains(r"\d$") & ~text.str.contains(r"[+-]\d\d:\d\d$"))
    complete = pl.concat_str(
        text.str.slice(0, 10), pl.lit(" "), text.str.slice(11).str.strip_chars_end("Z"),
        offset.then(pl.lit("+00:00")).when(text.str.ends_with("Z")).then(pl.lit("+00:00")).otherwise(pl.lit("")),
    )  # fmt: skip
    moment = complete.str.to_datetime("%Y-%m-%d %H:%M:%S%.f%:z", time_unit="us", strict=False)
    usual = pl.when(text.str.contains(_USUAL)).then(moment)
    return values.to_frame().select(usual.cast(MOMENT).alias(values.name)).to_series()


def _iso_moment(text: str) -> datetime | None:
    if not _ISO_DATE.match(text):  # fromisoformat would take some plain numbers for dates
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
