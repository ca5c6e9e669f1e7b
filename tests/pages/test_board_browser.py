"""The leaderboard in a real browser."""

from collections.abc import Callable
from typing import Any

import pytest
from httpx import Client
from playwright.sync_api import Page, expect

from tests.fixtures.browser import NewPage, assert_accessible, assert_fits_phone, layout_shift

pytestmark = pytest.mark.browser

Publish = Callable[..., int]


def board_of(order: list[str], **first: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """Return a leaderboard of these models, the best first."""
    return {
        ("am-elo", ""): {name: {"class_rank": 1, **(first if place == 0 else {})} for place, name in enumerate(order)}
    }


@pytest.mark.arena
def test_everyone_can_read_it(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("table")).to_contain_text("Meridian 4")
    assert_accessible(page)
    assert_fits_phone(page)
    page.goto("/embed?theme=dark")
    assert_accessible(page)
    assert_fits_phone(page)


@pytest.mark.arena
def test_without_scripts_it_is_the_same_page(page_without_scripts: Page) -> None:
    page = page_without_scripts
    page.goto("/")
    first = page.locator("tbody th a").all_inner_texts()
    page.get_by_role("searchbox").fill("basalt")
    page.get_by_role("button", name="Search").click()
    assert set(page.locator("tbody th a").all_inner_texts()) == {"Basalt 70B Instruct", "Basalt 13B"}
    page.goto("/")
    page.get_by_role("link", name="Model", exact=True).click()
    assert page.locator("tbody th a").all_inner_texts() == sorted(first, key=str.casefold)
    page.get_by_role("link", name="m-ELO", exact=True).first.click()
    page.get_by_text("How sure is it?").click()
    expect(page.locator(".about")).to_contain_text("every annotator weighs the same")


@pytest.mark.arena
def test_search_sort_and_methods_change_the_table_alone(page: Page) -> None:
    page.goto("/")
    page.evaluate("window.stayed = true")
    page.get_by_role("searchbox").press_sequentially("BASALT")
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page).to_have_url("/?q=BASALT")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.get_by_role("searchbox").fill("")
    expect(page.locator("tbody tr")).not_to_have_count(2)
    page.get_by_role("link", name="Votes", exact=True).click()
    expect(page.get_by_role("columnheader", name="Votes")).to_have_attribute("aria-sort", "descending")
    page.get_by_role("link", name="m-ELO", exact=True).first.click()
    expect(page.locator(".tabs [aria-current]").last).to_have_text("m-ELO")
    assert page.evaluate("window.stayed")
    page.go_back()
    expect(page.get_by_role("columnheader", name="Votes")).to_have_attribute("aria-sort", "descending")
    page.get_by_role("link", name="Meridian 4", exact=True).click()
    expect(page).to_have_url("/models/Meridian%204")


def test_a_new_snapshot_appears_where_the_reader_is(page: Page, publish: Publish) -> None:
    names = [f"model {number:02d}" for number in range(40)]
    publish(board_of(names))
    with page.expect_response("**/events"):
        page.goto("/")
    page.evaluate("window.stayed = true; document.querySelectorAll('tbody tr')[25].scrollIntoView()")
    page.locator("tbody th a").nth(25).focus()
    place, shifted = page.evaluate("scrollY"), layout_shift(page)
    assert place > 500

    moved = [names[1], names[0], *names[2:]]
    number = publish(board_of(moved, lower=900.0))
    expect(page.locator("#board")).to_have_attribute("data-snapshot", str(number))
    expect(page.locator("tbody th a").first).to_have_text("model 01")
    expect(page.locator("tbody tr").first).to_contain_text("▲")
    assert page.evaluate("scrollY") == place
    assert page.locator("tbody th a").nth(25).evaluate("(link) => link === document.activeElement")
    assert layout_shift(page) == shifted
    assert page.evaluate("window.stayed")


def test_the_first_snapshot_appears_too_and_a_past_one_stays(page: Page, publish: Publish, new_page: NewPage) -> None:
    page.goto("/")
    expect(page.get_by_text("No leaderboard has been published yet.")).to_be_visible()
    assert_accessible(page)
    first = publish(board_of(["ant", "bee"]))
    expect(page.locator(".verdict")).to_contain_text("ant leads")

    past = new_page()
    past.goto(f"/?snapshot={first}")
    publish(board_of(["bee", "ant"]))
    expect(page.locator(".verdict")).to_contain_text("bee leads")
    expect(past.locator(".verdict")).to_contain_text("ant leads")
    assert_accessible(past)
    assert_fits_phone(past)


def test_a_search_that_fails_says_so_and_keeps_the_table(page: Page, publish: Publish, page_problems: Any) -> None:
    page_problems.expect("status of 422")
    publish(board_of(["ant", "bee"]))
    page.goto("/")
    page.locator("#q").evaluate("(field) => { field.removeAttribute('maxlength') }")
    page.get_by_role("searchbox").fill("x" * 300)
    expect(page.get_by_role("alert")).to_contain_text("The input is not valid")
    expect(page.locator("tbody tr")).to_have_count(2)


def test_an_error_page_can_be_read(page: Page, page_problems: Any) -> None:
    page_problems.expect("status of 404")
    page.goto("/nowhere")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    assert_accessible(page)
    assert_fits_phone(page)


def test_another_page_shows_the_embedded_board_in_a_frame(page: Page, client: Client, publish: Publish) -> None:
    publish(board_of(["ant", "bee"]))
    page.route(
        "/framing",
        lambda route: route.fulfill(
            body="<!doctype html><html lang=en><title>Framing</title><iframe title=Board src=/embed?limit=1></iframe>",
            content_type="text/html",
        ),
    )
    page.goto("/framing")
    framed = page.frame_locator("iframe")
    expect(framed.locator("tbody tr")).to_have_count(1)
    expect(framed.get_by_role("link", name="The whole leaderboard")).to_be_visible()


def test_a_page_that_was_refused_the_news_asks_again(page: Page, publish: Publish, page_problems: Any) -> None:
    page_problems.expect("status of 503")
    publish(board_of(["ant", "bee"]))
    page.clock.install()
    page.route("**/events", lambda route: route.fulfill(status=503), times=1)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/events") else None)
    page.goto("/")
    publish(board_of(["bee", "ant"]))
    for _ in range(100):
        page.clock.run_for(10_000)
        if len(asked) > 1:
            break
    expect(page.locator(".verdict")).to_contain_text("bee leads")
