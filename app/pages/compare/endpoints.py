"""Two models side by side."""

from fastapi import Request, Response
from sqlalchemy import Connection

from app.api.dependencies import ReadView
from app.errors import NotFoundError
from app.leaderboard.comparison import ModelComparison, compare_models
from app.leaderboard.matchups import Matchup
from app.models.schemas import FoundModel
from app.models.service import find_contestant
from app.pages.formatting import SHOWN_METHODS
from app.pages.rendering import public_router, render, render_nothing_published
from app.snapshots.queries import list_placed_models
from app.snapshots.service import NoSnapshotError, find_snapshot
from app.wording import percent

router = public_router()

_UNKNOWN = 404


@router.get("/compare")
def get_comparison(request: Request, conn: ReadView, a: str | None = None, b: str | None = None) -> Response:
    """Compare two models, by default the first two of the leaderboard."""
    try:
        snapshot = find_snapshot(conn)
    except NoSnapshotError:
        return render_nothing_published(request, conn, "Compare")
    known = [row["model"] for row in list_placed_models(conn, snapshot.id)]
    first = a or next((name for name in known if name != b), "")
    asked = first, b or next((name for name in known if name != first), "")
    found, wrong = _find(conn, asked)
    shown = None if any(wrong) else compare_models(conn, snapshot, *found)
    return render(
        request,
        "compare/page.html",
        status=_UNKNOWN if shown is None else 200,
        asked=asked,
        known=known,
        wrong=wrong,
        snapshot=snapshot,
        shown=shown,
        said=shown and judge(shown),
        methods=SHOWN_METHODS,
    )


def _find(conn: Connection, names: tuple[str, str]) -> tuple[list[FoundModel], list[str]]:
    """Return the two models; where one is unknown, or both are the same, what is wrong with each name."""
    found: list[FoundModel] = []
    wrong = ["", ""]
    for place, name in enumerate(names):
        try:
            model = find_contestant(conn, name, public=True)
        except NotFoundError as error:
            wrong[place] = error.detail
            continue
        if model in found:
            wrong[place] = "choose two different models"
            continue
        found.append(model)
    return found, wrong


_EVEN = 0.5


def judge(comparison: ModelComparison) -> tuple[str, str]:
    """Say in two sentences which model is likely better, and how often a typical annotator prefers it."""
    matchup = comparison.matchup
    if not comparison.comparable:
        return "The two cannot be compared.", "No chain of votes links them on the newest leaderboard."
    if matchup.predicted is None:
        return _judge_by_bounds(matchup)
    seen = matchup if matchup.predicted >= _EVEN else matchup.swapped()
    preferred = f"a typical annotator prefers it in {percent(seen.predicted)} of battles"
    if seen.lower is None or seen.upper is None:
        reason = f"By the scores {preferred}. No vote that counts compares the two, so there is no interval."
        return f"{seen.model_a} has the higher score.", reason
    ends = f"{percent(seen.lower)} to {percent(seen.upper)}"
    if seen.lower > _EVEN:
        return f"{seen.model_a} is likely better.", f"{preferred.capitalize()}; the interval is {ends}."
    reason = f"{seen.model_a} is ahead: {preferred}. But the interval, {ends}, includes 50%."
    return "The votes do not tell the two apart.", reason


def _judge_by_bounds(matchup: Matchup) -> tuple[str, str]:
    why = "At least one of the two has no score: it only won, or only lost."
    seen = matchup if (matchup.lower or 0.0) > _EVEN else matchup.swapped()
    if seen.lower is None or seen.lower <= _EVEN:
        return "The votes do not decide it.", why
    bound = f"A typical annotator prefers it in at least {percent(seen.lower)} of battles."
    return f"{seen.model_a} is likely better.", f"{bound} {why}"
