"""Times in rarer notations, one text at a time: 2026/01/06 8:15 AM GMT+1, 20260106, those of mails and spreadsheets."""

import re
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

SERIAL = (20_000.0, 80_000.0)
"""Days since the end of 1899, as spreadsheets count them: of 1954 to 2119."""
_FIRST = datetime(1899, 12, 30, tzinfo=UTC)
_HALF = 12

_YEAR_FIRST = re.compile(
    r"(\d{4})([-/.]?)(\d{1,2})\2(\d{1,2})"
    r"(?:[T ,]+(\d{1,2}):?(\d\d)(?::?(\d\d)(?:[.,](\d{1,6})\d*)?)?\s*(?:([AaPp])\.?[Mm]\.?)?)?"
    r"\s*(?:UTC|GMT|Z)?\s*(?:([+-])(\d{1,2})(?::?(\d\d))?)?"
)
_NUMBER = re.compile(r"\d{5}(\.\d+)?")


def read_other_time(text: str) -> datetime | None:
    """Return the time in UTC; None for a text that is none."""
    text = text.strip()
    try:
        if _NUMBER.fullmatch(text) and SERIAL[0] <= float(text) < SERIAL[1]:
            return _FIRST + timedelta(seconds=round(float(text) * 86_400))
        if found := _YEAR_FIRST.fullmatch(text):
            return _year_first(found)
        if "," in text or text.count(" ") > 2:  # noqa: PLR2004  day, month, year, time
            moment = parsedate_to_datetime(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError, TypeError):
        pass
    return None


def _year_first(found: re.Match[str]) -> datetime | None:
    year, mark, month, day, hour, minute, second, fraction, half, sign, hours, minutes = found.groups()
    if not mark and (len(month) < 2 or len(day) < 2):  # noqa: PLR2004  20260106
        return None
    clock = int(hour or 0)
    if half is not None:
        if not 1 <= clock <= _HALF:
            return None
        clock = clock % _HALF + (_HALF if half in "pP" else 0)
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    micro = int((fraction or "0").ljust(6, "0"))
    moment = datetime(int(year), int(month), int(day), clock, int(minute or 0), int(second or 0), micro)  # noqa: DTZ001  its zone follows
    return moment.replace(tzinfo=timezone(offset)).astimezone(UTC)
