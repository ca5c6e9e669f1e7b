"""Charts of the newest snapshot: sums over annotators and pairs, never one of them.

The worker draws them after the publication: no reader and no publication waits for it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import structlog
from sqlalchemy import Connection, RowMapping, false, func, select, text
from sqlalchemy.dialects.postgresql import insert

from app.database.engine import Database
from app.database.interruption import InterruptedWorkError, Interruption
from app.database.tables import snapshot_charts, snapshots
from app.leaderboard.chart_specs import STANDINGS, Rows, Spec, abilities_chart, calibration_chart, votes_chart
from app.refits.fit.parts import Parts, log_left_out
from app.snapshots.queries import add_notices
from app.wording import plural

log = structlog.get_logger()

PART = "charts"

# Ten bins for each unit of ability; the first and the last bin hold everything beyond them.
_ABILITIES = text(
    """
    SELECT low, low + 0.1 AS high, standing, count(*) AS annotators
    FROM (
        SELECT least(greatest(floor(10 * coalesce(ability, shadow_ability)) / 10, -1), 2.4) AS low,
            CASE WHEN standing IN ('active', 'trusted') THEN 'counts' ELSE standing END AS standing
        FROM snapshot_annotators
        WHERE snapshot_id = :snapshot AND standing <> 'pending' AND coalesce(ability, shadow_ability) IS NOT NULL
    ) AS binned
    GROUP BY low, standing
    """
)
# A bin for each doubling of the votes.
_VOTES = text(
    """
    SELECT power(2, bin) AS low, power(2, bin + 1) AS high, standing, count(*) AS annotators
    FROM (
        SELECT floor(ln(votes) / ln(2) + 1e-9) AS bin,
            CASE WHEN standing IN ('active', 'trusted') THEN 'counts' ELSE standing END AS standing
        FROM snapshot_annotators
        WHERE snapshot_id = :snapshot AND votes > 0
    ) AS binned
    GROUP BY bin, standing
    """
)
_BINS = {"abilities": _ABILITIES, "votes": _VOTES}


class Chart(NamedTuple):
    """A chart of a snapshot: an SVG image, and what it shows in words."""

    name: str
    svg: str
    description: str


def find_undrawn(conn: Connection) -> RowMapping | None:
    """Return the newest snapshot's `id`, `settings` and `calibration` if its charts were not tried; else None."""
    tried = func.coalesce(snapshots.c.diagnostics["warnings"].contains([{"part": PART}]), false()).label("tried")
    calibration = snapshots.c.diagnostics["calibration"].label("calibration")
    columns = snapshots.c.id, snapshots.c.settings, calibration, tried
    newest = select(*columns).order_by(snapshots.c.number.desc()).limit(1).subquery()
    drawn = select(snapshot_charts.c.name).where(snapshot_charts.c.snapshot_id == newest.c.id)
    return conn.execute(select(newest).where(~drawn.exists(), ~newest.c.tried)).mappings().one_or_none()


def read_bins(conn: Connection, name: str, snapshot_id: UUID) -> list[dict[str, Any]]:
    """Return the bins of a chart of annotators.

    `low`, `high`, `standing`, its `place` in a stack of bars, and `annotators`; the abilities of pending ones are left
    out.
    """
    rows = conn.execute(_BINS[name], {"snapshot": snapshot_id}).mappings()
    return [{**row, "place": STANDINGS.index(row["standing"])} for row in rows]


def insert_charts(conn: Connection, snapshot_id: UUID, charts: Sequence[Chart]) -> None:
    """Store a snapshot's charts, unless another process has."""
    rows: list[Mapping[str, Any]] = [{"snapshot_id": snapshot_id, **chart._asdict()} for chart in charts]
    conn.execute(insert(snapshot_charts).on_conflict_do_nothing(), rows)


def read_charts(conn: Connection, snapshot_id: UUID) -> dict[str, Chart]:
    """Return the snapshot's charts by name; none before they are drawn."""
    c = snapshot_charts.c
    rows = conn.execute(select(c.name, c.svg, c.description).where(c.snapshot_id == snapshot_id))
    return {row.name: Chart(*row) for row in rows}


def draw_newest(database: Database, interruption: Interruption | None = None) -> bool:
    """Draw and store the newest snapshot's charts if it has none; return whether there was something to draw.

    A snapshot that is no longer the newest stays without charts, and so does one whose charts fail, with a notice.

    Raises InterruptedWorkError: by `interruption`; no chart is stored, and the next call draws them.
    """
    interruption = interruption or Interruption()
    with database.read() as conn, interruption.queries(conn):
        snapshot = find_undrawn(conn)
    if snapshot is None:
        return False
    parts = Parts(InterruptedWorkError)
    charts = parts.compute(PART, lambda: _draw(database, interruption, snapshot))
    log_left_out(parts.notices)
    with database.begin() as conn:
        if charts is None:
            add_notices(conn, snapshot["id"], [notice.named(()) for notice in parts.notices])
        else:
            insert_charts(conn, snapshot["id"], charts)
            log.info("charts_drawn", snapshot=str(snapshot["id"]), count=len(charts))
    return True


def _draw(database: Database, interruption: Interruption, snapshot: RowMapping) -> list[Chart]:
    with database.read() as conn, interruption.queries(conn):
        abilities, votes = (read_bins(conn, name, snapshot["id"]) for name in _BINS)
    calibration = snapshot["calibration"] or []
    min_ability, min_votes = snapshot["settings"].get("min_ability", 0.0), snapshot["settings"].get("min_votes", 0)
    plans = (
        ("abilities", abilities_chart(abilities, min_ability), _describe_abilities(abilities)),
        ("votes", votes_chart(votes, min_votes), _describe_votes(votes, min_votes)),
        ("calibration", calibration_chart(calibration), _describe_calibration(calibration)),
    )
    charts = []
    for name, spec, description in plans:
        interruption.wait(0)
        charts.append(Chart(name, draw(spec), description))
    return charts


def draw(spec: Spec) -> str:
    """Return the chart as SVG."""
    # The library brings a JavaScript engine: only the process that draws loads it, and not before it draws.
    import vl_convert  # noqa: PLC0415  for the reason above

    svg: str = vl_convert.vegalite_to_svg(json.dumps(spec))
    return svg


def _describe_abilities(bins: Rows) -> str:
    number = {standing: sum(row["annotators"] for row in bins if row["standing"] == standing) for standing in STANDINGS}
    return (
        f"Abilities of {plural(sum(number.values()), 'annotator')}: {number['counts']:,} counted, "
        f"{number['flagged']:,} flagged, {number['excluded']:,} excluded."
    )


def _describe_votes(bins: Rows, min_votes: int) -> str:
    total = sum(row["annotators"] for row in bins)
    pending = sum(row["annotators"] for row in bins if row["standing"] == "pending")
    return f"Votes of {plural(total, 'annotator')}: {pending:,} pending, with δ = {min_votes:,} votes or fewer."


def _describe_calibration(bins: Rows) -> str:
    if not bins:
        return "No vote with a winner has a prediction."
    votes = sum(row["votes"] for row in bins)
    off = sum(row["votes"] * abs(row["observed"] - row["predicted"]) for row in bins) / votes
    outside = sum(not row["lower"] <= row["observed"] <= row["upper"] for row in bins)
    return (
        f"How often the model won that each voter should prefer, in {votes:,.0f} votes with a winner: predicted and "
        f"observed rates differ by {100 * off:.1f} percentage points on average; {outside or 'none'} of "
        f"{plural(len(bins), 'point')} {'lies' if outside <= 1 else 'lie'} outside the band of chance."
    )
