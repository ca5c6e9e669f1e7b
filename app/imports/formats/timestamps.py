"""Parses the time of a vote, in the notations of vote files, to timestamps in UTC.

In dates such as 03/25/2026 the whole column shows which is the month; numbers count from 1970, by their size.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

import polars as pl

from app.database.timestamps import EARLIEST, LATEST
from app.errors import BadInputError
from app.imports.formats.options import DayOrder
from app.imports.formats.other_times import SERIAL, read_other_time
from app.imports.formats.schemas import Clock

TIMESTAMP = pl.Datetime("us", "UTC")
OUTSIDE = "must lie between the years 1970 and 9999"

_CLOCKS: dict[Clock, str] = {
    "iso": "ISO 8601 such as 2026-01-31T12:00:00Z",
    "seconds": "seconds since 1970",
    "either": "ISO 8601 such as 2026-01-31T12:00:00Z, or seconds since 1970",
}

_USUAL = r"^[12]\d{3}-\d\d-\d\d[T ]\d\d:[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?$"
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")

_MONTHS = 12
_DATE = r"^(\d{1,2})([/.-])(\d{1,2})[/.-](\d{4})"
_TIME = r"(?:[ T,]+(\d{1,2}):([0-5]\d)(?::([0-5]\d)(\.\d{1,6})?)?\s*([AaPp][Mm])?)?$"
_NAMES = ("first", "mark", "second", "year", "hour", "minute", "seconds", "fraction", "half")
_WORDS: dict[DayOrder, str] = {"mdy": "month/day/year", "dmy": "day/month/year"}
_EPOCH = ((1e8, 1e10, 1e6), (1e11, 1e13, 1e3), (1e14, 1e16, 1.0), (1e17, 1e19, 1e-3))
"""From, to, microseconds of one: seconds, milliseconds, microseconds and nanoseconds since 1970, of 1973 to 2286."""
EPOCH_WORDS = ("seconds", "milliseconds", "microseconds", "nanoseconds")


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
        others = others.fill_null(slashed_timestamps(rest, order))
    if clock != "seconds" and (unread := rest.filter(others.is_null()).unique().to_list()):
        found = {text: read_other_time(text) for text in unread}
        others = others.fill_null(rest.replace_strict(found, default=None, return_dtype=TIMESTAMP))
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

    Looks at the stored numbers first: a column can have values that neither polars nor Python can represent.
    """
    representable = values.dt.epoch("s").is_between(0, LATEST.timestamp()).fill_null(value=False)
    timestamps = values.set(~representable, None).cast(TIMESTAMP)
    timestamps = timestamps.set(timestamps > LATEST, None)
    return timestamps, dict.fromkeys((timestamps.is_null() & values.is_not_null()).arg_true(), OUTSIDE)


def _usual_timestamps(values: pl.Series) -> pl.Series:
    """Return the timestamps of texts in the usual notation, all at once; null for other texts."""
    if values.null_count() == len(values):
        return values.cast(TIMESTAMP)
    text = pl.col(values.name)
    zone = pl.when(~text.str.contains(r"[+-]\d\d:\d\d$")).then(pl.lit("+00:00")).otherwise(pl.lit(""))
    complete = pl.concat_str(text.str.slice(0, 10), pl.lit(" "), text.str.slice(11).str.strip_suffix("Z"), zone)
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


class DatesError(BadInputError):
    """The dates of a file cannot be told apart."""

    code = "dates"
    title = "The order of day and month is not clear"


def has_slashed(values: pl.Series) -> bool:
    """Whether a text is a date with numbers for day and month, which may stand in either order."""
    return values.dtype == pl.String and bool(values.str.contains(_DATE + _TIME).any())


def find_order(batches: Iterable[pl.Series]) -> tuple[DayOrder, str]:
    """Return the order of day and month in a column, and the date that shows it.

    Dates with dots begin with the day.

    Raises DatesError: no date shows the order, or two dates show different ones.
    """
    shown: dict[DayOrder | None, str] = {}
    first, second = pl.col("first").cast(pl.Int64), pl.col("second").cast(pl.Int64)
    day_first = (first > _MONTHS) | ((pl.col("mark") == ".") & (second <= _MONTHS))
    order = pl.when(day_first).then(pl.lit("dmy")).when(second > _MONTHS).then(pl.lit("mdy"))
    for values in batches:
        dates = _parts(values).filter(pl.min_horizontal(first, second) <= _MONTHS)  # others are no dates in any order
        for found, text in dates.group_by(order=order, maintain_order=True).agg(pl.first("text")).iter_rows():
            shown.setdefault(found, text)
    orders = {found: text for found, text in shown.items() if found is not None}
    if len(orders) > 1:
        raise DatesError(
            f"the dates {orders['mdy']!r} and {orders['dmy']!r} have day and month in different orders: write them as "
            "2026-01-31"
        )
    if orders:
        return next(iter(orders.items()))
    if not shown:
        return "mdy", ""
    raise DatesError(
        f"the date {shown[None]!r} may be month/day or day/month, and no other date shows which: give --dates mdy or "
        "--dates dmy (over HTTP dates=mdy), or write dates as 2026-01-31"
    )


def describe_order(order: DayOrder, shown_by: str | None) -> str:
    """Return how dates are read, for the user."""
    return f"dates are read as {_WORDS[order]}" + (f", because of {shown_by!r}" if shown_by else "")


def slashed_timestamps(values: pl.Series, order: DayOrder) -> pl.Series:
    """Return the times of such dates, in UTC; null for other texts, and for days and hours that there are not."""
    date = {"mdy": "%m/%d/%Y", "dmy": "%d/%m/%Y"}[order]
    time = [pl.col("hour").fill_null("0"), pl.col("minute").fill_null("00"), pl.col("seconds").fill_null("00")]
    text = pl.format("{}/{}/{} {}:{}:{}{}", "first", "second", "year", *time, pl.col("fraction").fill_null(""))
    of_day, of_half = (
        one.str.to_datetime(f"{date} {clock}", time_unit="us", time_zone="UTC", strict=False)
        for one, clock in ((text, "%H:%M:%S%.f"), (pl.format("{} {}", text, "half"), "%I:%M:%S%.f %p"))
    )
    found = pl.when(pl.col("half").is_null()).then(of_day).otherwise(of_half)
    return _parts(values).select(found.alias(values.name)).to_series()


def epoch_microseconds(values: pl.Series) -> pl.Series:
    """Return seconds, milliseconds, microseconds or nanoseconds since 1970, by their size; null for other texts."""
    number = pl.col("number")
    micros = pl.coalesce(
        pl.when((number >= least) & (number < most)).then(number * unit) for least, most, unit in _EPOCH
    )
    frame = values.cast(pl.Float64, strict=False).alias("number").to_frame()
    return frame.select(micros.round().cast(pl.Int64)).to_series()


def epoch_unit(text: str) -> str | None:
    """Return the unit in which a text counts since 1970, or the days of a spreadsheet; None for another text."""
    try:
        number = float(text)
    except ValueError:
        return None
    units = zip(_EPOCH, EPOCH_WORDS, strict=True)
    if SERIAL[0] <= number < SERIAL[1]:
        return "days of a spreadsheet, from 1900 on"
    return next((f"{word} since 1970" for (least, most, _), word in units if least <= number < most), None)


def _parts(values: pl.Series) -> pl.DataFrame:
    text = values.rename("text").to_frame()
    groups = pl.col("text").str.extract_groups(_DATE + _TIME).struct.rename_fields(list(_NAMES))
    return text.with_columns(groups.alias("parts")).unnest("parts")
