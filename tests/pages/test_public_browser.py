"""Models, matchups, comparisons, the history and the method in a real browser."""

import pytest
from playwright.sync_api import Page, expect

from app.database.engine import Database
from app.leaderboard.charts import draw_newest
from app.pages.formatting import model_address
from tests.fixtures.browser import PageProblems, assert_accessible, assert_fits_phone
from tests.fixtures.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.arena]


def test_everyone_can_read_every_page(page: Page, database: Database) -> None:
    draw_newest(database)
    for address in (
        model_address("open/Birch <2>"),
        model_address("Old Meridian 3"),
        model_address("Pebble 1B"),
        "/matchups",
        "/matchups?show=predicted&model=Juniper+8B&model=Basalt+13B",
        "/compare?a=Meridian+4&b=Tern+7B+Chat",
        "/compare?a=Pebble+1B&b=Basalt+13B",
        "/categories",
        "/history",
        "/history/difference?before=1&after=4",
        "/method",
        "/governance",
    ):
        page.goto(address)
        assert_accessible(page)
        assert_fits_phone(page)


def test_on_a_phone_the_chosen_page_is_in_sight_in_the_menu(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/governance")
    expect(page.locator(".top nav [aria-current]")).to_be_in_viewport(ratio=1)


def test_names_that_are_wrong_are_marked(page: Page, page_problems: PageProblems) -> None:
    page_problems.expect("status of 404")
    page.goto("/compare?a=nothing&b=Basalt+13B")
    expect(page.get_by_label("First model")).to_have_accessible_description("There is no model 'nothing'.")
    assert_accessible(page)


def test_from_a_pair_in_the_table_to_the_comparison_without_scripts(page_without_scripts: Page) -> None:
    page = page_without_scripts
    page.goto("/matchups")
    page.get_by_role("link", name="Predicted").click()
    page.get_by_text("Choose models").click()
    page.get_by_label("Models to show").select_option(["Meridian 4", "Halcyon Pro", "open/Birch <2>"])
    page.get_by_role("button", name="Show them").click()
    assert set(page.locator(".heat thead th").all_inner_texts()) == {"Meridian 4", "Halcyon Pro", "open/Birch <2>"}
    expect(page.locator(".heat tbody tr")).to_have_count(3)
    expect(page.get_by_role("link", name="Predicted")).to_have_attribute("aria-current", "true")
    page.get_by_role("link", name="open/Birch <2>").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("open/Birch <2>")
    page.get_by_role("link", name="compare with Halcyon Pro").click()
    expect(page.get_by_label("First model")).to_have_value("open/Birch <2>")
    page.get_by_label("Second model").fill("Pebble 1B")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator(".verdict")).to_have_text("open/Birch <2> is better.")


def test_the_table_of_win_rates_scrolls_by_keyboard(page: Page) -> None:
    page.set_viewport_size({"width": 700, "height": 900})
    page.goto("/matchups")
    region = page.get_by_role("region", name="Observed win rates")
    region.focus()
    page.keyboard.press("ArrowRight")
    wait_until(lambda: page.evaluate("document.querySelector('.scroll').scrollLeft > 0"))
    first = page.locator(".heat tbody th").first
    assert first.bounding_box()["x"] >= region.bounding_box()["x"], "the models' names stay in view"  # type: ignore[index]


def test_from_the_history_to_what_changed(page: Page) -> None:
    page.goto("/history")
    page.get_by_label("From snapshot").fill("1")
    page.get_by_label("To snapshot").fill("3")
    page.get_by_role("button", name="What changed?").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("From snapshot 1 to 3")
    page.get_by_text("with the same rank").click()
    expect(page.get_by_role("table").last).to_contain_text("Meridian 4")


def test_charts_take_the_colours_of_the_page(page: Page, database: Database) -> None:
    draw_newest(database)
    page.goto("/method")
    ink = "getComputedStyle(document.querySelector('.chart text')).fill"
    page.emulate_media(color_scheme="light")
    light = page.evaluate(ink)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(ink) != light
    filled = "getComputedStyle(document.querySelector('.chart .mark-rect path')).fill"
    assert page.evaluate(filled) not in ("none", "rgb(0, 0, 0)"), "the stylesheet has the colours that the chart names"
