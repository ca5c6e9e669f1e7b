"""What a reader comes for, by keyboard alone, on a phone and on a desk, in light and in dark."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.fixtures.browser import DESKTOP, NewPage, assert_accessible, assert_fits_phone, tab_to

pytestmark = pytest.mark.browser

Publish = Callable[..., int]

LOOKS = {
    "phone, dark": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
    "desk, light": {"viewport": DESKTOP, "color_scheme": "light"},
}
"""`assert_accessible` looks at the colours of both schemes in each."""


@pytest.fixture(params=LOOKS)
def reader(request: pytest.FixtureRequest, new_page: NewPage, publish: Publish) -> Page:
    """A reader of an arena with 13 groups of six models each, `model 1-1` to `model 13-6`."""
    names = [(group, place) for group in range(1, 14) for place in range(1, 7)]
    rows: dict[str, dict[str, Any]] = {
        f"model {group}-{place}": {"component": group - 1, "rank": place, "votes": 900 - 60 * group}
        for group, place in names
    }
    for row in rows.values():
        group, below = row["component"] + 1, range(row["rank"] + 4, 7)
        row["class_rank"] = 1 + (row["rank"] > 4)
        row["likely"] = [f"model {group}-{place}" for place in below[:1]]
        row["better"] = [f"model {group}-{place}" for place in below[1:]]
        row |= {"score": 1200 - 20 * row["rank"], "lower": 1170 - 20 * row["rank"], "upper": 1230 - 20 * row["rank"]}
    for _ in range(3):
        publish({("am-elo", ""): rows, ("m-elo", ""): rows})
    page = new_page(**LOOKS[request.param], permissions=["clipboard-read", "clipboard-write"])
    page.goto("/")
    return page


def test_find_a_model_in_group_9_of_13_and_its_rank_there(reader: Page) -> None:
    expect(reader.get_by_role("heading", level=1)).to_have_text("group 1: model 1-1 leads, level with three others")
    first = reader.locator("tbody tr").first.bounding_box()
    assert first is not None
    assert first["y"] < 0.55 * reader.viewport_size["height"]  # type: ignore[index]
    assert_accessible(reader)
    assert_fits_phone(reader)

    tab_to(reader, reader.get_by_role("searchbox"))
    reader.keyboard.type("9-2")
    expect(reader.locator("tbody tr")).to_have_count(1)
    expect(reader.get_by_role("row", name=re.compile("^2 of 6 .*model 9-2 group 9"))).to_be_visible()
    assert_accessible(reader)
    tab_to(reader, reader.locator("tbody").get_by_role("link", name="group 9"))
    reader.keyboard.press("Enter")
    expect(reader.get_by_role("heading", level=1)).to_contain_text("group 9: model 9-1 leads")
    expect(reader.locator("tbody tr")).to_have_count(6)
    tab_to(reader, reader.get_by_role("link", name="model 9-2"))
    reader.keyboard.press("Enter")
    expect(reader.get_by_text("2nd of 6 in group 9")).to_be_visible()
    assert_accessible(reader)
    assert_fits_phone(reader)


def test_share_the_board(reader: Page) -> None:
    tab_to(reader, reader.get_by_role("link", name="group 2", exact=False).first)
    reader.keyboard.press("Enter")
    expect(reader.get_by_role("heading", level=1)).to_contain_text("group 2")
    tab_to(reader, reader.get_by_role("link", name="Share it"))
    reader.keyboard.press("Enter")
    tab_to(reader, reader.get_by_role("button", name="Copy"))
    reader.keyboard.press("Enter")
    expect(reader.get_by_role("button", name="Copied")).to_be_visible()
    tab_to(reader, reader.get_by_role("link", name="PNG"))
    with reader.expect_download() as downloading:
        reader.keyboard.press("Enter")
    assert downloading.value.path().read_bytes().startswith(b"\x89PNG")
    reader.goto(reader.evaluate("navigator.clipboard.readText()"))
    expect(reader.get_by_text("It never changes.")).to_be_visible()
    expect(reader.get_by_role("heading", level=1)).to_contain_text("group 2")
    assert_accessible(reader)


@pytest.mark.arena
def test_nothing_covers_a_row_and_the_columns_names_stay(new_page: NewPage) -> None:
    page = new_page(viewport={"width": 1240, "height": 860})
    page.goto("/")
    rows, head = page.locator("tbody tr"), page.get_by_role("columnheader", name="Model")
    rows.nth(2).locator("td.interval").click()
    expect(page.locator("#plot")).to_contain_text("Halcyon Pro")
    on_top = """(row) => { const box = row.getBoundingClientRect();
        return row.contains(document.elementFromPoint(box.left + box.width / 2, box.bottom - 4)) }"""
    page.evaluate("scrollTo(0, 500)")
    for row in rows.all():
        box = row.bounding_box()
        if box is not None and box["y"] > 60 and box["y"] + box["height"] < 860:
            assert row.evaluate(on_top)
    assert head.evaluate("(cell) => cell.getBoundingClientRect().top") == pytest.approx(0, abs=1)
    unscored = page.get_by_role("row", name=re.compile("Pebble 1B"))
    expect(unscored.locator("td.rank")).to_have_text("–")
    page.goto("/models/Pebble%201B")
    expect(page.get_by_text("no rank")).to_be_visible()


def test_the_intervals_are_one_plot(reader: Page) -> None:
    tab_to(reader, reader.get_by_role("link", name="model 1-1"))
    words = "model 1-1 (1,150–1,210): better than 1, likely better than 1, level with 3."
    expect(reader.locator("#plot")).to_have_text(words)
    expect(reader.locator("tr.apart")).to_have_count(2)
    reader.keyboard.press("Escape")
    reader.locator("tbody td.interval").nth(5).click()
    expect(reader.locator("tr.chosen")).to_contain_text("model 1-6")
    reader.mouse.move(0, 0)
    expect(reader.locator("tr.chosen")).to_contain_text("model 1-6")
    tab_to(reader, reader.get_by_role("link", name="model 1-2"), most=200)
    reader.keyboard.press("Space")
    tab_to(reader, reader.get_by_role("link", name="model 1-4"))
    expect(reader.locator("tr.chosen")).to_contain_text("model 1-4")
    tab_to(reader, reader.get_by_role("link", name="its permanent address"), most=200)
    expect(reader.locator("tr.chosen")).to_contain_text("model 1-2")
    assert_accessible(reader)
    assert_fits_phone(reader)


def test_a_theme_is_kept(reader: Page) -> None:
    reader.get_by_label("Theme").select_option("Dark")
    reader.goto("/history")
    assert reader.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    assert_accessible(reader)
    reader.get_by_label("Theme").select_option("System")
    reader.reload()
    assert reader.evaluate("document.documentElement.dataset.theme") is None


def test_the_slider_goes_back_in_time(reader: Page) -> None:
    reader.goto("/history")
    tab_to(reader, reader.get_by_label("Time", exact=True))
    reader.keyboard.press("Home")
    expect(reader.locator("#then caption")).to_contain_text("snapshot 1")
    expect(reader.locator("#then tbody tr")).to_have_count(6)
    assert_accessible(reader)
    assert_fits_phone(reader)
    reader.get_by_role("button", name="Open it").click()
    expect(reader.get_by_text("This is snapshot 1,")).to_be_visible()
