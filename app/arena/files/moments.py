"""When a vote was cast, from the ways in which files write it, as moments in UTC."""

import re
from datetime import UTC, datetime

import polars as pl

from app.arena.files.schemas import Clock

MOMENT = pl.Datetime("us", "UTC")
LATEST_SECOND = datetime(9999, 12, 31, tzinfo=UTC).timestamp()

_USUAL = r"^[12]\d{3}-\d\d-\d\d[T ]\d\d:[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?$"
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def parse_moments(values: pl.Series, clock: Clock) -> pl.Series:
    """Return the moments, null where the text is empty or none; a moment without an offset is in UTC."""
    if values.dtype == MOMENT:
        return values
    if clock == "either":
        return parse_moments(values, "iso").fill_null(parse_moments(values, "seconds"))
    if clock == "seconds":
        seconds = values.cast(pl.Float64, strict=False)
        micros = seconds.set(~seconds.is_between(0, LATEST_SECOND).fill_null(value=False), None) * 1e6
        return micros.round().cast(pl.Int64).cast(MOMENT)
    moments = _usual_moments(values)
    unusual = values.filter(moments.is_null()).unique().to_list()
    others = {text: _iso_moment(text) for text in unusual if text is not None}
    return moments.fill_null(values.replace_strict(others, default=None, return_dtype=MOMENT)) if others else moments


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
