"""A model's page."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from httpx import Client

from app.pages.formatting import model_address
from tests.fixtures.pages import Page, text_of

Publish = Callable[..., int]


def visit(client: Client, name: str, query: str = "") -> Page:
    response = client.get(model_address(name) + query)
    assert response.status_code == 200, response.text
    return Page(response)


def rows_of(page: Page, place: int) -> list[list[str]]:
    table = page.all(".//table")[place]
    return [[text_of(cell) for cell in row] for row in table.findall("tbody/tr")]


def test_places_stability_and_opponents(client: Client, three: int) -> None:
    page = visit(client, "bee")
    assert page.text(".//h1") == "bee"
    figures = dict(zip(page.texts(".//dl/div/dt"), page.texts(".//dl/div/dd"), strict=True))
    assert figures == {
        "by am-ELO": "2nd of 3",
        "points, 980 to 1,020": "1,000",
        "votes that count": "60",
        "of them ties": "25%",
    }
    above, below = page.texts(".//section[h2='How firm is its place?']/p")
    assert above == ("ant is 100.0 points above. Without about 40 votes the two would swap, or without 3 annotators.")
    assert below == "cat is 100.0 points below. Without about 3 votes the two would swap."
    assert rows_of(page, 0) == [["ant", "40", "10–10–20", "38%", "36% 30% to 40%", "–", "compare"]]
    assert page.texts(".//details/summary")[-1] == "1 model that it has fewer than 10 votes with"
    assert rows_of(page, 1) == [["cat", "64% 50% to 70%", "–", "compare"]]
    assert visit(client, "ant").texts(".//ol/li") == ["cat: won 18 of 24, 4 tied", "bee: won 20 of 40, 10 tied"]
    assert "/compare?a=bee&b=ant" in page.links
    assert rows_of(visit(client, "cat"), 0) == [["code", "1 of 2", "–", "1,100", "1,080 to 1,120", "9"]]


def test_one_score_makes_no_chart(client: Client, publish: Publish) -> None:
    publish({("am-elo", ""): {"ant": {}}})
    assert not visit(client, "ant").all(".//svg[@class='band']")


def test_score_over_time(client: Client, publish: Publish) -> None:
    for score in (1100.0, 1150.0, None, 1180.0):
        ends = (None, None) if score is None else (score - 20, score + 20)
        publish({("am-elo", ""): {"ant": {"score": score, "lower": ends[0], "upper": ends[1]}}})
    page = visit(client, "ant")
    chart = page.one(".//svg[@class='band']")
    assert "3 snapshots: from 1,100 in snapshot" in chart.get("aria-label", "")
    assert len(chart.findall("polyline")) == 1, "the gap divides the line"
    assert len(chart.findall("circle")) == 1
    heights = [float(pair.split(",")[1]) for pair in chart.findall("polyline")[0].get("points", "").split()]
    assert heights[0] > heights[1], "a higher score is drawn higher"
    assert text_of(chart.findall("text[@class='tick']")[0]) == "1,050"


def test_by_another_method(client: Client, three: int) -> None:
    page = visit(client, "bee", "?method=m-elo")
    assert "by m-ELO" in page.texts(".//dl/div/dt")
    assert page.texts(".//dl/div/dd")[0] == "1st of 3"


def test_every_name_has_a_page(client: Client, publish: Publish) -> None:
    names = ["meta-llama/Llama-3", "../up?#%", "a/./b", "<b>&amp;'\"", "ü 模型", "?", "\\", "x/"]
    played = [(name, "other", 20, 0, 10, 0.6, 0.5, 0.7) for name in names]
    publish({("am-elo", ""): {name: {} for name in (*names, "other")}}, matchups=played)
    links = {text_of(one): one.get("href", "") for one in visit(client, "other").all(".//tbody/tr/th/a")}
    for name in names:
        page = visit(client, name)
        assert page.text(".//h1") == name
        assert Page(client.get(links[name])).text(".//h1") == name


def test_what_is_known_of_a_model(client: Client, three: int, ask: Callable[..., Any]) -> None:
    known = {"organization": "The <Lab>", "license": "MIT", "link": "https://example.org/m?a=1&b=2", "archived": True}
    assert ask("PATCH", "/models/bee", json=known).status_code == 200
    assert ask("PATCH", "/models/bee", json={"name": "wasp"}).status_code == 200
    page = visit(client, "bee")
    assert page.text(".//h1") == "wasp archived"
    facts = page.text(".//p[@class='muted facts']")
    assert all(text in facts for text in ("by The <Lab>", "licence: MIT", "also known as bee"))
    assert page.one(".//p[@class='muted facts']/a").get("href") == known["link"]
    assert "Its votes still count" in page.text(".//p[@class='notice warn']")


def test_changes_that_would_swap_neighbours_in_words(client: Client, publish: Callable[..., int]) -> None:
    counts = {"votes": 9, "flipped_votes": 5, "added_votes": 1, "annotators": None, "prompts": 3}
    pair = {"above": "ant", "below": "bee", "gap": 2.0, "tied": False, **counts}
    boards: dict[tuple[str, str], dict[str, Any]] = {("am-elo", ""): {"ant": {}, "bee": {}}}
    publish(boards, diagnostics={"fragility": [pair]})
    firm = ".//section[h2='How firm is its place?']/p"
    (sentence,) = visit(client, "bee").texts(firm)
    assert sentence == (
        "ant is 2.0 points above. Without about 9 votes the two would swap, or with 5 votes turned round, "
        "or with 1 more vote, or without 3 prompts."
    )
    publish(boards, diagnostics={"fragility": None})
    assert visit(client, "bee").texts(firm) == ["Not computed yet: it follows soon after each refit."]


def test_a_model_without_votes_and_an_unknown_one(client: Client, three: int, ask: Callable[..., Any]) -> None:
    ask("POST", "/models", json={"name": "dog"})
    assert "enters with the first refit" in visit(client, "dog").text(".//div[@class='empty']")
    missing = client.get(f"/models/{quote('no <such>')}")
    assert missing.status_code == 404
    assert "no <such>" in Page(missing).text(".//main")
