"""How numbers and times are written in sentences for people."""

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
MINUS = "\N{MINUS SIGN}"


def count(value: float) -> str:
    """Write a whole number with separators: 7,393."""
    return f"{round(value):,}".replace("-", MINUS)


def points(value: float | None, digits: int = 0) -> str:
    """Write Elo points, or an ability: 1,043, −0.25, never −0; a dash where there are none."""
    return "–" if value is None else f"{value:z,.{digits}f}".replace("-", MINUS)


def change(value: float, digits: int = 0) -> str:
    """Write a difference with its sign: +12, −3."""
    return f"{value:+z,.{digits}f}".replace("-", MINUS)


def percent(value: float | None, digits: int = 0) -> str:
    """Write a share: 0.613 as 61%."""
    return "–" if value is None else f"{value:.{digits}%}"


def plural(value: int, one: str, many: str | None = None) -> str:
    """Write a number with its noun: 1 vote, 7,393 votes."""
    return f"{count(value)} {one if value == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """Write how long something takes or took: 45 seconds, 3 minutes, 5 hours, 2 days."""
    for size, name in ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute")):
        if seconds >= size:
            return plural(int(seconds // size), name)
    return plural(max(int(seconds), 0), "second")


def listed(names: list[str], most: int = 3) -> str:
    """Write names in a sentence: a, b and c; of many the first, and how many more there are."""
    rest = len(names) - most
    shown = names[:most] if rest > 0 else names[:-1]
    last = f"{count(rest)} more" if rest > 0 else names[-1]
    return f"{', '.join(shown)} and {last}" if shown else last
