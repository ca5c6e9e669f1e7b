"""What the page of two models shows."""

from dataclasses import dataclass

from app.leaderboard.comparison import CommonOpponent, Comparison
from app.leaderboard.matchups import Matchup
from app.leaderboard.model_page import Standing
from app.monitoring.wording import percent
from app.pages.formatting import METHODS
from app.snapshots.schemas import LeaderboardMethod

MOST_COMMON = 100
_EVEN = 0.5


@dataclass(frozen=True)
class MethodLine:
    """Both models by one method."""

    method: LeaderboardMethod
    a: Standing
    b: Standing
    difference: float | None


@dataclass(frozen=True)
class ShownComparison:
    """A comparison as the template shows it.

    Attributes
    ----------
    verdict : the first sentence
    reason : the second: what the verdict rests on
    methods : those that rank both
    common, more_common : opponents of both, and how many more there are
    """

    verdict: str
    reason: str
    matchup: Matchup
    methods: list[MethodLine]
    common: list[CommonOpponent]
    more_common: int


def view_comparison(comparison: Comparison) -> ShownComparison:
    """Return what the template shows."""
    verdict, reason = judge(comparison)
    both = [method for method in METHODS if method in comparison.a and method in comparison.b]
    return ShownComparison(
        verdict=verdict,
        reason=reason,
        matchup=comparison.matchup,
        methods=[_line(comparison, method) for method in both],
        common=comparison.common[:MOST_COMMON],
        more_common=max(len(comparison.common) - MOST_COMMON, 0),
    )


def judge(comparison: Comparison) -> tuple[str, str]:
    """Say in two sentences which model is likely better, and how often a typical annotator prefers it."""
    matchup = comparison.matchup
    if not comparison.comparable:
        return "The two cannot be compared.", "No chain of votes links them on the newest leaderboard."
    if matchup.predicted is None:
        return "The votes do not decide it.", "At least one of the two has no score: it only won, or only lost."
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


def _line(comparison: Comparison, method: LeaderboardMethod) -> MethodLine:
    a, b = comparison.a[method], comparison.b[method]
    same = a.component == b.component and a.score is not None and b.score is not None
    return MethodLine(method, a, b, (a.score or 0.0) - (b.score or 0.0) if same else None)
