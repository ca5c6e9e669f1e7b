"""When a vote was cast, from the ways in which files write it, as moments in UTC."""

import re
from datetime import UTC, datetime
from typing import Literal

import polars as pl

MOMENT = pl.Datetime("us", "UTC")
LATEST_SECOND = datetime(9999, 12, 31, tzinfo=UTC).timestamp()

_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def parse_moments(values: pl.Series, clock: Literal["iso", "seconds"]) -> pl.Series:
    """Return the moments, null where the text is empty or none; a moment without an offset is in UTC."""
    if values.dtype == MOMENT:
        return values
    if clock == "seconds":
        seconds = values.cast(pl.Float64, strict=False)
        micros = seconds.set(~seconds.is_between(0, LATEST_SECOND).fill_null(value=False), None) * 1e6
        return micros.round().cast(pl.Int64).cast(MOMENT)
    texts = values.unique().to_list()
    moments = {text: _iso_moment(text) for text in texts if text is not None}
    return values.replace_strict(moments, default=None, return_dtype=MOMENT) if moments else values.cast(MOMENT)


def _iso_moment(text: str) -> datetime | None:
    if not _ISO_DATE.match(text):  # fromisoformat would take some plain numbers for dates
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
