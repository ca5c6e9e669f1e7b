"""Comparisons of snapshots that a process makes once and keeps, because those of a large crowd take long."""

import json
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from sqlalchemy import Connection

from app.leaderboard.cache import LeaderboardCache
from app.leaderboard.diff.moves import describe_moves
from app.leaderboard.diff.schemas import SnapshotDiff
from app.leaderboard.diff.service import compare_leaderboards, compare_snapshots, read_models
from app.leaderboard.service import find_row
from app.snapshots.schemas import LeaderboardMethod, Snapshot, SnapshotHead


def kept_comparison(
    conn: Connection,
    cache: LeaderboardCache,
    before: SnapshotHead,
    after: SnapshotHead,
    *,
    method: LeaderboardMethod = "am-elo",
) -> SnapshotDiff:
    """Compare two snapshots, as `compare_snapshots` does.

    Raises
    ------
    NoSuchLeaderboardError
    """

    def compare() -> bytes:
        return compare_snapshots(conn, str(before.id), str(after.id), method=method).model_dump_json().encode()

    key = ("diff", before.id, after.id, method, find_row(conn)["models_hash"])
    return SnapshotDiff.model_validate_json(cache.remember(key, compare))


def kept_moves(conn: Connection, cache: LeaderboardCache, snapshots: Sequence[Snapshot]) -> list[list[str]]:
    """Say in sentences what each snapshot moved, on the am-elo leaderboard, against the next of the sequence.

    Parameters
    ----------
    snapshots : the newest first; the last is compared with nothing
    """
    models_hash = find_row(conn)["models_hash"] if snapshots else ""

    def describe(before: Snapshot, after: Snapshot) -> bytes:
        old, new = read_models(conn, before), read_models(conn, after)
        return json.dumps(list(describe_moves(list(compare_leaderboards(old, new))))).encode()

    return [
        json.loads(cache.remember(("moves", before.id, after.id, models_hash), partial(describe, before, after)))
        for after, before in pairwise(snapshots)
    ]
