"""The policy's form, its versions, and the distribution of abilities with ε and δ to move."""

from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest
from playwright.sync_api import Page as BrowserPage
from playwright.sync_api import expect

from app.policy.schemas import Policy
from tests.fixtures.arena import Arena
from tests.fixtures.browser import assert_accessible, assert_fits_phone
from tests.fixtures.console import SignIn, Visitor
from tests.fixtures.pages import Page

Ask = Callable[..., Any]


def fill_in(page: Page, **changes: str) -> dict[str, str]:
    """Return what a browser sends of the policy's form, with these changes."""
    sent: dict[str, Any] = {}
    for field in page.all(".//form[@class='policy']//input"):
        if field.get("type") != "checkbox" or "checked" in field.attrib:
            sent.setdefault(field.get("name", ""), []).append(field.get("value", ""))
    for choice in page.all(".//form[@class='policy']//select"):
        sent[choice.get("name", "")] = [choice.find("option[@selected]").get("value")]  # type: ignore[union-attr]
    return {**sent, **changes}


def check(visitor: Visitor, **changes: str) -> Page:
    form = fill_in(visitor.page("/console/policy"), **changes)
    return Page(visitor.post("/console/policy/check", form))


def test_every_setting_stands_in_the_form_and_none_changes_by_itself(sign_in: SignIn) -> None:
    admin = sign_in("admin")
    page = admin.page("/console/policy")
    named = {one.get("name") for tag in ("input", "select") for one in page.all(f".//form[@class='policy']//{tag}")}
    assert named == {*Policy.model_fields, "csrf_token"}
    assert check(admin).text(".//h1") == "No change"


def test_eight_settings_come_first_and_the_rest_is_folded_unless_it_is_wrong(sign_in: SignIn) -> None:
    admin = sign_in("admin")
    page = admin.page("/console/policy")
    form = page.one(".//form[@class='policy']")
    first = [one.get("name") for tag in ("input", "select") for one in form.findall(f"./section//{tag}")]
    assert len(first) == 8
    assert "min_votes" in first
    assert "`" not in page.text(".//form[@class='policy']"), "no marks of a text file"
    assert "open" not in page.one(".//details[@class='more']").attrib
    assert "open" not in check_wrong(admin, min_votes="x").one(".//details[@class='more']").attrib
    assert "open" in check_wrong(admin, base="x").one(".//details[@class='more']").attrib


def check_wrong(visitor: Visitor, **changes: str) -> Page:
    answer = visitor.post("/console/policy/check", fill_in(visitor.page("/console/policy"), **changes))
    assert answer.status_code == 422
    return Page(answer)


def test_an_anchor_is_a_model_and_its_score(sign_in: SignIn, ask: Ask) -> None:
    admin = sign_in("admin")
    assert ask("POST", "/models", json={"name": "a=b"}).status_code == 201
    for wrong in ("a=b", "a=b=high", "a=b=1e9", "unknown=1000"):
        page = check_wrong(admin, anchor=wrong)
        assert page.one(".//input[@aria-invalid='true']").get("name") == "anchor", wrong
        assert page.one(".//input[@id='anchor']").get("value") == wrong
    changes = check(admin, anchor="a=b=1200")
    assert ("none", "a=b=1200") in zip(changes.texts(".//td/del"), changes.texts(".//td/ins"), strict=True)
    admin.submit(changes, "/console/policy", reason="as last year")
    assert ask("GET", "/policy").json()["settings"]["anchor"] == {"model": "a=b", "score": 1200.0}
    assert admin.page("/console/policy").one(".//input[@id='anchor']").get("value") == "a=b=1200"
    assert check(admin).text(".//h1") == "No change"


def test_what_is_no_number_is_named_beside_its_field(sign_in: SignIn) -> None:
    admin, names = sign_in("admin"), ("min_votes", "min_ability", "influence_limit")
    for given, name in zip(
        ["[1]", "[" * 5000, "1" + "0" * 400, "1e400", "nan", "true", "{}", '"5"', "[1]"], cycle(names), strict=False
    ):
        form = fill_in(admin.page("/console/policy"), **{name: given})
        answer = admin.post("/console/policy/check", form)
        assert answer.status_code == 422, (name, answer.text)
        assert Page(answer).one(".//input[@aria-invalid='true']").get("name") == name
        assert admin.get("/console/policy", params={name: given}).status_code == 200


def test_changes_are_shown_before_they_are_put_in_force_and_taken_back(sign_in: SignIn, ask: Ask) -> None:
    admin = sign_in("admin")
    changes = check(admin, min_votes="20", influence_limit="", on_low_ability="exclude", evidence_tests="coin")
    assert changes.texts(".//tbody/tr/th") == ["min votes", "influence limit", "evidence tests", "on low ability"]
    assert ("50", "20") in zip(changes.texts(".//td/del"), changes.texts(".//td/ins"), strict=True)
    assert ask("GET", "/policy").json()["version"] == 1, "nothing is saved yet"

    saved = admin.submit(changes, "/console/policy", reason="fewer votes are enough")
    after = admin.page(saved.headers["location"])
    policy = ask("GET", "/policy").json()
    assert (policy["version"], policy["reason"], policy["created_by"]) == (2, "fewer votes are enough", "admin key")
    assert policy["settings"]["influence_limit"] is None
    assert policy["settings"]["evidence_tests"] == ["coin"]
    assert admin.submit(changes, "/console/policy", reason="again").status_code == 409, "it is based on version 1"

    undo = "/console/policy/versions/1/restore"
    assert after.one(".//div[@class='notice good flash']/form").get("action") == undo
    admin.submit(after, undo)
    assert ask("GET", "/policy").json()["settings"] == Policy().model_dump(mode="json")
    version = admin.page("/console/policy/versions/2")
    assert "min votes: 50 → 20" in version.texts(".//li")
    assert admin.get("/console/policy/versions/9").status_code == 404


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("min_votes", "-1", "must be greater than or equal to 0"),
        ("min_votes", "many", "must be a valid integer"),
        ("flag_rule", "luck", "must be 'threshold' or 'evidence'"),
        ("prior_sd", "0.7", "must be less than or equal to 0.6"),
        ("min_probability", "0.4", "must be greater than or equal to 0.5"),
        ("base", "NaN", "must be a finite number"),
    ],
)
def test_what_is_wrong_stands_in_the_form(sign_in: SignIn, name: str, value: str, words: str) -> None:
    admin = sign_in("admin")
    answer = admin.post("/console/policy/check", fill_in(admin.page("/console/policy"), **{name: value}))
    assert answer.status_code == 422
    page = Page(answer)
    assert any(words in text for text in [*page.texts(".//p[@class='error']"), *page.texts(".//div[@role='alert']")])


def test_a_forged_policy_is_refused(sign_in: SignIn) -> None:
    admin = sign_in("admin")
    changes = check(admin, min_votes="20")
    for settings in ("{", '{"min_votes": -1}', '{"unknown": 1}'):
        answer = admin.submit(changes, "/console/policy", settings=settings, reason="a test")
        assert answer.status_code in (400, 422)


@pytest.mark.arena
def test_moving_the_thresholds_says_who_would_be_flagged(sign_in: SignIn, arena: Arena) -> None:
    admin = sign_in("admin")
    page = admin.page("/console/abilities")
    usual = page.texts(".//h2")
    moved = admin.page("/console/abilities?min_ability=0.9&min_votes=200")
    assert moved.texts(".//h2") != usual
    assert moved.texts(".//h2")[1] == "56 annotators with δ = 200 votes or fewer"
    usual_bars, bars = (one.all(".//svg[@class='bars']")[1].findall("rect") for one in (page, moved))
    assert {bar.get("class") for bar in usual_bars} == {"counts", "flagged", "excluded", "pending"}
    pending = [
        sum(float(bar.get("height", "")) for bar in one if bar.get("class") == "pending") for one in (usual_bars, bars)
    ]
    assert pending[1] > pending[0], "δ moves standings too"
    links = [link for link in moved.links if link.startswith("/console/policy?")]
    assert admin.page(links[0]).one(".//input[@name='min_ability']").get("value") == "0.9"

    likely = admin.page("/console/abilities?min_ability=0.9&min_probability=0.5")
    assert "asks for 50.0% probability" in likely.text(".//div[@id='distribution']")
    links = [link for link in likely.links if link.startswith("/console/policy?")]
    assert admin.page(links[0]).one(".//input[@name='min_probability']").get("value") == "0.5"
    asked = Page(admin.submit(likely, "/console/abilities/preview"))
    assert "min probability 0.5 in place of 0.95" in asked.text(".//div[@id='preview']/section/p[1]")
    strict = admin.page("/console/abilities?min_ability=0.9&min_probability=0.999")
    flagged = [
        int(dict(zip(one.texts(".//dl/div/dt"), one.texts(".//dl/div/dd"), strict=True))["newly flagged"])
        for one in (asked, Page(admin.submit(strict, "/console/abilities/preview")))
    ]
    assert flagged[0] > flagged[1]
    assert admin.get("/console/abilities", params={"min_probability": "0.4"}).status_code == 422

    preview = Page(admin.submit(admin.page("/console/abilities?min_votes=20"), "/console/abilities/preview"))
    figures = dict(zip(preview.texts(".//dl/div/dt"), preview.texts(".//dl/div/dd"), strict=True))
    assert figures["back in the fit"] == "7"
    assert "min votes 20 in place of 50" in preview.text(".//div[@id='preview']/section/p[1]")
    reviewer = sign_in("review").page("/console/abilities")
    assert "/console/abilities/preview" not in [form.get("action") for form in reviewer.all(".//form")]


def test_before_the_first_snapshot_the_distribution_says_what_to_do(sign_in: SignIn) -> None:
    assert "more than 50 votes" in sign_in("review").page("/console/abilities").text(".//div[@class='empty']/p[2]")


@pytest.mark.browser
@pytest.mark.arena
def test_moving_epsilon_in_a_browser(page: BrowserPage, console: Callable[[BrowserPage], None]) -> None:
    console(page)
    page.goto("/console/abilities")
    heading = page.get_by_role("heading", level=2).first
    before = heading.text_content()
    page.get_by_label("ε, the lowest ability").fill("0.8")
    expect(heading).to_contain_text("ε = 0.80")
    assert heading.text_content() != before
    assert_accessible(page)
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("heading", name="What it would do")).to_be_visible(timeout=60_000)
    assert_accessible(page)
    assert_fits_phone(page)

    page.get_by_role("link", name="Take these into the policy").click()
    expect(page.get_by_label("min ability")).to_have_value("0.8")
    assert_accessible(page)
    assert_fits_phone(page)
    page.get_by_role("button", name="See the changes").click()
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("heading", name="What it would do")).to_be_visible(timeout=60_000)
    page.get_by_label("Why").fill("stricter")
    assert_accessible(page)
    page.get_by_role("button", name="Put in force").click()
    expect(page.get_by_text("Version 3 of the policy is in force")).to_be_visible()
    page.get_by_role("link", name="Version 3").click()
    assert_accessible(page)
