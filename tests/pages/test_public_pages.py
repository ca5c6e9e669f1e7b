"""What holds of the pages that everyone may read: they name no annotator, and a closed service closes all of them."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import Client
from sqlalchemy import select

from app.database.engine import Database
from app.database.tables import annotators
from app.leaderboard.charts import draw_newest
from app.settings import Settings
from tests.fixtures.application import Assemble
from tests.fixtures.console import Visitor

PAGES = (
    "/",
    "/embed",
    "/models/model%200",
    "/matchups",
    "/matchups?show=predicted",
    "/compare",
    "/history",
    "/history/difference?before=1&after=2",
    "/method",
    "/governance",
)


@pytest.mark.comparisons
@pytest.mark.usefixtures("stored_crowd")
def test_no_page_names_an_annotator(client: Client, database: Database, run_refit: Callable[..., Any]) -> None:
    for _ in range(2):
        run_refit()
    draw_newest(database)
    with database.read() as conn:
        rows = conn.execute(select(annotators.c.key, annotators.c.public_id)).all()
    names = {str(name) for row in rows for name in row}
    assert "flip 12" in names
    for page in PAGES:
        response = client.get(page)
        assert response.status_code == 200, (page, response.text)
        assert not [name for name in names if name in response.text], page


def test_a_closed_service_closes_every_page(
    settings: Settings, serving: Callable[[FastAPI], Any], assemble: Assemble
) -> None:
    closed = assemble(settings.model_copy(update={"public_leaderboard": False}))
    with serving(closed) as url, Client(base_url=url, timeout=120) as visitor:
        answers = [visitor.get(page, headers={"Accept": "text/html"}) for page in PAGES]
    assert {answer.status_code for answer in answers} == {303}
    assert all(answer.headers["Location"].startswith("/console/sign-in") for answer in answers)


def test_no_cache_keeps_the_pages_of_a_closed_service(
    settings: Settings, serving: Callable[[FastAPI], Any], assemble: Assemble, keys: dict[str, str]
) -> None:
    closed = assemble(settings.model_copy(update={"public_leaderboard": False}))
    with serving(closed) as url, Client(base_url=url, timeout=120) as client:
        visitor = Visitor(client)
        visitor.post("/console/sign-in", {"key": keys["read"]})
        for page in ("/", "/embed", "/matchups", "/compare", "/history", "/method"):
            answer = visitor.get(page)
            assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store"), page
            assert "Cookie" in answer.headers["vary"], page
