"""What was published, and what moved."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Query, Request, Response

from app.api.dependencies import ReadView
from app.leaderboard.diff.schemas import RowChange, SnapshotDiff
from app.leaderboard.diff.sentences import describe_causes, describe_moves
from app.leaderboard.diff.service import compare_snapshots, list_moves
from app.leaderboard.groups import Group, choose_group, list_groups
from app.pages.rendering import public_router, render, render_nothing_published
from app.snapshots.queries import list_times
from app.snapshots.schemas import LeaderboardMethod, Snapshot
from app.snapshots.service import find_snapshot, list_snapshots
from app.wording import percent

router = public_router()

_SIZE, _MOST_TIMES = 10, 200
_LARGEST = 2**31 - 1


@router.get("/history")
def get_history(
    request: Request,
    conn: ReadView,
    before: Annotated[int | None, Query(ge=1, le=_LARGEST)] = None,
) -> Response:
    """List the snapshots, the newest first, and what each changed, in words."""
    found = list_snapshots(conn, limit=_SIZE + 1, before=before)
    if not found and before is None:
        return render_nothing_published(request, conn, "History")
    changes = view_changes(found, list_moves(conn, found))
    return render(
        request,
        "history/page.html",
        changes=changes[:_SIZE],
        older=found[_SIZE - 1].number if len(found) > _SIZE else None,
        first_page=before is None,
        times=list_times(conn, most=_MOST_TIMES),
    )


@router.get("/history/difference")
def get_difference(
    request: Request,
    conn: ReadView,
    before: str,
    after: str,
    method: LeaderboardMethod = "am-elo",
    group: str = "",
) -> Response:
    """Show what moved in a group of models between two snapshots, and what had changed between their refits."""
    old, new = sorted((find_snapshot(conn, before), find_snapshot(conn, after)), key=lambda one: one.number)
    difference = compare_snapshots(conn, str(old.id), str(new.id), method=method)
    groups = list_groups(conn, new.id)[method, ""]
    values = view_difference(difference, choose_group(groups, group))
    return render(request, "history/difference.html", groups=groups, **values)


MOST_SENTENCES, MOST_MOVES = 3, 10


def view_changes(snapshots: Sequence[Snapshot], moves: Sequence[list[str]]) -> list[dict[str, Any]]:
    """Return each snapshot with what it changed against the one before; the first on record changed nothing.

    `snapshots`: the newest first.
    `moves`: of each snapshot but the last, sentences on what moved against the one before.
    """
    earlier: list[Snapshot | None] = [*snapshots[1:], None]
    return [
        {
            "snapshot": after,
            "before": before,
            "moves": said[:MOST_SENTENCES],
            "more_moves": max(len(said) - MOST_SENTENCES, 0),
            "causes": [] if before is None else _causes(before, after),
            "alarms": _alarms(after),
        }
        for after, before, said in zip(snapshots, earlier, [*moves, []], strict=False)
    ]


def view_difference(difference: SnapshotDiff, group: Group) -> dict[str, Any]:
    """Return what the template shows of the difference between two snapshots in one group of the later one."""
    followed = {one.component_before: one.component_after for one in difference.models if one.kind == "stayed"}

    def number_of(one: RowChange) -> int:
        """Return the group's number; a model that left is shown with those that it was compared with."""
        component = followed.get(one.component_before) if one.component_after is None else one.component_after
        return (component or 0) + 1

    models = [one for one in difference.models if number_of(one) == group.number]
    climbs = [
        one.rank_before - one.rank_after
        for one in models
        if one.comparable and one.rank_before is not None and one.rank_after is not None
    ]
    kinds, moves = Counter(one.kind for one in models), list(describe_moves(models))
    return {
        "difference": difference,
        "group": group,
        "changed": Counter(number_of(one) for one in difference.models if one.changed),
        "models": [one for one in models if one.changed],
        "same": [one for one in models if not one.changed],
        "causes": list(describe_causes(difference.causes)),
        "moves": moves[:MOST_MOVES],
        "more_moves": len(moves[MOST_MOVES:]),
        "figures": [
            ("models rose", sum(1 for climb in climbs if climb > 0)),
            ("models fell", sum(1 for climb in climbs if climb < 0)),
            ("models entered", kinds["entered"]),
            ("models left", kinds["left"]),
        ],
    }


def _causes(before: Snapshot, after: Snapshot) -> list[str]:
    found = []
    if before.policy_version != after.policy_version:
        found.append(f"The policy changed from version {before.policy_version} to {after.policy_version}.")
    if before.code_version != after.code_version:
        found.append(f"The service's version changed from {before.code_version} to {after.code_version}.")
    return found


def _alarms(snapshot: Snapshot) -> list[str]:
    return [
        f"Unusual: the rule {alarm['rule']} found annotators with {percent(alarm['share'], 1)} of the votes; "
        f"{percent(alarm['usual'], 1)} is usual."
        for alarm in snapshot.diagnostics.get("alarms") or []
    ]
