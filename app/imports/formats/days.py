"""Dates such as 03/25/2026, in which the whole column shows which is the month, and counts of seconds."""

from collections.abc import Iterable
from typing import Literal

import polars as pl

from app.errors import BadInputError

DayOrder = Literal["mdy", "dmy"]

_MONTHS = 12
_DATE = r"^(\d{1,2})([/.-])(\d{1,2})[/.-](\d{4})"
_TIME = r"(?:[ T,]+(\d{1,2}):([0-5]\d)(?::([0-5]\d)(\.\d{1,6})?)?\s*([AaPp][Mm])?)?$"
_NAMES = ("first", "mark", "second", "year", "hour", "minute", "seconds", "fraction", "half")
_WORDS: dict[DayOrder, str] = {"mdy": "month/day/year", "dmy": "day/month/year"}
_EPOCH = ((1e8, 1e10, 1e6), (1e11, 1e13, 1e3), (1e14, 1e16, 1.0), (1e17, 1e19, 1e-3))
"""From, to, microseconds of one: seconds, milliseconds, microseconds and nanoseconds since 1970, of 1973 to 2286."""
EPOCH_WORDS = ("seconds", "milliseconds", "microseconds", "nanoseconds")


class DatesError(BadInputError):
    """The dates of a file cannot be told apart."""


def has_slashed(values: pl.Series) -> bool:
    """Whether a text is a date with numbers for day and month, which may stand in either order."""
    return values.dtype == pl.String and bool(values.str.contains(_DATE + _TIME).any())


def find_order(batches: Iterable[pl.Series]) -> tuple[DayOrder, str]:
    """Return the order of day and month in a column, and the date that shows it.

    Dates with dots begin with the day.

    Raises
    ------
    DatesError
        No date shows the order, or two dates show different ones.
    """
    shown: dict[DayOrder, str] = {}
    example = ""
    for values in batches:
        dates = _parts(values.drop_nulls()).filter(pl.col("first").is_not_null())
        first, second = pl.col("first").cast(pl.Int64), pl.col("second").cast(pl.Int64)
        dates = dates.filter(pl.min_horizontal(first, second) <= _MONTHS)  # others are no dates in either order
        if dates.is_empty():
            continue
        example = example or dates["text"][0]
        day_first = (first > _MONTHS) | ((pl.col("mark") == ".") & (second <= _MONTHS))
        rules: tuple[tuple[DayOrder, pl.Expr], ...] = (("dmy", day_first), ("mdy", second > _MONTHS))
        for order, rule in rules:
            found = dates.filter(rule)
            if order not in shown and found.height:
                shown[order] = found["text"][0]
    if len(shown) > 1:
        raise DatesError(
            f"the dates {shown['mdy']!r} and {shown['dmy']!r} have day and month in different orders: write them as "
            "2026-01-31"
        )
    if not example:
        return "mdy", ""
    if not shown:
        raise DatesError(
            f"the date {example!r} may be month/day or day/month, and no other date shows which: give --dates mdy or "
            "--dates dmy (over HTTP dates=mdy), or write dates as 2026-01-31"
        )
    return next(iter(shown.items()))


def describe_order(order: DayOrder, shown_by: str | None) -> str:
    """Return how dates are read, for the user."""
    return f"dates are read as {_WORDS[order]}" + (f", because of {shown_by!r}" if shown_by else "")


def slashed_texts(values: pl.Series, order: DayOrder) -> pl.Series:
    """Return such dates as `2026-03-25 14:30:00.5`; null for other texts."""
    day, month = ("second", "first") if order == "mdy" else ("first", "second")
    hour = pl.col("hour").cast(pl.Int64).fill_null(0)
    half = pl.col("half").str.to_lowercase()
    clock = pl.when(half == "pm").then(hour % 12 + 12).when(half == "am").then(hour % 12).otherwise(hour)
    padded = [pl.col(name).str.zfill(2) for name in (month, day)]
    time = [clock.cast(pl.String).str.zfill(2), pl.col("minute").fill_null("00"), pl.col("seconds").fill_null("00")]
    date = pl.concat_str(pl.col("year"), *padded, separator="-")
    whole = pl.concat_str(date, pl.lit(" "), pl.concat_str(time, separator=":"), pl.col("fraction").fill_null(""))
    impossible = half.is_not_null() & ~hour.is_between(1, 12)
    return (
        _parts(values)
        .select(pl.when(pl.col("first").is_not_null() & ~impossible.fill_null(value=False)).then(whole))
        .to_series()
    )


def epoch_microseconds(values: pl.Series) -> pl.Series:
    """Return seconds, milliseconds, microseconds or nanoseconds since 1970, by their size; null for other texts."""
    number = pl.col("number")
    micros = pl.coalesce(
        pl.when((number >= least) & (number < most)).then(number * unit) for least, most, unit in _EPOCH
    )
    frame = values.cast(pl.Float64, strict=False).alias("number").to_frame()
    return frame.select(micros.round().cast(pl.Int64)).to_series()


def epoch_unit(text: str) -> str | None:
    """Return the unit in which a text counts since 1970; None for another text."""
    try:
        number = float(text)
    except ValueError:
        return None
    units = zip(_EPOCH, EPOCH_WORDS, strict=True)
    return next((word for (least, most, _), word in units if least <= number < most), None)


def _parts(values: pl.Series) -> pl.DataFrame:
    text = values.rename("text").to_frame()
    groups = pl.col("text").str.extract_groups(_DATE + _TIME).struct.rename_fields(list(_NAMES))
    return text.with_columns(groups.alias("parts")).unnest("parts")
