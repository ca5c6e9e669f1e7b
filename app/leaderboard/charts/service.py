"""Draws the charts of the newest snapshot. A job of the worker: no reader and no publication waits for it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import Connection, RowMapping

from app.database.engine import Database
from app.database.interruption import Interruption
from app.leaderboard.charts import queries as store
from app.leaderboard.charts.queries import Chart
from app.leaderboard.charts.specs import STANDINGS, Spec, abilities_chart, calibration_chart, votes_chart
from app.rating.errors import counted

log = structlog.get_logger()

Rows = Sequence[Mapping[str, Any]] | Sequence[RowMapping]


def draw_newest(database: Database, interruption: Interruption | None = None) -> bool:
    """Draw and store the newest snapshot's charts if it has none; return whether there was something to draw.

    A snapshot that is no longer the newest stays without charts.

    Raises
    ------
    InterruptedWorkError
        By `interruption`; no chart is stored, and the next call draws them.
    """
    interruption = interruption or Interruption()
    with database.read() as conn, interruption.queries(conn):
        snapshot = store.find_undrawn(conn)
        if snapshot is None:
            return False
        plans = plan_charts(conn, snapshot["id"], snapshot["settings"])
    charts = []
    for name, spec, description in plans:
        interruption.wait(0)
        charts.append(Chart(name, _draw(spec), description))
    with database.begin() as conn:
        store.insert_charts(conn, snapshot["id"], charts)
    log.info("charts_drawn", snapshot=str(snapshot["id"]), count=len(charts))
    return True


def plan_charts(conn: Connection, snapshot_id: UUID, settings: Mapping[str, Any]) -> list[tuple[str, Spec, str]]:
    """Return the name, the specification and the description of each chart of a snapshot."""
    abilities = _placed(store.count_abilities(conn, snapshot_id))
    votes = _placed(store.count_vote_totals(conn, snapshot_id))
    favourites = [dict(row) for row in store.sum_favourites(conn, snapshot_id)]
    min_ability, min_votes = settings.get("min_ability", 0.0), settings.get("min_votes", 0)
    return [
        ("abilities", abilities_chart(abilities, min_ability), _describe_abilities(abilities)),
        ("votes", votes_chart(votes, min_votes), _describe_votes(votes, min_votes)),
        ("calibration", calibration_chart(favourites), _describe_favourites(favourites)),
    ]


def _draw(spec: Spec) -> str:
    # The library brings a JavaScript engine: only the process that draws loads it, and not before it draws.
    import vl_convert  # noqa: PLC0415  for the reason above

    svg: str = vl_convert.vegalite_to_svg(json.dumps(spec))
    return svg


def _placed(rows: Rows) -> list[dict[str, Any]]:
    """Add the place of its standing in a stack of bars."""
    return [{**row, "place": STANDINGS.index(row["standing"])} for row in rows]


def _describe_abilities(bins: Rows) -> str:
    number = {standing: sum(row["annotators"] for row in bins if row["standing"] == standing) for standing in STANDINGS}
    return (
        f"Abilities of {counted(sum(number.values()), 'annotator')}: {number['counts']:,} counted, "
        f"{number['flagged']:,} flagged, {number['excluded']:,} excluded."
    )


def _describe_votes(bins: Rows, min_votes: int) -> str:
    total = sum(row["annotators"] for row in bins)
    pending = sum(row["annotators"] for row in bins if row["standing"] == "pending")
    return f"Votes of {counted(total, 'annotator')}: {pending:,} pending, with δ = {min_votes:,} votes or fewer."


def _describe_favourites(bins: Rows) -> str:
    if not bins:
        return "No pair of models has both votes and a prediction."
    votes = sum(row["votes"] for row in bins)
    off = sum(row["votes"] * abs(row["observed"] - row["predicted"]) for row in bins) / votes
    return (
        f"Predicted and observed win rates of favourites, over {votes:,.0f} votes: they differ by "
        f"{100 * off:.1f} percentage points on average."
    )
