"""Which models win against which."""

from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import Query, Request, Response

from app.api.dependencies import ReadView
from app.leaderboard.charts import read_charts
from app.leaderboard.matchups import FEWEST_VOTES, Matchup, MatchupGrid, read_grid
from app.pages.rendering import public_router, render, render_nothing_published
from app.snapshots.service import NoSnapshotError, find_snapshot

router = public_router()


@router.get("/matchups")
def get_matchups(
    request: Request,
    conn: ReadView,
    show: Literal["observed", "predicted"] = "observed",
    start: Annotated[int, Query(ge=1, le=10_000)] = 1,
    model: Annotated[tuple[str, ...], Query()] = (),
    snapshot: str | None = None,
) -> Response:
    """Show the observed or the predicted win rate of each of some models against each other, with counts."""
    try:
        chosen = find_snapshot(conn, snapshot or None)
    except NoSnapshotError:
        return render_nothing_published(request, conn, "Matchups")
    grid = read_grid(conn, chosen, names=model, start=start, size=SIZE)
    return render(
        request,
        "matchups/page.html",
        **view_grid(grid, show, None if snapshot is None else chosen.number),
        snapshot=chosen,
        calibration=read_charts(conn, chosen.id).get("calibration"),
    )


SIZE = 20
"""How many models the page shows, unless they are chosen by name."""

LEVELS, DARKEST = 10, 0.4
"""How many shades a cell has on either side, and how far from one half the darkest begins."""


def view_grid(grid: MatchupGrid, show: Literal["observed", "predicted"], snapshot: int | None) -> dict[str, Any]:
    """Return what the template shows.

    `snapshot`: the number of the snapshot where one was asked for; None for the newest.
    """

    def address(**changes: Any) -> str:
        chosen: dict[str, Any] = {"model": grid.models} if grid.start is None else {"start": grid.start}
        query = {"show": show, "snapshot": snapshot, **chosen, **changes}
        kept = {name: value for name, value in query.items() if value not in (None, [])}
        return "?" + urlencode(kept, doseq=True)

    start = grid.start or 1
    end = start + len(grid.models) - 1
    return {
        "grid": grid,
        "show": show,
        "asked_snapshot": snapshot,
        "rows": [(name, [_cell(grid.pairs.get((name, other)), show) for other in grid.models]) for name in grid.models],
        "end": end,
        "tabs": [(kind, address(show=kind)) for kind in ("observed", "predicted")],
        "before": address(start=max(start - SIZE, 1)) if grid.start is not None and start > 1 else None,
        "after": address(start=end + 1) if grid.start is not None and end < len(grid.known) else None,
        "top": "?" + urlencode({"show": show}),
    }


def _cell(matchup: Matchup | None, show: Literal["observed", "predicted"]) -> tuple[str, float | None, int]:
    """Return a cell's shade (such as `won7`), its win rate and its votes."""
    rate = None if matchup is None else getattr(matchup, show)
    votes = 0 if matchup is None else matchup.votes
    if rate is None or (show == "observed" and votes < FEWEST_VOTES):
        return "", None, votes
    level = min(round(abs(rate - 0.5) / DARKEST * LEVELS), LEVELS)
    return f"{'won' if rate > 0.5 else 'lost'}{level}" if level else "", rate, votes  # noqa: PLR2004  even
