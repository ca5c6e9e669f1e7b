from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from sqlalchemy import Connection

from app.database.engine import database_time
from app.database.leases import lease_is_free, seconds_until_free
from app.policy.service import current_policy
from app.refits.queries import (
    ImportsSince,
    imports_since_refit,
    last_ended,
    refit_is_queued,
    refit_is_running,
)
from app.snapshots.first_leaderboard import read_first_leaderboard_needs
from app.snapshots.freshness import next_refit_due_at
from app.snapshots.queries import newest_snapshot
from app.snapshots.vote_sets import new_votes_since

REFIT_LEASE = "refit"
IMPORT_LEASE = "imports"
"""Held by the process that imports votes."""

Trigger = Literal["schedule", "import", "votes"]

_LONGEST_WAIT = timedelta(minutes=30)
"""How long a refit that is due waits for imports, from when the first of them began."""


class _Due(NamedTuple):
    """Why a refit is due now, None if it is not; and when the next one by schedule is, in seconds from now."""

    trigger: Trigger | None
    seconds: float | None = None


def seconds_until_work(conn: Connection) -> float | None:
    """Return when a worker has something to do, in seconds from now; None if that is not known.

    It is 0 for a refit that was requested, is due, or was left behind by a lost worker. While a refit runs, it is when
    its lease ends if it is not renewed; otherwise when the next refit by schedule is due, if there is something new.
    """
    if refit_is_queued(conn):
        return 0.0
    if refit_is_running(conn):
        return seconds_until_free(conn, REFIT_LEASE)
    due = _find_due(conn)
    return due.seconds if due.trigger is None else 0.0


def refit_can_begin(conn: Connection, *, scheduled: bool) -> bool:
    """Whether a refit was requested or, with `scheduled`, is due, and no process runs another one."""
    if not lease_is_free(conn, REFIT_LEASE):
        return False
    return refit_is_queued(conn) or (scheduled and due_trigger(conn) is not None)


def due_trigger(conn: Connection) -> Trigger | None:
    """Return why a refit is due now, None if it is not.

    schedule: the last refit ended `refit_interval_seconds` ago or longer, and there is something new that the newest
    snapshot has not seen (a vote, a decision, a policy). import: an import has ended since the last refit began. votes:
    the last refit published, and `refit_after_votes` new votes have come in since. Before the first snapshot: there are
    the annotators and votes that it needs. While an import runs, half an hour at most, nothing is due.
    """
    return _find_due(conn).trigger


def _find_due(conn: Connection) -> _Due:
    policy = current_policy(conn).settings
    ended, now, snapshot = last_ended(conn), database_time(conn), newest_snapshot(conn)
    imported = imports_since_refit(conn)
    if imported.running and not lease_is_free(conn, IMPORT_LEASE) and _is_patient(imported, now):
        return _Due(None)
    if snapshot is None:
        resting = ended is not None and ended.at + timedelta(seconds=policy.refit_interval_seconds) > now
        due = (imported.ended or not resting) and read_first_leaderboard_needs(conn, policy).met
        return _Due(("import" if resting else "schedule") if due else None)
    due_at = next_refit_due_at(
        conn, policy, snapshot["vote_set"], last_ended_at=None if ended is None else ended.at, now=now
    )
    if due_at is None:
        return _Due(None)
    left = (due_at - now).total_seconds()
    if left <= 0 or imported.ended:
        return _Due("schedule" if left <= 0 else "import")
    if ended is None or ended.state != "done" or policy.refit_after_votes is None:
        return _Due(None, left)
    enough = new_votes_since(conn, snapshot["vote_set"]) >= policy.refit_after_votes
    return _Due("votes" if enough else None, left)


def _is_patient(imported: ImportsSince, now: datetime) -> bool:
    return imported.began is not None and now - imported.began < _LONGEST_WAIT
