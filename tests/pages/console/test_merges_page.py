"""The console's list of merges and of models that changed."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page as BrowserPage
from playwright.sync_api import expect

from tests.fixtures.browser import assert_accessible, assert_fits_phone
from tests.fixtures.console import SignIn, Visitor
from tests.fixtures.pages import text_of

Ask = Callable[..., Any]
LIST = "/console/merges"


@pytest.fixture
def admin(sign_in: SignIn, ask: Ask) -> Visitor:
    """An admin of an arena with three models."""
    for name in ("GPT4", "open/GPT-4 <2>", "Claude"):
        assert ask("POST", "/models", json={"name": name}).status_code == 201
    return sign_in("admin")


def rows(admin: Visitor) -> list[list[str]]:
    """The first four cells of every row of the list."""
    return [[text_of(cell) for cell in row][:4] for row in admin.page(LIST).all(".//tbody/tr")]


def said(admin: Visitor) -> str:
    return admin.page(LIST).text(".//div[@role='status']")


def test_a_model_is_merged_and_the_merge_taken_back(admin: Visitor, ask: Ask) -> None:
    page = admin.page(LIST)
    assert page.text(".//h1") == "Merges"
    assert {option.get("value") for option in page.all(".//datalist/option")} == {"GPT4", "open/GPT-4 <2>", "Claude"}
    answer = admin.submit(page, LIST, model="GPT4", into="open/GPT-4 <2>", reason="a <typing> error")
    assert (answer.status_code, answer.headers["location"]) == (303, LIST)
    assert "Votes on GPT4 count for open/GPT-4 <2> from the next refit on." in said(admin)
    assert rows(admin) == [["GPT4", "all", "open/GPT-4 <2>", "a <typing> error"]]
    merged = {one["name"]: one["merged_into"] for one in ask("GET", "/models").json()["items"]}
    assert merged == {"GPT4": "open/GPT-4 <2>", "open/GPT-4 <2>": None, "Claude": None}

    admin.submit(admin.page(LIST), f"{LIST}/unmerge", reason="they differ")
    assert "Votes on GPT4 count for itself" in said(admin)
    assert rows(admin) == []
    entries = ask("GET", "/audit", params={"subject": "GPT4"}).json()["items"]
    assert [entry["action"] for entry in entries] == ["model.unmerge", "model.merge", "model.add"]
    assert {entry["actor"] for entry in entries[:2]} == {"admin key"}


def test_a_model_is_marked_as_changed_and_the_mark_taken_back(admin: Visitor, ask: Ask) -> None:
    admin.submit(admin.page(LIST), f"{LIST}/changed", model="Claude", at="2026-01-31", reason="new weights")
    assert "Votes on Claude before that time count for Claude (before 2026-01-31)" in said(admin)
    ((model, before, into, why),) = rows(admin)
    assert (model, into, why) == ("Claude", "Claude (before 2026-01-31)", "new weights")
    assert before == "31 Jan 2026, 00:00 UTC"
    assert ask("POST", "/models/Claude/merge", json={"into": "GPT4"}).status_code == 200
    assert [row[1] for row in rows(admin)] == ["all", before], "both hold"

    admin.submit(admin.page(LIST), f"{LIST}/unchanged", reason="it was the other one")
    assert "The votes before that time count for Claude" in said(admin)
    assert [row[:3] for row in rows(admin)] == [["Claude", "all", "GPT4"]]


@pytest.mark.parametrize(
    ("action", "fields", "why"),
    [
        (LIST, {"model": "Gemini", "into": "GPT4"}, "there is no model 'Gemini'"),
        (LIST, {"model": "GPT4", "into": "GPT4"}, "'GPT4' cannot be merged into itself"),
        (f"{LIST}/changed", {"model": "GPT4", "at": "2999-01-01"}, "the time lies in the future"),
    ],
)
def test_what_cannot_be_is_said_on_the_list(admin: Visitor, action: str, fields: dict[str, str], why: str) -> None:
    assert admin.submit(admin.page(LIST), action, **fields, reason="x").status_code == 303
    assert f"Nothing was changed: {why}." in said(admin)
    assert rows(admin) == []


def test_an_unreadable_form_is_refused(admin: Visitor) -> None:
    for fields in (
        {"model": "GPT4", "at": "soon", "reason": "x"},
        {"model": "GPT4", "at": "2026-01-31", "reason": " "},
    ):
        answer = admin.submit(admin.page(LIST), f"{LIST}/changed", **fields)
        assert answer.status_code == 422
        assert "text/html" in answer.headers["content-type"]
    assert rows(admin) == []


@pytest.mark.browser
@pytest.mark.arena
def test_merges_in_a_browser(page: BrowserPage, console: Callable[[BrowserPage], None]) -> None:
    console(page)
    page.goto(LIST)
    merge = page.locator("section", has=page.get_by_role("heading", name="Merge a model into another"))
    merge.get_by_label("Model", exact=True).fill("Tern 7B Chat")
    merge.get_by_label("Its votes count for").fill("Tern 34B Chat")
    merge.get_by_label("Why").fill("one model under two names")
    merge.get_by_role("button", name="Merge").click()
    expect(page.get_by_role("status")).to_contain_text("Votes on Tern 7B Chat count for Tern 34B Chat")
    assert_accessible(page)
    assert_fits_phone(page)
    row = page.get_by_role("row", name="Tern 7B Chat")
    row.get_by_text("Take back…").click()
    row.get_by_label("Why").fill("a mistake")
    assert_accessible(page)
    row.get_by_role("button", name="Take it back").click()
    expect(page.get_by_text("Every vote counts for the model")).to_be_visible()
