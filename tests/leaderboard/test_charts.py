"""The charts of a snapshot: drawn once, by the worker, from sums."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID
from xml.etree import ElementTree as ET

import pytest
from sqlalchemy import insert, text

from app.database.engine import Database
from app.database.tables import snapshot_annotators
from app.leaderboard import charts as service
from app.leaderboard.charts import Chart, draw_newest, read_bins, read_charts
from app.settings import Settings
from app.worker import Worker

CROWD = [
    *[(0.98, None, 60, "active")] * 3,
    (1.04, None, 70, "trusted"),
    (-7.0, None, 64, "flagged"),
    (None, 0.11, 64, "excluded"),
    (None, 0.5, 3, "pending"),
]


@pytest.fixture
def snapshot(database: Database, three: int) -> UUID:
    """Return the id of a snapshot with the annotators above."""
    with database.begin() as conn:
        found: UUID = conn.execute(text("SELECT id FROM snapshots WHERE number = :number"), {"number": three}).scalar()
        rows = [
            {
                "snapshot_id": found, "annotator_id": i, "ability": ability, "shadow_ability": shadow,
                "votes": votes, "rule_standing": "active", "standing": standing,
            }
            for i, (ability, shadow, votes, standing) in enumerate(CROWD, 1)
        ]  # fmt: skip
        conn.execute(insert(snapshot_annotators), rows)
    return found


def charts_of(database: Database, snapshot: UUID) -> dict[str, Chart]:
    with database.read() as conn:
        return read_charts(conn, snapshot)


def bins_of(rows: Any, *names: str) -> set[tuple[Any, ...]]:
    def plain(value: Any) -> Any:
        return value if isinstance(value, str) else round(float(value), 3)

    return {tuple(plain(row[name]) for name in names) for row in rows}


def test_annotators_are_summed(database: Database, snapshot: UUID) -> None:
    with database.read() as conn:
        abilities, votes = (read_bins(conn, name, snapshot) for name in ("abilities", "votes"))
    assert bins_of(abilities, "low", "standing", "annotators") == {
        (0.9, "counts", 3), (1.0, "counts", 1), (-1.0, "flagged", 1), (0.1, "excluded", 1),
    }  # fmt: skip
    assert bins_of(votes, "low", "high", "standing", "annotators") == {
        (32, 64, "counts", 3), (64, 128, "counts", 1), (64, 128, "flagged", 1), (64, 128, "excluded", 1),
        (2, 4, "pending", 1),
    }  # fmt: skip


def test_the_worker_draws_the_newest_snapshot_once(
    database: Database, settings: Settings, snapshot: UUID, publish: Callable[..., int]
) -> None:
    worker = Worker(database, settings)
    assert worker.draw_charts()
    drawn = charts_of(database, snapshot)
    assert drawn.keys() == {"abilities", "votes", "calibration"}
    assert drawn["abilities"].description == "Abilities of 6 annotators: 4 counted, 1 flagged, 1 excluded."
    assert "7 annotators: 1 pending, with δ = 50 votes or fewer" in drawn["votes"].description
    said = "in 64 votes with a winner: predicted and observed rates differ by 3.7 percentage points on average; 1 of 2"
    assert f"{said} points lies outside the band of chance." in drawn["calibration"].description
    assert drawn["calibration"].svg.count("<circle") + drawn["calibration"].svg.count("mark-symbol") > 0
    assert not worker.draw_charts(), "it has them"
    publish({("am-elo", ""): {"ant": {}}})
    assert worker.draw_charts(), "a snapshot without annotators and pairs has empty charts"
    assert charts_of(database, snapshot) == drawn


def test_a_stopped_worker_leaves_the_charts_to_the_next(
    database: Database, settings: Settings, snapshot: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(database, settings)
    draw, drawn = service.draw, list[Any]()

    def stop_after(spec: Any) -> str:
        worker.stop()
        drawn.append(spec)
        return draw(spec)

    with monkeypatch.context() as stopping:
        stopping.setattr(service, "draw", stop_after)
        assert not worker.draw_charts()
    assert (len(drawn), charts_of(database, snapshot)) == (1, {})
    assert Worker(database, settings).draw_charts()
    assert len(charts_of(database, snapshot)) == 3


def test_an_image_can_stand_inside_a_page(database: Database, snapshot: UUID) -> None:
    draw_newest(database)
    for chart in charts_of(database, snapshot).values():
        image = ET.fromstring(chart.svg)  # noqa: S314  our own
        found: list[Mapping[str, str]] = [element.attrib for element in image.iter()]
        assert len(chart.svg) < 20_000
        assert "viewBox" in image.attrib
        assert not any("style" in one or "id" in one or "href" in one for one in found), "the page forbids or has them"
        colours = {value for one in found for name, value in one.items() if name in ("fill", "stroke")}
        assert {colour for colour in colours if colour.startswith("#")} == set(), "colours are the page's"
        assert "currentColor" in colours


def test_no_snapshot_no_charts(database: Database) -> None:
    assert not draw_newest(database)
