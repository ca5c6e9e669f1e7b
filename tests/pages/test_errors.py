"""Errors are pages where a page was asked for, and problems everywhere else."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from httpx import Client

from app.main import create_app
from app.settings import Settings
from tests.fixtures.application import Assemble
from tests.fixtures.pages import Page, policy_of

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def test_a_browser_gets_a_page_and_a_program_a_problem(client: Client, assert_problem: Callable[..., Any]) -> None:
    response = client.get("/nowhere/<b>", headers=BROWSER)
    page = Page(response)

    assert response.status_code == 404
    assert page.text(".//h1") == "Not found"
    assert "<b>" not in response.text
    assert "There is nothing at /nowhere/<b>." in page.text(".//main")
    assert response.headers["x-request-id"] in page.text(".//main")
    assert "/" in page.links
    assert policy_of(response)["default-src"] == ["'none'"]
    assert "Accept" in response.headers["Vary"]
    assert_problem(client.get("/nowhere"), 404, "not-found")
    assert_problem(client.get("/api/v1/nowhere", headers=BROWSER), 404, "not-found")


def test_a_wrong_method_is_a_page_too(client: Client) -> None:
    response = client.post("/", headers=BROWSER)

    assert (response.status_code, response.headers["Allow"]) == (405, "GET, HEAD")
    assert Page(response).text(".//h1") == "The method is not allowed"


def test_a_part_of_a_page_that_fails_is_a_notice_on_that_page(client: Client) -> None:
    response = client.get("/nowhere", headers={**BROWSER, "HX-Request": "true"})

    assert response.status_code == 404
    assert Page(response).text("div/p/strong") == "Not found."
    assert response.headers["HX-Retarget"] == "#notices"
    assert response.headers["HX-Reselect"] == ".notice"


def test_a_failure_is_a_page_that_says_nothing_of_its_cause(
    settings: Settings, serving: Callable[[FastAPI], Any]
) -> None:
    app = create_app(settings)

    @app.get("/broken", include_in_schema=False)
    def fail() -> None:
        raise RuntimeError("a secret")

    with serving(app) as url, Client(base_url=url, timeout=120) as client:
        response = client.get("/broken", headers=BROWSER)
    assert response.status_code == 500
    assert "secret" not in response.text
    assert Page(response).text(".//h1") == "The service failed"
    assert response.headers["x-request-id"] in response.text


def test_a_closed_leaderboard_asks_for_a_key(
    settings: Settings, serving: Callable[[FastAPI], Any], assemble: Assemble
) -> None:
    closed = assemble(settings.model_copy(update={"public_leaderboard": False}))
    with serving(closed) as url, Client(base_url=url, timeout=120) as client:
        response = client.get("/?tag=code")
        part = client.get("/", headers={"HX-Request": "true", "HX-Current-URL": f"{url}/?tag=code"})
        odd = client.get("/", headers={"HX-Request": "true", "HX-Current-URL": "http://["})
        form = client.get(response.headers["location"])
    assert (response.status_code, response.headers["location"]) == (303, "/console/sign-in?after=/%3Ftag%3Dcode")
    assert (part.status_code, part.headers["hx-redirect"]) == (401, "/console/sign-in?after=/")
    assert (odd.status_code, odd.headers["hx-redirect"]) == (401, "/console/sign-in?after=")
    assert Page(form).one(".//input[@name='after']").get("value") == "/?tag=code"
