"""A reviewer's work in a real browser, from the sign-in to the undo."""

import json
import re
from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import text

from app.auth.sessions.service import make_link
from app.database.engine import Database
from app.refits.runner import RefitRunner
from tests.fixtures.arena import Arena
from tests.fixtures.browser import assert_accessible, assert_fits_phone, layout_shift

pytestmark = [pytest.mark.browser, pytest.mark.arena]


SINGLE = "[data-row][href^='/console/annotators']"  # groups are rows too


def sign_in(page: Page, key: str) -> None:
    page.goto("/console")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()


def test_the_worst_flag_is_excluded_and_taken_back(
    page: Page, keys: dict[str, str], arena: Arena, runner: RefitRunner
) -> None:
    page.goto("/")
    before = page.locator("main tbody").first.inner_text()
    sign_in(page, keys["admin"])
    expect(page).to_have_url(re.compile("/console/reviews$"))
    expect(page.get_by_role("heading", name="Review queue")).to_be_visible()
    page.wait_for_load_state()  # the script too
    page.keyboard.press("j")
    expect(page.locator("[data-row]").first).to_be_focused()
    worst = page.locator(SINGLE).first
    name = worst.inner_text()
    worst.focus()
    page.keyboard.press("o")
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    impact = page.locator("#impact")
    expect(impact.get_by_role("heading")).to_have_text("If the votes were left out", timeout=60_000)
    expect(impact.locator("tbody tr").first).to_be_visible()
    assert layout_shift(page) == 0, "the preview has its place before it arrives"
    page.keyboard.press("e")
    page.get_by_label("Why").fill("votes against the ranking")
    page.get_by_role("button", name="Decide").click()
    expect(page).to_have_url(re.compile("/console/annotators/.*queue=1$"))  # the next case
    notice = page.locator(".flash")
    expect(notice).to_contain_text(f"{name} is excluded")
    page.get_by_role("link", name="Back to the queue").click()
    expect(page.locator("[data-row]").get_by_text(name, exact=True)).to_have_count(0)
    page.goto("/console/refits")
    page.get_by_role("button", name="Refit now").click()
    page.wait_for_url("**/console/refits/*")
    assert runner.run_next(scheduled=False) is not None
    page.goto("/")
    expect(page.locator("main tbody").first).to_contain_text("Meridian 4")
    assert page.locator("main tbody").first.inner_text() != before, "the leaderboard moved"
    page.goto("/console/annotators?standing=excluded")
    page.get_by_role("link", name=name).click()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".flash")).to_contain_text("taken back")
    expect(page.get_by_role("heading", level=1)).to_contain_text("flagged")


def test_pages_are_accessible_and_fit_a_phone(page: Page, keys: dict[str, str], arena: Arena) -> None:
    page.goto("/console/sign-in")
    check(page)
    sign_in(page, keys["admin"])
    pages = ("reviews", "reviews?watch=1", "appeals", "annotators", "sessions")
    for address in pages:
        page.goto(f"/console/{address}")
        check(page)
    page.goto("/console/reviews")
    page.locator(SINGLE).first.click()
    expect(page.locator("#impact-title")).to_be_visible(timeout=60_000)
    page.locator(".vote summary").first.click()
    check(page)
    page.get_by_role("link", name="All votes").click()
    check(page)


def test_a_group_is_excluded_and_taken_back(page: Page, keys: dict[str, str], arena: Arena, database: Database) -> None:
    evidence = json.dumps({"rule": "favour", "strength": 4, "tests": {"favour": 4}, "about": {"favour": "Lumen 2"}})
    with database.begin() as conn:
        statement = "UPDATE snapshot_annotators SET evidence = CAST(:evidence AS jsonb) WHERE rule_standing = 'flagged'"
        assert conn.execute(text(statement), {"evidence": evidence}).rowcount > 1
    sign_in(page, keys["review"])
    group = page.locator("[data-row]").first
    title = group.inner_text()
    assert re.fullmatch(r"\d+ annotators, one model", title)
    check(page)
    group.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{title}: Lumen 2")
    check(page)
    page.get_by_label("Exclude").check()
    page.get_by_label("Why").fill("they push one model")
    page.get_by_role("button", name="Decide").click()
    expect(page.locator(".flash")).to_contain_text("each is excluded")
    expect(page.get_by_role("link", name=title)).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".flash")).to_contain_text("are taken back")
    expect(page.get_by_role("link", name=title)).to_be_visible()


def check(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert_accessible(page)
    page.emulate_media(color_scheme="light")
    assert_fits_phone(page)


def test_the_search_finds_while_one_types_and_keys_can_be_switched_off(
    page: Page, keys: dict[str, str], arena: Arena
) -> None:
    sign_in(page, keys["review"])
    page.goto("/console/annotators")
    page.keyboard.press("/")
    expect(page.get_by_label("Key or id")).to_be_focused()
    page.keyboard.type(arena.excluded[:-1])
    rows = page.locator("[data-row]")
    expect(rows).to_have_text([arena.excluded])
    expect(page).to_have_url(re.compile("q=rater"))
    page.get_by_label("Key or id").blur()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    assert_accessible(page)
    dialog.get_by_label("Use these keys").uncheck()
    page.keyboard.press("Escape")
    page.reload()
    page.keyboard.press("?")
    expect(dialog).to_be_hidden()
    page.keyboard.press("j")
    expect(rows.first).not_to_be_focused()
    page.get_by_role("button", name="Keyboard").click()
    expect(dialog.get_by_label("Use these keys")).not_to_be_checked()


def test_everything_works_without_scripts(
    page_without_scripts: Page, keys: dict[str, str], arena: Arena, database: Database
) -> None:
    page = page_without_scripts
    with database.begin() as conn:
        ticket = make_link(conn, keys["review"].split("_")[1], lifetime=timedelta(minutes=1), actor="a test")
    page.goto(f"/console/sign-in?ticket={ticket}")
    page.get_by_role("button", name="Sign in as review key").click()
    page.locator(SINGLE).first.click()
    page.get_by_role("link", name="Show it on a page of its own").click()
    expect(page.locator("#impact-title")).to_be_visible(timeout=60_000)
    page.go_back()
    page.get_by_label("Dismiss the flag").check()
    page.get_by_label("Why").fill("bad luck")
    page.get_by_role("button", name="Decide").click()
    expect(page.locator(".flash")).to_contain_text("has no open flag any more")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("flagged")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are signed out")).to_be_visible()
