"""A snapshot of which every part failed but the main leaderboard: it is published, said and served."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from httpx import Client
from sqlalchemy import text, update

from app.database.engine import Database
from app.database.tables import annotators, votes
from app.leaderboard import charts
from app.leaderboard.charts import draw_newest
from app.monitoring.doctor import check_database
from app.refits import fragility, publish
from app.refits.fit import fit
from app.refits.fit.parts import LEFT_OUT
from app.refits.fit.process import FitProcess
from app.refits.fragility import measure_newest
from app.refits.schemas import Refit
from app.snapshots.service import find_snapshot
from tests.fixtures.console import SignIn

DoRefit = Callable[..., Refit]
Ask = Callable[..., Any]

FAILING = [
    *((fit, name) for name in (
        "fit_categories", "fit_criteria", "fit_kinds", "fit_other_methods", "fit_style_board", "tabulate_matchups",
        "tabulate_pairs", "measure_leaderboards", "list_verdicts",
    )),
    (publish, "find_alarms"), (publish, "count_by_door"), (charts, "draw"), (fragility, "measure_fragility"),
    (fragility, "compare_judges"),
]  # fmt: skip


def fail(*_: Any, **__: Any) -> Any:
    raise np.linalg.LinAlgError("the matrix is singular")


@pytest.fixture
def bare(
    database: Database,
    stored_crowd: None,
    run_refit: DoRefit,
    fit_process: FitProcess,
    fits_anew: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A snapshot of votes by people and judges, with nothing beside the main leaderboard."""
    with database.begin() as conn:
        conn.execute(text("ALTER TABLE votes DISABLE TRIGGER USER"))
        conn.execute(update(votes).where(votes.c.annotator_id < 5).values(tags=["code"]))
        conn.execute(text("ALTER TABLE votes ENABLE TRIGGER USER"))
        conn.execute(update(annotators).where(annotators.c.key.like("honest 1%")).values(kind="judge"))
    with monkeypatch.context() as patch:
        for room, name in FAILING:
            patch.setattr(room, name, fail)
        assert run_refit().state == "done"
        assert measure_newest(database, fit_process, lease_seconds=30)
        assert draw_newest(database)
        assert not measure_newest(database, fit_process, lease_seconds=30), "once is enough"
        assert not draw_newest(database), "once is enough"


def notices(database: Database) -> list[dict[str, Any]]:
    with database.read() as conn:
        return [one for one in find_snapshot(conn).diagnostics["warnings"] if one["code"] == LEFT_OUT]


@pytest.mark.comparisons
def test_each_part_has_a_notice_and_doctor_names_them(database: Database, bare: None) -> None:
    found = notices(database)
    assert [one["part"] for one in found] == [
        "leaderboards of categories", "leaderboards of criteria", "leaderboards by other methods",
        "leaderboards of kinds", "style control", "matchups", "pair weights", "forecasts",
        "verdicts on the best models", "alarms about rules", "votes by door", "fragility",
        "comparison of judges and people", "charts",
    ]  # fmt: skip
    assert all(one["detail"] == f"{one['part']}: unexpected LinAlgError" for one in found)
    (check,) = (one for one in check_database(database) if one.name == "Parts of the snapshot")
    assert check.tone == "warn"
    assert "leaderboards of categories: unexpected LinAlgError" in check.words


@pytest.mark.comparisons
def test_no_address_fails_without_the_parts(
    bare: None,
    usual_app: FastAPI,
    client: Client,
    keys: dict[str, str],
    sign_in: SignIn,
    ask: Ask,
) -> None:
    assert ask("POST", "/battles", json={"annotator": "honest 0"}).status_code == 201
    given = {"snapshot": "1", "a": "1", "b": "1", "model": "model 0", "name": "model 0", "annotator": "honest 0"}
    header, visitor, seen = {"Authorization": f"Bearer {keys['admin']}"}, sign_in("admin"), 0
    for route in iter_route_contexts(usual_app.routes):
        path = route.path.replace(":path}", "}")
        if "GET" not in getattr(route, "methods", ()) or path.endswith("/events") or "/static" in path:
            continue
        for name, value in given.items():
            path = path.replace(f"{{{name}}}", value)
        if "{" in path:
            continue
        answer = visitor.get(path) if path.startswith("/console") else client.get(path, headers=header)
        assert answer.status_code < 500, (path, answer.text)
        seen += 1
    assert seen > 50
    for query in ("?method=m-elo", "?method=style", "?method=people", "?tag=code", "/confidence", "/categories"):
        assert client.get(f"/api/v1/leaderboard{query}").status_code in {200, 404}, query
        assert client.get(f"/{query}").status_code in {200, 404}, query


@pytest.mark.comparisons
def test_the_next_refit_is_whole_again(database: Database, bare: None, run_refit: DoRefit) -> None:
    assert run_refit().state == "done"
    assert notices(database) == []
