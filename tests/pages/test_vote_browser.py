"""An arena's first day in Chromium: answers are recorded, two are invited and vote, and the leaderboard moves."""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import FileChooser, Locator, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from sqlalchemy import text

from app.database.engine import Database
from app.imports.answers import import_answers
from tests.fixtures.browser import DESKTOP, NewPage, PageProblems, assert_accessible, assert_fits_phone, tab_to
from tests.fixtures.crowds import RANK_EVERYTHING

pytestmark = pytest.mark.browser

Ask = Callable[..., Any]
POOL = Path(__file__).parents[2] / "examples" / "arena" / "pool.jsonl"
MODELS = ("maple", "otter", "pixel", "quartz")
PHONE = {"width": 390, "height": 844}
ORDER = {model: place for place, model in enumerate(MODELS)}


@pytest.fixture
def pool(database: Database) -> dict[str, str]:
    """The example's pool; which model gave each answer, by its first words as they are shown."""
    import_answers(database, POOL, replace=False, recorded_by="me")
    return {}


@pytest.fixture
def invite(ask: Ask) -> Callable[..., str]:
    return lambda **body: str(ask("POST", "/invitations", json=body).json()["link"])


def status(page: Page) -> Any:
    return page.get_by_role("status")


def sides(page: Page) -> tuple[str, str]:
    """Which models the last vote was on, as the page says it."""
    said = status(page).inner_text().removesuffix(".").split(", right was ")
    return said[0].removeprefix("Left was "), said[1]


def show_the_models(page: Page) -> None:
    page.get_by_role("button", name="Show the models").press("Enter")
    expect(status(page)).to_contain_text("Left was ")


_OUT_OF_REACH = """element => [...element.shadowRoot.querySelectorAll(".text *")].filter(part =>
  /auto|scroll/.test(getComputedStyle(part).overflowX) && part.scrollWidth > part.clientWidth
  && part.tabIndex < 0).length"""


def cast_votes(page: Page, number: int) -> None:
    """Vote with the keys; the left one is better every time, until the models are known."""
    for count in range(number):
        with page.expect_response(lambda response: response.url.endswith("/votes") and response.status == 201):
            page.keyboard.press("1" if count % 2 else "2")
        expect(page.locator("[role=group] button").first).to_have_attribute("aria-disabled", "false")
        assert page.locator("stable-arena-battle").evaluate(_OUT_OF_REACH) == 0, "the keyboard scrolls what is wide"


def press(page: Page, role: Any, name: str, within: str = "main") -> None:
    """Reach what has this role and name by Tab, and press Enter."""
    tab_to(page, page.locator(within).get_by_role(role, name=name).first)
    page.keyboard.press("Enter")


def choose_file(page: Page, field: Locator) -> FileChooser:
    """Open a field's file chooser by Enter; beside other browsers Chromium has been seen to pass over the first one."""
    for patience in (5_000, 10_000, 30_000):
        page.bring_to_front()
        tab_to(page, field)
        with contextlib.suppress(PlaywrightTimeout):
            with page.expect_file_chooser(timeout=patience) as chooser:
                page.keyboard.press("Enter")
            return chooser.value
    pytest.fail("no file chooser opens")


def import_in_console(page: Page) -> None:
    page.goto("/console/answers")
    choose_file(page, page.get_by_label("JSONL, JSON, CSV or Parquet")).set_files(POOL)
    press(page, "button", "Try it out")
    expect(page.get_by_role("status")).to_contain_text("nothing was recorded. New: 20 prompts, 80 answers")
    assert_accessible(page)
    page.get_by_label("JSONL, JSON, CSV or Parquet").set_input_files(POOL)
    press(page, "button", "Record")
    expect(page.get_by_role("status")).to_contain_text("Recorded. New: 20 prompts, 80 answers")


def invite_in_console(page: Page, annotator: str) -> str:
    page.goto("/console/invitations")
    assert page.get_by_role("radio").first.bounding_box()["width"] < 30, "beside its words"  # type: ignore[index]
    tab_to(page, page.get_by_label("Key of the link’s annotator"))
    page.keyboard.type(annotator)
    press(page, "button", "Open voting")
    link = page.get_by_role("status").get_by_text("/vote#sav_").inner_text()
    assert_accessible(page)
    return link


def exclude_in_console(page: Page, annotator: str) -> None:
    page.goto("/console/invitations")
    expect(page.get_by_role("row", name=re.compile(f"^{annotator} .*open .* 20 "))).to_be_visible()
    press(page, "link", annotator)
    tab_to(page, page.get_by_role("radio").first)
    exclude = page.get_by_role("radio", name=re.compile("^Exclude"))
    for _ in range(6):
        if exclude.is_checked():
            break
        page.keyboard.press("ArrowDown")
    tab_to(page, page.get_by_label("Why"))
    page.keyboard.type("a test")
    press(page, "button", "Decide")
    expect(page.get_by_text("Exclude by ")).to_be_visible()
    assert_accessible(page)


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["390 px", "1,280 px"])
def test_an_arena_in_an_afternoon(
    size: Any,
    new_page: NewPage,
    console: Callable[[Page], None],
    ask: Ask,
    refit: Ask,
    change_policy: Ask,
    database: Database,
) -> None:
    """An admin uses the console by keyboard alone: answers in, two invited, one excluded. Both vote on a phone."""
    change_policy(**RANK_EVERYTHING, min_votes=0)
    admin = new_page(viewport=size)
    console(admin)
    import_in_console(admin)
    for annotator in ("ada", "bob"):
        link = invite_in_console(admin, annotator)
        page = new_page(viewport=PHONE, has_touch=True)
        page.goto(link)
        left = page.get_by_role("button", name="Left is better")
        expect(left).to_have_attribute("aria-disabled", "false")
        sealed = page.locator("stable-arena-battle").evaluate("element => element.shadowRoot.innerHTML")
        assert not any(model in sealed for model in MODELS)
        assert_fits_phone(page)
        left.tap()
        expect(status(page)).to_contain_text("Your vote is cast.")
        assert not any(model in status(page).inner_text() for model in MODELS)
        show_the_models(page)
        assert set(sides(page)) < set(MODELS)
        cast_votes(page, 19)
        show_the_models(page)
        expect(page.get_by_role("heading", name="Your order so far")).to_be_visible()
        expect(page.locator("#mine tbody tr")).to_have_count(4)
        assert_accessible(page)
    with database.read() as conn:
        assert conn.execute(text("SELECT count(*), count(sealed_battle_id) FROM votes")).one() == (40, 40)
        columns = "annotator_id, prompt_id, least(left_id, right_id), greatest(left_id, right_id)"
        repeated = f"SELECT count(*) - count(DISTINCT ({columns})) FROM battles"
        assert conn.execute(text(repeated)).scalar_one() == 0
    refit()
    admin.goto("/")
    expect(admin.get_by_text("40 votes came by invitation")).to_be_visible()
    before = scores(ask)
    exclude_in_console(admin, "bob")
    refit(accept_exclusions=True)
    admin.goto("/")
    expect(admin.get_by_text("20 of 40 votes")).to_be_visible()
    assert scores(ask) != before


def scores(ask: Ask) -> dict[str, float]:
    return {row["model"]: row["score"] for row in ask("GET", "/leaderboard").json()["models"]}


@pytest.mark.usefixtures("pool")
def test_by_the_keyboard_alone(page: Page, ask: Ask, database: Database) -> None:
    ask("POST", "/invitations", json={"everyone": True})
    page.goto("/vote")
    assert_accessible(page)
    start = page.get_by_role("button", name="Agree and start")
    start.focus()
    page.keyboard.press("Enter")
    first = page.get_by_role("button", name="Left is better")
    expect(first).to_have_attribute("aria-disabled", "false")
    assert_accessible(page)
    for key in ("1", "2", "3", "4"):
        expect(first).to_have_attribute("aria-disabled", "false")
        with page.expect_response(lambda response: response.url.endswith("/votes")):
            page.keyboard.press(key)
        said = "Your vote is cast." if key == "1" else "The battle before: Left was "
        expect(status(page)).to_contain_text(said)
        expect(first).to_have_attribute("aria-disabled", "false")
    page.get_by_role("button", name="Undo").focus()
    page.keyboard.press("Enter")
    expect(status(page)).to_have_text("Your vote was taken back.")
    page.keyboard.press("s")
    expect(status(page)).to_have_text("Skipped.")
    with database.read() as conn:
        assert list(conn.execute(text("SELECT outcome FROM votes ORDER BY id")).scalars()) == [0, 1, 2, 3]
        assert conn.execute(text("SELECT count(*) FROM retracted_votes")).scalar_one() == 1
        assert conn.execute(text("SELECT count(*) FROM battles WHERE skip_reason = 'skip'")).scalar_one() == 1
    page.get_by_role("checkbox", name="Use the keys").uncheck()
    page.keyboard.press("1")
    page.reload()
    expect(page.get_by_role("checkbox", name="Use the keys")).not_to_be_checked()


@pytest.mark.usefixtures("pool")
def test_a_vote_that_the_network_lost_is_sent_again_and_counted_once(
    page: Page, page_problems: PageProblems, invite: Callable[..., str], database: Database
) -> None:
    page_problems.expect("api/v1/votes")
    page_problems.expect("ERR_FAILED")
    page.goto(invite())
    first = page.get_by_role("button", name="Both are good")
    expect(first).to_have_attribute("aria-disabled", "false")
    lost = []

    def lose_the_first_answer(route: Any) -> None:
        if lost:
            route.continue_()
            return
        lost.append(route.fetch().status)  # it arrives, and its answer does not
        route.abort()

    page.route("**/api/v1/votes", lose_the_first_answer)
    first.click()
    expect(status(page)).to_contain_text("Your vote is cast.")
    show_the_models(page)
    assert lost == [201]
    with database.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM votes")).scalar_one() == 1


@pytest.mark.usefixtures("pool")
def test_after_the_network_was_lost_one_can_try_again(
    page: Page, page_problems: PageProblems, invite: Callable[..., str]
) -> None:
    page_problems.expect("status of 403")
    page.goto("/method")
    battles = "**/api/v1/battles"
    details = ["not now"]
    page.route(battles, lambda route: route.fulfill(status=403, json={"detail": details[-1]}))
    page.goto(invite())
    expect(status(page)).to_contain_text("There is no battle to show: not now")
    again, left = page.get_by_role("button", name="Try again"), page.get_by_role("button", name="Left is better")
    again.focus()
    details.append("not yet")
    page.keyboard.press("Enter")
    expect(status(page)).to_contain_text("There is no battle to show: not yet")
    page.unroute(battles)
    page.keyboard.press("Enter")
    expect(left).to_be_focused()
    expect(again).to_be_hidden()
    asked: list[Any] = []

    def refuse_the_second(route: Any) -> None:  # the one that is drawn ahead
        asked.append(route)
        route.fulfill(status=403, json={"detail": "not now"}) if len(asked) == 2 else route.continue_()

    page.route(battles, refuse_the_second)
    page.reload()
    with page.expect_response(battles):
        expect(left).to_have_attribute("aria-disabled", "false")
    left.press("Enter")
    expect(status(page)).to_contain_text("Your vote is cast.")
    expect(left).to_be_focused()


def test_what_voters_are_told_at_the_end(
    page: Page, page_problems: PageProblems, invite: Callable[..., str], ask: Ask
) -> None:
    page_problems.expect("status of 4")
    answers = [{"prompt": "?", "model": model, "answer": "x" * 90_000 + "\n\n" + "y " * 2_000} for model in ("a", "b")]
    ask("POST", "/answers", json={"answers": answers})
    page.goto(invite(category="none such"))
    expect(status(page)).to_contain_text("You have seen everything")
    page.goto("/method")
    page.goto(invite(max_votes=1))
    expect(page.get_by_role("button", name="Skip")).to_have_attribute("aria-disabled", "false")
    left, right = page.locator(".answer .text").all()
    left.evaluate("pane => { pane.scrollTop = 500; }")
    expect(right).to_have_js_property("scrollTop", 500)
    page.keyboard.press("4")
    expect(status(page)).to_contain_text("All your votes are cast")
    page.goto("/method")
    page.goto("/vote#sav_" + "A" * 44)
    expect(status(page)).to_contain_text("There is no battle to show")
    page.goto("/method")
    page.goto("/vote")
    expect(page.get_by_text("Voting is by invitation")).to_be_visible()
