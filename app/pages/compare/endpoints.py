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
from app.snapshots.differences import Word
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
    """Say in two sentences which model is better, and how often a typical annotator prefers it."""
    matchup = comparison.matchup
    if not comparison.comparable:
        return "The two cannot be compared.", "No chain of votes links them on the newest leaderboard."
    seen = matchup if _leads(matchup) else matchup.swapped()
    word = seen.difference or _word_of_interval(seen)
    verdicts = {"better": "is better", "likely-better": "is likely better", None: "has the higher score"}
    verdict = f"{seen.model_a} {verdicts[word]}." if word in verdicts else "The votes cannot tell the two apart."
    return verdict, _describe_share(seen)


def _leads(matchup: Matchup) -> bool:
    """Whether the first model is ahead: by the score or, where one has none, by the bound."""
    if matchup.predicted is not None:
        return matchup.predicted >= _EVEN
    return (matchup.lower or 0.0) > _EVEN


def _word_of_interval(seen: Matchup) -> Word | None:
    """Return what the interval says where the snapshot has no word: of models without a rank, or of old snapshots."""
    if seen.lower is None:
        return None if seen.predicted is not None else "level"
    return "likely-better" if seen.lower > _EVEN else "level"


def _describe_share(seen: Matchup) -> str:
    if seen.predicted is None:
        why = "At least one of the two has no score: it only won, or only lost."
        if seen.lower is None or seen.lower <= _EVEN:
            return why
        return f"A typical annotator prefers it in at least {percent(seen.lower)} of battles. {why}"
    share = f"a typical annotator prefers it in {percent(seen.predicted)} of battles"
    if seen.lower is None or seen.upper is None:
        return f"By the scores {share}. No vote that counts compares the two, so there is no interval."
    return f"{seen.model_a} is ahead: {share}; the interval is {percent(seen.lower)} to {percent(seen.upper)}."
