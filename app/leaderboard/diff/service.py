"""What moved between two snapshots, model by model."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection

from app.leaderboard.diff.schemas import AnnotatorChanges, Causes, RowChange, SnapshotDiff
from app.leaderboard.diff.sentences import describe_causes, describe_moves
from app.leaderboard.queries import count_annotator_changes
from app.leaderboard.schemas import LeaderboardRow
from app.leaderboard.service import check_leaderboard
from app.policy.service import find_policy
from app.snapshots.queries import list_placed_models
from app.snapshots.schemas import LeaderboardMethod, Snapshot, SnapshotHead
from app.snapshots.service import find_snapshot

_SHOWN = ("score", "rank", "component", "identified", "votes")


def compare_snapshots(
    conn: Connection, before: str, after: str, *, method: LeaderboardMethod = "am-elo"
) -> SnapshotDiff:
    """Compare one method's leaderboards of all votes in two snapshots, each named by id or number.

    Raises NotFoundError or NoSuchLeaderboardError.
    """
    old, new = find_snapshot(conn, before), find_snapshot(conn, after)
    models = list(compare_leaderboards(read_models(conn, old, method), read_models(conn, new, method)))
    causes = find_causes(conn, old, new)
    return SnapshotDiff(
        before=old,
        after=new,
        method=method,
        summary=[*describe_moves(models), *describe_causes(causes)],
        causes=causes,
        models=models,
    )


def list_moves(conn: Connection, snapshots: Sequence[SnapshotHead]) -> list[list[str]]:
    """Say in sentences what each snapshot moved, on the am-elo leaderboard, against the next of the sequence.

    `snapshots`: the newest first; the last is compared with nothing.
    """
    models = [read_models(conn, snapshot) for snapshot in snapshots]
    return [list(describe_moves(list(compare_leaderboards(old, new)))) for new, old in pairwise(models)]


def read_models(
    conn: Connection, snapshot: SnapshotHead, method: LeaderboardMethod = "am-elo"
) -> dict[str, LeaderboardRow]:
    """Return the models of a snapshot's leaderboard of all votes by name. Raises NoSuchLeaderboardError."""
    check_leaderboard(conn, snapshot, method)
    return {row["model"]: LeaderboardRow(**row) for row in list_placed_models(conn, snapshot.id, method)}


def compare_leaderboards(old: Mapping[str, LeaderboardRow], new: Mapping[str, LeaderboardRow]) -> Iterator[RowChange]:
    """Yield each model's change, in the order of the later leaderboard; models that left come last."""
    comparable = find_comparable(*({name: row.component for name, row in rows.items()} for rows in (old, new)))
    for model in [*new, *(model for model in old if model not in new)]:
        past, row = old.get(model), new.get(model)
        yield RowChange(
            model=model,
            kind="entered" if past is None else "left" if row is None else "stayed",
            comparable=None if past is None or row is None else model in comparable,
            **(_compare(past, row) if past and row and model in comparable else {}),
            **_figures(past, "before"),
            **_figures(row, "after"),
        )


def find_comparable(old: Mapping[str, int], new: Mapping[str, int]) -> set[str]:
    """Return the models whose component holds the same models on both leaderboards.

    Only models on both leaderboards count. For example, {a, b, x} and {a, b, y} are the same component: x left and y
    entered. Component numbers may differ, because each snapshot numbers its own.

    `old`, `new`: each model's component on that leaderboard.
    """
    both = {name: (old[name], new[name]) for name in old.keys() & new.keys()}
    together = Counter(both.values())
    before, after = (Counter(pair[side] for pair in both.values()) for side in (0, 1))
    return {name for name, (b, a) in both.items() if together[b, a] == before[b] == after[a]}


def _figures(row: LeaderboardRow | None, when: str) -> dict[str, Any]:
    return {f"{name}_{when}": getattr(row, name) for name in _SHOWN} if row is not None else {}


def _compare(past: LeaderboardRow, row: LeaderboardRow) -> dict[str, Any]:
    if past.score is None or row.score is None:
        return {}
    beyond = None if past.lower is None or past.upper is None else not past.lower <= row.score <= past.upper
    return {"change": row.score - past.score, "beyond_interval": beyond}


def find_causes(conn: Connection, old: Snapshot, new: Snapshot) -> Causes:
    """Compare the inputs of two snapshots."""
    return Causes(
        votes_read=new.votes_read - old.votes_read,
        votes_used=new.votes_used - old.votes_used,
        same_votes=new.votes_hash == old.votes_hash,
        annotators=_annotator_changes(conn, old, new),
        settings=_changed_settings(conn, old, new),
        policy_version=(old.policy_version, new.policy_version),
        code_version=(old.code_version, new.code_version),
    )


def _changed_settings(conn: Connection, old: Snapshot, new: Snapshot) -> dict[str, tuple[Any, Any]]:
    """Return the changed settings of the fit, and the daily quota, which decides which votes enter the fit."""
    before, after = old.settings, new.settings
    if old.policy_version != new.policy_version:
        before, after = (
            {**one.settings, "max_votes_per_day": find_policy(conn, one.policy_version).settings.max_votes_per_day}
            for one in (old, new)
        )
    names = sorted(before.keys() | after.keys())
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


def _annotator_changes(conn: Connection, old: Snapshot, new: Snapshot) -> AnnotatorChanges | None:
    if old.crowd_pruned_at is not None or new.crowd_pruned_at is not None:
        return None
    return AnnotatorChanges.model_validate(dict(count_annotator_changes(conn, old.id, new.id)))
