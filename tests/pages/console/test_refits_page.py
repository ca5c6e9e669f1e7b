"""Refits in the console: asking, watching, cancelling, accepting."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page as BrowserPage
from playwright.sync_api import expect

from app.refits.runner import RefitRunner
from tests.fixtures.browser import assert_accessible, assert_fits_phone
from tests.fixtures.console import SignIn

Ask = Callable[..., Any]


@pytest.mark.usefixtures("crowd")
def test_a_refit_is_asked_for_watched_and_cancelled(sign_in: SignIn, runner: RefitRunner, ask: Ask) -> None:
    admin = sign_in("admin")
    page = admin.page("/console/refits")
    assert page.text(".//div[@class='empty']/p[@class='lead']") == "No refit has run yet."
    asked = admin.submit(page, "/console/refits")
    address = asked.headers["location"]
    waiting = admin.page(address)
    assert waiting.text(".//span[@class='chip accent']") == "waiting"
    assert waiting.one(".//div[@id='refit']").get("hx-trigger") == "every 1s"
    cancelled = admin.submit(waiting, f"{address}/cancel")
    assert "To undo" in admin.page(cancelled.headers["location"]).text(".//div[@class='notice good flash']/p")
    assert admin.page(address).text(".//div[@role='status'][@class='card']/p[1]/span") == "cancelled"

    address = admin.submit(page, "/console/refits").headers["location"]
    runner.run_next(scheduled=False)
    done = admin.page(address)
    assert done.text(".//div[@role='status'][@class='card']/p[1]/span") == "published"
    assert "hx-trigger" not in done.one(".//div[@id='refit']").attrib
    assert {"fit", "publish", "read"} <= set(done.texts(".//tbody/tr/th"))
    assert admin.page("/console/refits").texts(".//tbody//span") == ["published", "cancelled"]


@pytest.mark.usefixtures("crowd")
def test_what_the_guard_held_back_is_accepted_with_a_reason(
    sign_in: SignIn, runner: RefitRunner, change_policy: Ask, refit: Ask, ask: Ask
) -> None:
    change_policy(on_low_ability="exclude", max_excluded_share=0.05)
    held = refit()
    assert held["state"] == "needs_review"
    reviewer = sign_in("review").page(f"/console/refits/{held['id']}")
    assert "would newly exclude" in reviewer.text(".//div[@class='card']/p/strong")
    assert not [form for form in reviewer.all(".//form") if form.get("action") == "/console/refits/accept"]
    admin = sign_in("admin")
    page = admin.page(f"/console/refits/{held['id']}")
    assert admin.submit(page, "/console/refits/accept", reason=" ").status_code == 422
    accepted = admin.submit(page, "/console/refits/accept", reason="a known ring of bots")
    runner.run_next(scheduled=False)
    assert (
        admin.page(accepted.headers["location"]).text(".//div[@role='status'][@class='card']/p[1]/span") == "published"
    )
    newest = ask("GET", "/audit", params={"action": "refit"}).json()["items"][0]
    assert newest["detail"] == {"reason": "a known ring of bots"}


@pytest.mark.browser
@pytest.mark.usefixtures("crowd")
def test_a_refit_runs_before_your_eyes(
    page: BrowserPage, console: Callable[[BrowserPage], None], runner: RefitRunner
) -> None:
    console(page)
    page.goto("/console/refits")
    assert_accessible(page)
    page.get_by_role("button", name="Refit now").click()
    expect(page.get_by_text("waiting")).to_be_visible()
    assert_accessible(page)
    runner.run_next(scheduled=False)
    expect(page.get_by_text("published", exact=True)).to_be_visible()
    assert_accessible(page)
    assert_fits_phone(page)
    page.get_by_role("link", name="See the leaderboard").click()
    expect(page).to_have_url("/")
