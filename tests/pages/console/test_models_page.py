"""The console's page of models, and the votes on a pair of them."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page as BrowserPage

from tests.fixtures.arena import Arena
from tests.fixtures.browser import assert_accessible, assert_fits_phone
from tests.fixtures.console import SignIn, Visitor
from tests.fixtures.pages import text_of

Ask = Callable[..., Any]
MODELS = "/console/models"


def said(admin: Visitor) -> str:
    return admin.page(MODELS).text(".//div[@role='status']")


def test_a_codename_is_added_and_published(sign_in: SignIn, ask: Ask, crowd: list[str], refit: Ask) -> None:
    admin = sign_in("admin")
    admin.submit(admin.page(MODELS), MODELS, model="lynx", organization="Zoo")
    assert "lynx is on record" in said(admin)
    found = ask("GET", "/models/lynx").json()
    assert (found["unreleased"], found["organization"]) == (True, "Zoo")
    votes = [
        {"model_a": "lynx", "model_b": f"model {k % 6}", "winner": "tie", "annotator": f"honest {k % 12}"}
        for k in range(120)
    ]
    assert ask("POST", "/votes/batch", json={"votes": votes}).status_code == 200
    refit()
    for scope in ("admin", "review:read"):
        page = sign_in(scope).page(MODELS)
        cells = [text_of(cell) for cell in page.all(".//tbody/tr/*")]
        assert cells[:2] == ["lynx", "Zoo"]
        assert cells[2] != "–"
        assert cells[3] == "120"
        assert bool(page.all(".//main//form[@method='post']")[1:]) == (scope == "admin"), "beside signing out"
    admin.submit(admin.page(MODELS), f"{MODELS}/publish", name="model 0")
    assert "Nothing was changed: there is a model 'model 0' already." in said(admin)
    assert ask("GET", "/models/lynx").json()["unreleased"], "not half published"
    admin.submit(admin.page(MODELS), f"{MODELS}/publish", name="Lynx 2")
    assert "Lynx 2 is public" in said(admin)
    assert ask("GET", "/models/lynx").json()["name"] == "Lynx 2"
    assert "Every model is public." in admin.page(MODELS).texts(".//p")


def test_a_model_is_archived_with_a_reason_and_shown_again(sign_in: SignIn, ask: Ask, crowd: list[str]) -> None:
    admin = sign_in("admin")
    form = admin.page(MODELS)
    assert admin.submit(form, f"{MODELS}/archive", model="model 1", reason=" ").status_code == 422
    admin.submit(form, f"{MODELS}/archive", model="model 1", reason="no longer <served>")
    assert "model 1 is archived." in said(admin)
    assert "no longer <served>" in [text_of(cell) for cell in admin.page(MODELS).all(".//tbody/tr/td")]
    assert ask("GET", "/models/model 1").json()["archive_reason"] == "no longer <served>"
    admin.submit(admin.page(MODELS), f"{MODELS}/restore")
    assert "model 1 is shown on leaderboards again." in said(admin)
    admin.submit(admin.page(MODELS), f"{MODELS}/archive", model="nothing", reason="x")
    assert "Nothing was changed: there is no model 'nothing'." in said(admin)
    reviewer = sign_in("review")
    fields = {"csrf_token": reviewer.page(MODELS).all(".//input[@name='csrf_token']")[0].get("value", "")}
    assert reviewer.post(f"{MODELS}/archive", {**fields, "model": "model 1", "reason": "x"}).status_code == 403


def test_the_votes_on_a_pair(sign_in: SignIn, ask: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    reviewer = sign_in("review:read")
    cells = reviewer.page("/matchups").all(".//table[@class='heat']/tbody/tr/td/a")
    compare = next(one.get("href", "") for one in cells if "model+0" in one.get("href", ""))
    votes = next(link for link in reviewer.page(compare).links if link.startswith("/console/votes?"))
    page = reviewer.page(votes)
    rows = [[text_of(cell) for cell in row] for row in page.all(".//tbody/tr")]
    assert rows
    named = {frozenset(row[1:3]) for row in rows}
    assert len(named) == 1, "one pair, on both sides"
    a, b = named.pop()
    counted = ask("GET", "/matchups", params={"model": a, "limit": 200}).json()["items"]
    (pair,) = [one for one in counted if one["model_b"] == b]
    older = [link for link in page.links if "before=" in link]
    while older:
        page = reviewer.page(f"/console/votes{older[0]}")
        rows += [[text_of(cell) for cell in row] for row in page.all(".//tbody/tr")]
        older = [link for link in page.links if "before=" in link]
    assert len(rows) == pair["votes"]
    assert sign_in("read").get(votes).status_code == 403
    assert reviewer.get("/console/votes?a=nothing&b=model 0").status_code == 404
    assert "No votes" in reviewer.page("/console/votes?a=model 0&b=model 0").texts(".//h2")


@pytest.mark.browser
@pytest.mark.arena
def test_the_pages_are_accessible_and_fit_a_phone(
    arena: Arena, page: BrowserPage, console: Callable[[BrowserPage], None], ask: Ask
) -> None:
    assert ask("POST", "/models", json={"name": "lynx", "organization": "Zoo", "unreleased": True}).status_code == 201
    console(page)
    votes = "/console/votes?a=Meridian 4&b=Lumen 2"
    for address in (MODELS, "/console/start", votes, "/console/policy", "/governance", "/matchups"):
        page.goto(address)
        assert_accessible(page)
        assert_fits_phone(page)
    page.goto("/console/policy")
    page.get_by_text("More settings").click()
    assert_accessible(page)
