"""The health of the service in words."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.monitoring.checks import Check, check_service, database_is_away, what_became_of_votes
from app.monitoring.service import ServiceFigures, SnapshotFigures, read_figures
from tests.fixtures.console import SignIn

Ask = Callable[..., Any]


@pytest.fixture
def figures(database: Database) -> ServiceFigures:
    """The figures of an empty service."""
    with database.read() as conn:
        return read_figures(conn)


def check_of(name: str, figures: ServiceFigures) -> Check:
    return next(check for check in check_service(figures) if check.name == name)


def test_a_service_at_work_is_well(sign_in: SignIn, crowd: list[str], refit: Ask) -> None:
    refit()
    page = sign_in("review").page("/console/health")
    assert page.text(".//p[@class='lead']") == "All is well."
    assert dict(zip(page.texts(".//dl/div/dt"), page.texts(".//dl/div/dd"), strict=True)) == {
        "count": "1,680",
        "not read yet": "0",
    }


@pytest.mark.usefixtures("crowd")
def test_a_refit_that_no_worker_takes_comes_first(sign_in: SignIn, ask: Ask, database: Database) -> None:
    ask("POST", "/refits")
    with database.begin() as conn:
        conn.execute(text("UPDATE refits SET requested_at = requested_at - interval '5 minutes'"))
    page = sign_in("review").page("/console/health")
    assert page.texts(".//ul[@class='checks']/li/h2")[0] == "Worker act"
    assert "A refit has waited for 5 minutes" in page.texts(".//ul[@class='checks']/li/p")[0]


def test_what_is_wrong_has_a_remedy(figures: ServiceFigures) -> None:
    newest = SnapshotFigures(7, 0.0, 9_000.0, {"used": 90, "pending": 10}, {"coin": (3, 0.12)}, frozenset({"coin"}))
    for wrong, name, words in (
        (replace(figures, last_refit=("failed", 30.0)), "Last refit", "It ended 30 seconds ago, as failed."),
        (replace(figures, last_refit=("needs_review", 30.0)), "Last refit", "as needs review"),
        (replace(figures, first_leaderboard_is_late=True, votes_not_in_board=9), "Leaderboard", "9 votes wait"),
        (replace(figures, newest=newest, votes_not_in_board=1), "Leaderboard", "It is stale. Snapshot 7"),
        (replace(figures, newest=newest), "Rules that flag", "coin (12.0% of the votes)"),
        (replace(figures, imports={"failed": 2}), "Imports", "2 failed"),
        (replace(figures, deliveries={"given_up": 1}), "Webhooks", "1 given up"),
    ):
        check = check_of(name, wrong)
        assert check.tone != "good"
        assert words in check.words
        assert check.remedy
    assert list(what_became_of_votes(replace(figures, newest=newest)))[:2] == [
        ("count", 90),
        ("of annotators with too few votes", 10),
    ]
    assert database_is_away()[0].remedy


def test_what_is_well_needs_no_remedy(figures: ServiceFigures) -> None:
    newest = SnapshotFigures(7, 0.0, 10.0, {"used": 90}, {}, frozenset())
    well = replace(figures, newest=newest, last_refit=("done", 10.0))
    assert {check.tone for check in check_service(well)} == {"good"}
    running = check_of("Worker", replace(well, refits_running=1, refit_running_seconds=70.0))
    assert running.words == "A refit has been running for 1 minute."
