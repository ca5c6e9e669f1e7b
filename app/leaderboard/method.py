"""How the newest leaderboard came about, in this arena's own numbers. It names no annotator."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from app.leaderboard.charts import Chart, read_charts
from app.policy.schemas import Policy
from app.policy.service import past_policy
from app.rating.settings import Standing
from app.snapshots.queries import count_standings
from app.snapshots.schemas import Snapshot
from app.snapshots.service import find_snapshot


@dataclass(frozen=True)
class MethodFigures:
    """The numbers behind a leaderboard.

    Attributes
    ----------
    policy : that was in force
    standings : `annotators` with votes, and their `votes`, by standing; every standing is there, with zeros
    votes : votes read, used, and left out by reason; empty for snapshots of early versions
    rules : annotators and votes that each rule flags or excludes: "ability", or a test's name
    charts : by name; none before the worker has drawn them
    """

    snapshot: Snapshot
    policy: Policy
    standings: dict[Standing, dict[str, int]]
    votes: dict[str, int]
    rules: dict[str, dict[str, int]]
    charts: dict[str, Chart]

    @property
    def annotators(self) -> int:
        """How many annotators have votes."""
        return sum(one["annotators"] for one in self.standings.values())

    @property
    def counting(self) -> int:
        """How many annotators the scores rest on: active, trusted and flagged ones."""
        return sum(self.standings[name]["annotators"] for name in ("active", "trusted", "flagged"))

    @property
    def diagnostics(self) -> dict[str, Any]:
        """What the refit reports of the fit."""
        return self.snapshot.diagnostics


def find_figures(conn: Connection) -> MethodFigures:
    """Return the numbers behind the newest leaderboard. Raises NoSnapshotError."""
    snapshot = find_snapshot(conn)
    return MethodFigures(
        snapshot=snapshot,
        policy=past_policy(conn, snapshot.policy_version).settings,
        standings=count_standings(conn, snapshot.id),
        votes=snapshot.diagnostics.get("votes") or {},
        rules=snapshot.diagnostics.get("rules") or {},
        charts=read_charts(conn, snapshot.id),
    )
