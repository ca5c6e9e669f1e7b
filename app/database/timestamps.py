"""Dates and timestamps as requests write them: text in the form of RFC 3339, never a number."""

import re
from datetime import UTC, date, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BeforeValidator

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 30, tzinfo=UTC)
"""The last time that lies in the year 9999 in every time zone, so that every reader can take it."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}.*", re.DOTALL)


def _date_text(value: object) -> object:
    return _written(value, _DATE, "must be a date like 2026-01-31")


def _timestamp_text(value: object) -> object:
    return _written(value, _TIMESTAMP, "must be a timestamp like 2026-01-31T12:00:00Z")


def _written(value: object, form: re.Pattern[str], message: str) -> object:
    """Return the value, unless it is a number or other text: pydantic would read a number as seconds since 1970."""
    if isinstance(value, (int, float)) or (isinstance(value, str) and form.fullmatch(value.strip()) is None):
        raise ValueError(message)
    return value


def _in_range(value: datetime) -> datetime:
    if not EARLIEST <= value <= LATEST:
        raise ValueError("must lie between the years 1970 and 9999")
    return value


Day = Annotated[date, BeforeValidator(_date_text)]
Timestamp = Annotated[AwareDatetime, BeforeValidator(_timestamp_text)]
StorableTimestamp = Annotated[Timestamp, AfterValidator(_in_range)]
"""A timestamp that PostgreSQL can store and every reader can take."""


def from_midnight(text: str) -> str:
    """Return a date as the timestamp at which it begins in UTC, and other text as it is."""
    return f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text
