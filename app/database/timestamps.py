"""Dates and times as callers may write them: text as RFC 3339 has it, and nothing that could be taken for one."""

import re
from datetime import UTC, date, datetime
from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 30, tzinfo=UTC)
"""The last moment that is in the year 9999 whatever the time zone, and so the last that every reader can take."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}.*", re.DOTALL)


def _day(value: object) -> object:
    return _written(value, _DAY, "a day must be written like 2026-01-31")


def _moment(value: object) -> object:
    return _written(value, _MOMENT, "a moment must be written like 2026-01-31T12:00:00Z")


def _written(value: object, form: re.Pattern[str], complaint: str) -> object:
    """Return what is no text or number as it is; a number would be taken for seconds since 1970."""
    if isinstance(value, (int, float)) or (isinstance(value, str) and form.fullmatch(value.strip()) is None):
        raise ValueError(complaint)
    return value


Day = Annotated[date, BeforeValidator(_day)]
Moment = Annotated[AwareDatetime, BeforeValidator(_moment)]


def storable_moment(moment: datetime) -> bool:
    """Whether a moment has a time zone and lies where PostgreSQL and every reader can take it."""
    return moment.tzinfo is not None and EARLIEST <= moment <= LATEST
