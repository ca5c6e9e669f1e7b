"""What was published, and what moved."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC
from typing import Annotated, Any

from fastapi import Query, Request, Response
from sqlalchemy import Connection

from app.api.dependencies import ReadView
from app.leaderboard.diff.schemas import RowChange, SnapshotDiff
from app.leaderboard.diff.sentences import describe_causes, describe_moves
from app.leaderboard.diff.service import compare_snapshots, list_moves
from app.leaderboard.groups import ModelGroup, choose_group, list_groups
from app.leaderboard.queries import list_ranks
from app.models.service import find_contestant
from app.pages.formatting import day, moment
from app.pages.plots import draw_ranks
from app.pages.rendering import public_router, render, render_nothing_published
from app.snapshots.queries import list_placed_models, list_times
from app.snapshots.schemas import AskedMethod
from app.snapshots.service import find_snapshot, list_snapshots

router = public_router()

_SIZE, _MOST_TIMES = 10, 200
_LINES, _MOST_LINES, _MOST_POINTS = 10, 20, 60
_LARGEST = 2**31 - 1


@router.get("/history")
def get_history(
    request: Request,
    conn: ReadView,
    before: Annotated[int | None, Query(ge=1, le=_LARGEST)] = None,
    model: Annotated[tuple[str, ...], Query(max_length=_MOST_LINES)] = (),
) -> Response:
    """Draw the ranks of some models over time, by default of the best; list the snapshots and what each changed."""
    found = list_snapshots(conn, limit=_SIZE + 1, before=before)
    if not found and before is None:
        return render_nothing_published(request, conn, "History")
    return render(
        request,
        "history/page.html",
        changes=list(zip(found, [*found[1:], None], [*list_moves(conn, found), []], strict=False))[:_SIZE],
        older=found[_SIZE - 1].number if len(found) > _SIZE else None,
        first_page=before is None,
        times=list_times(conn, most=_MOST_TIMES),
        **({"plot": None} if before is not None else view_ranks(conn, model)),
    )


def view_ranks(conn: Connection, chosen: Sequence[str]) -> dict[str, Any]:
    """Return what the template shows of the ranks over time: the plot, its models, and when it begins and ends.

    Raises NotFoundError: there is no such model.
    """
    times = list_times(conn, most=_MOST_POINTS)
    board = list_placed_models(conn, find_snapshot(conn).id)
    best = [row["model"] for row in board if row["score"] is not None and row["component"] == 0][:_LINES]
    names = list(dict.fromkeys(find_contestant(conn, name, public=True).name for name in chosen)) or best
    numbers = [one["number"] for one in times]
    ranks = {(row["number"], row["model"]): row["rank"] for row in list_ranks(conn, numbers, names)}
    first, last = (one["published_at"].astimezone(UTC) for one in (times[0], times[-1]))
    ends = f"{first:%H:%M}", moment(last)
    return {
        "plot": draw_ranks({name: [ranks.get((number, name)) for number in numbers] for name in names}),
        "drawn": names if chosen else (),
        "known": [row["model"] for row in board],
        "ends": ends if first.date() == last.date() else (day(first), day(last)),
    }


@router.get("/history/difference")
def get_difference(
    request: Request,
    conn: ReadView,
    before: str,
    after: str,
    method: AskedMethod = "am-elo",
    group: str = "",
) -> Response:
    """Show what moved in a group of models between two snapshots, and what had changed between their refits."""
    old, new = sorted((find_snapshot(conn, before), find_snapshot(conn, after)), key=lambda one: one.number)
    difference = compare_snapshots(conn, str(old.id), str(new.id), method=method)
    groups = list_groups(conn, new.id)[method, ""]
    values = view_difference(difference, choose_group(groups, group))
    return render(request, "history/difference.html", groups=groups, **values)


def view_difference(difference: SnapshotDiff, group: ModelGroup) -> dict[str, Any]:
    """Return what the template shows of the difference between two snapshots in one group of the later one."""
    followed = {one.component_before: one.component_after for one in difference.models if one.kind == "stayed"}

    def number_of(one: RowChange) -> int:
        """Return the group's number; a model that left is shown with those that it was compared with."""
        component = followed.get(one.component_before) if one.component_after is None else one.component_after
        return (component or 0) + 1

    models = [one for one in difference.models if number_of(one) == group.number]
    ranks = [(one.rank_before, one.rank_after) for one in models if one.comparable]
    climbs = [before - after for before, after in ranks if before is not None and after is not None]
    kinds = Counter(one.kind for one in models)
    return {
        "difference": difference,
        "group": group,
        "changed": Counter(number_of(one) for one in difference.models if one.changed),
        "models": [one for one in models if one.changed],
        "same": [one for one in models if not one.changed],
        "causes": list(describe_causes(difference.causes)),
        "moves": list(describe_moves(models)),
        "figures": [
            ("models rose", sum(1 for climb in climbs if climb > 0)),
            ("models fell", sum(1 for climb in climbs if climb < 0)),
            ("models entered", kinds["entered"]),
            ("models left", kinds["left"]),
        ],
    }
