"""What reviewers do in the console, from a phone and by keyboard alone, in a real browser."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from app.database.engine import Database
from app.imports.runner import ImportRunner
from tests.fixtures.arena import Arena
from tests.fixtures.browser import NewPage, assert_accessible, tab_to

pytestmark = pytest.mark.browser

PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
SINGLE = "[data-row][href^='/console/annotators']"  # groups are rows too
FRENCH = "juge,modele_a,modele_b,verdict\n" + "".join(
    f"j{i % 3},ambre,bouleau,{('gauche', 'droite', 'égalité')[i % 3]}\n" for i in range(9)
)

Enter = Callable[[Page], None]
at_each_size = pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])


def press(page: Page, target: Locator, key: str = "Enter") -> None:
    """Go to an element by Tab and press a key."""
    tab_to(page, target)
    page.keyboard.press(key)


def choose(page: Page, select: Locator, value: str) -> None:
    """Choose an option by keyboard."""
    tab_to(page, select)
    for _ in range(select.locator("option").count()):
        if select.input_value() == value:
            return
        page.keyboard.press("ArrowDown")
    pytest.fail(f"{select} has no option {value}")


def bottom(page: Page, selector: str) -> float:
    """Return how far down the end of an element is, in CSS pixels."""
    return float(page.locator(selector).first.evaluate("e => e.getBoundingClientRect().bottom + scrollY"))


@pytest.mark.arena
def test_an_annotator_is_excluded_from_a_phone(new_page: NewPage, console: Enter, arena: Arena) -> None:
    page = new_page(viewport=PHONE, has_touch=True, is_mobile=True)
    console(page)
    for address in (
        "/console/reviews",
        "/console/annotators",
        "/console/audit",
        "/console/policy",
        "/console/policy/versions/1",
        "/console/keys",
        "/console/refits",
        "/console/sessions",
    ):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], address
        for cell in page.locator("table td:visible").all()[:20]:
            box = cell.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= PHONE["width"], address
    page.goto("/console/reviews")
    assert_accessible(page)
    page.locator(SINGLE).first.tap()
    name = page.get_by_role("heading", level=1).inner_text().split()[0]
    assert bottom(page, ".case-why .summary") <= PHONE["height"]
    assert bottom(page, "form[action$='/decisions'] button") <= PHONE["height"], "Decide is on the first screen"
    assert_accessible(page)
    page.get_by_label("Exclude").check()
    page.get_by_label("Why").fill("votes against the ranking")
    page.get_by_role("button", name="Decide").tap()
    expect(page.locator(".flash")).to_contain_text(f"{name} is excluded")


@pytest.mark.arena
@at_each_size
def test_flags_are_judged_in_a_row_by_keys(
    new_page: NewPage, console: Enter, arena: Arena, database: Database, size: Any
) -> None:
    page = new_page(viewport=size)
    console(page)
    page.goto("/console/reviews?sort=votes")
    page.wait_for_load_state()
    flagged = page.locator(SINGLE).all_inner_texts()[:10]
    assert len(flagged) > 4
    page.locator(SINGLE).first.focus()
    page.keyboard.press("o")
    for number, name in enumerate(flagged):
        expect(page.get_by_role("heading", level=1)).to_contain_text(name)
        page.wait_for_load_state()
        if number == 0:
            assert_accessible(page)
        page.keyboard.press("e" if number % 2 else "d")
        page.keyboard.type(f"case {number}")
        page.keyboard.press("Control+Enter")
        expect(page.locator(".flash")).to_contain_text(name)
    page.wait_for_load_state()
    page.keyboard.press("z")
    expect(page.locator(".flash")).to_contain_text("taken back")
    expect(page.get_by_role("heading", level=1)).to_contain_text(flagged[-1])


@pytest.mark.arena
@at_each_size
def test_several_flags_are_decided_at_once(new_page: NewPage, console: Enter, arena: Arena, size: Any) -> None:
    page = new_page(viewport=size)
    console(page)
    page.goto("/console/reviews")
    choose(page, page.get_by_label("Flagged because"), "coin")
    expect(page).to_have_url(re.compile("rule=coin"))
    expect(page.locator("#queue")).to_contain_text("flags.")
    page.keyboard.press("j")
    page.keyboard.press("x")
    press(page, page.get_by_role("button", name="Choose all"))
    number = page.locator(SINGLE).count()
    expect(page.get_by_role("status").filter(has_text="chosen")).to_have_text(f"{number} chosen")
    press(page, page.get_by_role("button", name="Decide on the chosen"))
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{number} chosen annotators")
    expect(page.locator("#impact-title")).to_have_text("If the votes were left out", timeout=60_000)
    assert_accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    page.keyboard.press("e")
    page.keyboard.type("they vote at random")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".flash")).to_contain_text(f"{number} annotators: each is excluded")
    page.keyboard.press("z")
    expect(page.locator(".flash")).to_contain_text(f"The decisions on {number} annotators are taken back.")


@at_each_size
def test_a_french_file_is_mapped_by_hand(
    new_page: NewPage, console: Enter, database: Database, tmp_path: Path, size: Any
) -> None:
    file = tmp_path / "votes.csv"
    file.write_text(FRENCH)
    page = new_page(viewport=size)
    console(page)
    page.goto("/console/imports")
    pick_file(page, page.get_by_label("File of votes"), file)
    expect(page.get_by_text("Say which columns a vote is in")).to_be_visible()
    for label, column in (
        ("Annotator", "juge"),
        ("Left model", "modele_a"),
        ("Right model", "modele_b"),
        ("Verdict", "verdict"),
    ):
        choose(page, page.get_by_label(label, exact=True), column)
    expect(page.get_by_text("0 of the first 9 records are votes")).to_be_visible()
    assert_accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    for word, meaning in (("gauche", "left"), ("droite", "right")):
        choose(page, page.get_by_label(f"“{word}” means"), meaning)
    press(page, page.get_by_role("button", name="Send the file"))
    expect(page.get_by_role("heading", level=1)).to_have_text("votes.csv")
    run_imports(database)
    expect(page.get_by_role("heading", name="Say what the words mean")).to_be_visible()
    expect(page.get_by_label("“gauche” means")).to_have_value("left")
    assert_accessible(page)
    choose(page, page.get_by_label("“égalité” means"), "tie")
    pick_file(page, page.get_by_label("The same file once more"), file)
    press(page, page.get_by_role("button", name="Import it with these words"))
    expect(page.get_by_role("heading", name="Say what the words mean")).to_have_count(0)
    run_imports(database)
    expect(page.locator("dl.figures dd")).to_have_text(["9", "9"])


def pick_file(page: Page, field: Locator, file: Path) -> None:
    """Go to the field by Tab and give it a file; the dialog is the system's own."""
    tab_to(page, field)
    field.set_input_files(file)


def run_imports(database: Database) -> None:
    runner = ImportRunner(database, lease_seconds=30)
    while runner.run_next():
        pass
