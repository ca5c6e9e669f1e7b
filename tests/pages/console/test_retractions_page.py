"""The console's list of retractions."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page as BrowserPage
from playwright.sync_api import expect

from tests.fixtures.browser import assert_accessible, assert_fits_phone
from tests.fixtures.console import SignIn
from tests.fixtures.pages import Page

Ask = Callable[..., Any]
LIST = "/console/retractions"


def test_votes_are_retracted_and_taken_back(sign_in: SignIn, ask: Ask, vote: Ask) -> None:
    for annotator in ("ann", "ben"):
        vote(annotator=annotator, battle_id="b17")
    reviewer = sign_in("review")
    page = reviewer.page(LIST)
    assert page.text(".//h1") == "Retractions"
    assert "No vote has been retracted." in reviewer.get(LIST).text
    answer = reviewer.submit(page, LIST, target="battle", id=" b17 ", reason="the answers were <swapped>")
    assert (answer.status_code, answer.headers["location"]) == (303, LIST)
    (made,) = ask("GET", "/retractions").json()["items"]
    assert (made["target"], made["votes"], made["reason"]) == ("battle", 2, "the answers were <swapped>")
    listed = reviewer.page(LIST)
    assert "2 votes will not count" in listed.text(".//div[@role='status']")
    assert listed.texts(".//tbody/tr/td")[:3] == ["b17", "2", "the answers were <swapped>"]

    reviewer.submit(listed, f"{LIST}/{made['id']}/withdraw", reason="they were right")
    (back,) = ask("GET", "/retractions").json()["items"]
    assert back["withdrawal_reason"] == "they were right"
    after = reviewer.page(LIST)
    assert "2 votes may count again" in after.text(".//div[@role='status']")
    assert "they were right" in after.texts(".//tbody/tr/td")[-1]
    assert not after.all(".//tbody//form")


def test_what_cannot_be_is_said_on_the_list(sign_in: SignIn, ask: Ask, vote: Ask) -> None:
    vote(annotator="ann", battle_id="b1")
    reviewer = sign_in("review")
    reviewer.submit(reviewer.page(LIST), LIST, target="battle", id="b2", reason="none such")
    assert "Nothing was retracted: " in reviewer.page(LIST).text(".//div[@role='status']")
    reviewer.submit(reviewer.page(LIST), LIST, target="battle", id="b1", reason="a misclick")
    vote(annotator="ann", battle_id="b1", winner="model_b")
    (made,) = ask("GET", "/retractions").json()["items"]
    reviewer.submit(reviewer.page(LIST), f"{LIST}/{made['id']}/withdraw", reason="no")
    assert "retract that one first" in reviewer.page(LIST).text(".//div[@role='status']")
    assert ask("GET", "/retractions").json()["items"][0]["withdrawn_at"] is None
    answer = reviewer.submit(reviewer.page(LIST), LIST, target="planet", id="b1", reason="x")
    assert answer.status_code == 422
    assert "text/html" in answer.headers["content-type"]


def test_who_may_read_sees_no_form(sign_in: SignIn, ask: Ask, vote: Ask) -> None:
    vote(battle_id="b1")
    body = {"target": "battle", "id": "b1", "reason": "swapped"}
    (made,) = [ask("POST", "/retractions", scope="review", json=body).json()]
    reader = sign_in("review:read")
    page = reader.page(LIST)
    assert page.text(".//span[@class='chip warn']") == "void"
    assert not [form for form in page.all(".//form") if form.get("action", "").startswith(LIST)]
    token = Page(reader.get("/console/sessions")).one(".//input[@name='csrf_token']").get("value", "")
    for path in (LIST, f"{LIST}/{made['id']}/withdraw"):
        assert reader.post(path, {**body, "csrf_token": token}).status_code == 403


@pytest.mark.browser
@pytest.mark.arena
def test_retractions_in_a_browser(page: BrowserPage, console: Callable[[BrowserPage], None]) -> None:
    console(page)
    page.goto(LIST)
    page.get_by_label("What").select_option("model")
    page.get_by_label("Which").fill("Halcyon Pro")
    page.get_by_label("Why").fill("its answers came from another model")
    page.get_by_role("button", name="Retract").click()
    expect(page.get_by_role("status")).to_contain_text("will not count from the next refit on")
    assert_accessible(page)
    assert_fits_phone(page)
    row = page.get_by_role("row", name="Halcyon Pro")
    row.get_by_text("Take back…").click()
    row.get_by_label("Why").fill("a mistake")
    assert_accessible(page)
    row.get_by_role("button", name="Take it back").click()
    expect(page.get_by_role("row", name="Halcyon Pro")).to_contain_text("taken back")
