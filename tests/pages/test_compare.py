"""The page of two models."""

from collections.abc import Callable

import pytest
from httpx import Client

from tests.fixtures.pages import Page, text_of

Publish = Callable[..., int]


def visit(client: Client, status: int = 200, **names: str) -> Page:
    response = client.get("/compare", params=names)
    assert response.status_code == status, response.text
    return Page(response)


def verdict_of(page: Page) -> tuple[str, str]:
    return page.text(".//h2[@class='verdict']"), page.text(".//section/p[@class='lead']")


def test_a_clear_difference(client: Client, three: int) -> None:
    page = visit(client, a="cat", b="ant")
    assert verdict_of(page) == (
        "ant is likely better.",
        "ant is ahead: a typical annotator prefers it in 76% of battles; the interval is 70% to 80%.",
    )
    bar = page.one(".//svg[@class='share']")
    assert bar.get("aria-label") == "cat is preferred in 24% of battles, interval 20% to 30%."
    assert float(bar.findall("rect")[1].get("width", "")) == pytest.approx(240)
    figures = dict(zip(page.texts(".//dl/div/dt"), page.texts(".//dl/div/dd"), strict=True))
    assert figures == {"won by cat": "2", "ties": "4", "won by ant": "18", "observed win rate of cat": "17%"}
    by_method = page.one(".//table")
    assert [text_of(cell) for cell in by_method.findall("tbody/tr")[0]] == [
        "am-ELO",
        "3",
        "900 880 to 920",
        "1",
        "1,100 1,080 to 1,120",
        "−200",
    ]


def test_three_words_for_three_strengths(client: Client, publish: Publish) -> None:
    rows = {"ant": {"better": ["cat"], "likely": ["bee"]}, "bee": {}, "cat": {}}
    pairs = [("ant", "bee", 1, 0, 0, 0.6, 0.51, 0.7), ("ant", "cat", 1, 0, 0, 0.7, 0.6, 0.8)]
    publish({("am-elo", ""): {name: {**row, "class_rank": 1} for name, row in rows.items()}}, matchups=pairs)
    words = {other: verdict_of(visit(client, a="ant", b=other))[0] for other in ("bee", "cat")}
    assert words == {"bee": "ant is likely better.", "cat": "ant is better."}
    assert verdict_of(visit(client, a="cat", b="ant"))[0] == "ant is better."
    unmet = visit(client, a="bee", b="cat")
    assert verdict_of(unmet)[0] == "The votes cannot tell the two apart.", "though no row of the pair is stored"
    assert "in all pairs of models together" in unmet.text(".//section/p[last()]")


def test_too_close_to_tell(client: Client, three: int) -> None:
    page = visit(client, a="bee", b="cat")
    assert verdict_of(page) == (
        "The votes cannot tell the two apart.",
        "bee is ahead: a typical annotator prefers it in 64% of battles; the interval is 50% to 70%.",
    )
    assert "No vote that counts compares the two directly" in page.text(".//main")
    (row,) = page.all(".//table")[1].findall("tbody/tr")
    assert [text_of(cell) for cell in row] == ["ant", "38%", "40", "17%", "24"]


def test_without_names_the_first_two(client: Client, three: int) -> None:
    page = visit(client)
    assert [field.get("value") for field in page.all(".//form//input")] == ["ant", "bee"]
    assert [option.get("value") for option in page.all(".//datalist/option")] == ["ant", "bee", "cat"]
    swap = page.one(".//form//a").get("href", "")
    assert [field.get("value") for field in Page(client.get(swap)).all(".//form//input")] == ["bee", "ant"]
    assert [one.get("value") for one in visit(client, a="bee").all(".//form//input")] == ["bee", "ant"]


def test_names_that_are_wrong(client: Client, three: int) -> None:
    unknown = visit(client, 404, a="<b>", b="ant")
    assert unknown.texts(".//span[@class='error']") == ["There is no model '<b>'."]
    assert unknown.one(".//input[@aria-invalid='true']").get("value") == "<b>"
    same = visit(client, 404, a="ant", b="ant")
    assert same.texts(".//span[@class='error']") == ["Choose two different models."]


def test_without_a_prediction(client: Client, publish: Publish) -> None:
    rows = {"ant": {}, "bee": {"score": None}, "cat": {}, "dog": {"component": 1}}
    bounded = [("ant", "bee", 3, 0, 0, None, 0.4, 1.0), ("bee", "cat", 0, 0, 9, None, 0.0, 0.28)]
    publish({("am-elo", ""): rows}, matchups=bounded)
    assert verdict_of(visit(client, a="ant", b="bee"))[0] == "The votes cannot tell the two apart."
    verdict, reason = verdict_of(visit(client, a="bee", b="cat"))
    assert verdict == "cat is likely better."
    assert "at least 72% of battles" in reason
    assert verdict_of(visit(client, a="ant", b="dog"))[0] == "The two cannot be compared."
    verdict, reason = verdict_of(visit(client, a="ant", b="cat"))
    assert verdict == "ant has the higher score."
    assert "prefers it in 76% of battles" in reason, "200 points"


def test_before_the_first_snapshot(client: Client) -> None:
    assert "No leaderboard has been published yet" in visit(client).text(".//main")
