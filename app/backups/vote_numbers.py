"""Small numbers in place of a cluster's transaction numbers.

Another cluster counts transactions anew. There a row's `recorded_in` could lie in the future, and would be new to every
vote set. What matters of a transaction is only which vote sets saw it. A vote set `xmin:xmax:xip` draws lines on the
axis of transactions: at xmin, at xmax, and on both sides of each transaction in xip. All transactions between two lines
are seen by the same sets. So a transaction is numbered by the lines at or below it, and a vote set by those of its own
parts. Every vote set then sees exactly the rows that it saw before, and the numbers are few and small.
"""

from collections.abc import Iterable

FIRST = 3
"""PostgreSQL's first ordinary transaction number: 0 to 2 have meanings of their own."""


def dividing_lines(vote_sets: Iterable[str]) -> list[int]:
    """Return the lines of these vote sets (`pg_snapshot` text), in order.

    >>> dividing_lines(["10:12:10", "15:15:"])
    [10, 11, 12, 15]
    """
    lines: set[int] = set()
    for vote_set in set(vote_sets):
        first, end, running = vote_set.split(":")
        lines |= {int(first), int(end)}
        for transaction in filter(None, running.split(",")):
            lines |= {int(transaction), int(transaction) + 1}
    return sorted(lines)


def highest_number(lines: list[int]) -> int:
    """Return the highest number that a transaction gets. The vote sets of a new cluster must lie above it."""
    return FIRST + len(lines)


def numbered(transaction: str, lines: str) -> str:
    """Return in SQL the number of a transaction, as text; `lines` is an expression of type xid8[]."""
    return f"({FIRST} + width_bucket({transaction}, {lines}))::text"


def renamed(vote_set: str, lines: str) -> str:
    """Return in SQL a vote set in the new numbers; `vote_set` is an expression of type pg_snapshot."""
    first, end = (numbered(f"pg_snapshot_{part}({vote_set})", lines) for part in ("xmin", "xmax"))
    number = numbered("x", lines)
    running = f"SELECT string_agg({number}, ',' ORDER BY x) FROM pg_snapshot_xip({vote_set}) AS x"  # noqa: S608  columns
    return f"({first} || ':' || {end} || ':' || coalesce(({running}), ''))"
