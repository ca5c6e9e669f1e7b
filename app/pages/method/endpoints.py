"""How this arena ranks."""

from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response
from sqlalchemy import Connection

from app.api.dependencies import ReadView
from app.leaderboard.charts import read_charts
from app.leaderboard.comparison import win_probability
from app.pages.rendering import public_router, render, render_nothing_published
from app.policy.schemas import Policy
from app.policy.service import find_policy
from app.rating.settings import Standing
from app.snapshots.queries import count_standings
from app.snapshots.schemas import Snapshot
from app.snapshots.service import NoSnapshotError, find_snapshot
from app.snapshots.units import account_votes, describe_counted
from app.wording import count, plural

router = public_router()


@router.get("/method")
def get_method(request: Request, conn: ReadView) -> Response:
    """Say in plain words how scores come about, with this arena's own numbers."""
    try:
        snapshot = find_snapshot(conn)
    except NoSnapshotError:
        return render_nothing_published(request, conn, "Method")
    return render(request, "method/page.html", **view_method(conn, snapshot))


_STANDINGS: Mapping[Standing, str] = {
    "active": "Their votes count.",
    "trusted": "An admin vouches for them; their votes count, and no rule flags them.",
    "flagged": "A rule found something. Their votes count until an admin decides.",
    "pending": "Too few votes so far. They wait, and come in with more votes.",
    "excluded": "By a rule or an admin's decision their votes do not count.",
}
_INTERVALS = {
    "clustered": "It takes an annotator's votes as belonging together, because annotators differ in taste and care.",
    "sandwich": "It takes every vote as independent, and does not trust the model's own idea of the votes' spread.",
    "information": "It takes every vote as independent, and the model as exact.",
}


def view_method(conn: Connection, snapshot: Snapshot) -> dict[str, Any]:
    """Return what the template shows: how a leaderboard came about, in numbers. It names no annotator."""
    policy, standings = find_policy(conn, snapshot.policy_version).settings, count_standings(conn, snapshot.id)
    diagnostics = snapshot.diagnostics
    votes = diagnostics.get("votes") or {}  # early versions noted none
    used, read = votes.get("used", snapshot.votes_used), votes.get("read", snapshot.votes_read)
    rankings = diagnostics.get("rankings")
    return {
        "snapshot": snapshot,
        "thresholds": policy,
        "used": used,
        "read": read,
        "unit": "pairs" if rankings else "votes",
        "counted": describe_counted(used, read, rankings),
        "account": account_votes(diagnostics),
        "standings": [(name, standings[name], meaning) for name, meaning in _STANDINGS.items()],
        "annotators": {name: found["annotators"] for name, found in standings.items()},
        "flag_rule": describe_flag_rule(policy, diagnostics.get("rules") or {}),
        "interval": _INTERVALS.get(diagnostics.get("interval") or policy.interval),
        "spread": diagnostics.get("ability_spread"),
        "gains": [(gap, win_probability(gap, 0.0)) for gap in (10, 50, 100, 200, 400)],
        "charts": read_charts(conn, snapshot.id),
    }


def describe_flag_rule(policy: Policy, rules: Mapping[str, Mapping[str, int]]) -> str:
    """Say in a sentence or two which annotators the rules find, and how many they found."""
    low = f"an ability at or below ε = {policy.min_ability:g}"
    rule = f"A rule finds annotators with {low}."
    if policy.flag_rule == "evidence":
        tests = plural(len(policy.evidence_tests), "test")
        rule = (
            f"A rule finds annotators with {low}, with a probability of {100 * policy.min_probability:g} % or more. "
            f"{tests} of each annotator's votes look for behaviour that honest annotators hardly show. A taste for or "
            "against a model is shown to reviewers, and never excludes by itself."
        )
    by_tests = sum(found["annotators"] for name, found in rules.items() if name != "ability")
    by_ability = rules.get("ability", {}).get("annotators", 0)
    found = f"In this snapshot {count(by_tests)} were found by the tests, and {count(by_ability)} by the ability alone."
    return f"{rule} {found}"
