"""How many votes a board lacks, counted with every look at it and hence from where the last count ended."""

from threading import Lock
from typing import NamedTuple

from sqlalchemy import Connection, text

_KEPT = 100  # sets of votes; boards of the past are rarely looked at

_COUNT = text(
    """
    SELECT count(*) AS votes,
        count(*) FILTER (WHERE pg_visible_in_snapshot(recorded_in, pg_current_snapshot())) AS seen,
        pg_current_snapshot()::text AS vote_set
    FROM votes
    WHERE recorded_in >= pg_snapshot_xmin(CAST(:vote_set AS pg_snapshot))
        AND NOT pg_visible_in_snapshot(recorded_in, CAST(:vote_set AS pg_snapshot))
    """
)


class _Counted(NamedTuple):
    """So many votes are in this set and not in the one asked about."""

    votes: int
    vote_set: str


class NewVotes:
    """Counts what `new_votes_since` does, to the vote, and remembers: votes are never deleted.

    A vote that came before the last look is not looked at again, so that a count costs as much after ten million new
    votes as after ten. May be used by several threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._counted: dict[str, _Counted] = {}

    def since(self, conn: Connection, vote_set: str) -> int:
        """Count the votes on record that `vote_set` did not see."""
        with self._lock:
            known = self._counted.get(vote_set, _Counted(0, vote_set))
        row = conn.execute(_COUNT, {"vote_set": known.vote_set}).one()
        # Votes of a database restored into another cluster may be visible and yet in no set: they are counted each
        # time. And where nothing came, this transaction may be older than the one that counted: its set is no news.
        if row.seen:
            with self._lock:
                if len(self._counted) >= _KEPT:
                    self._counted.clear()
                self._counted[vote_set] = _Counted(known.votes + row.seen, row.vote_set)
        return known.votes + int(row.votes)
