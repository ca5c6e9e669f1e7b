"""The page of matchups."""

from collections.abc import Callable
from typing import Any

from httpx import Client

from app.database.engine import Database
from app.leaderboard.charts import draw_newest
from tests.fixtures.pages import Page, text_of

Publish = Callable[..., int]


def visit(client: Client, address: str = "/matchups") -> Page:
    response = client.get(address)
    assert response.status_code == 200, response.text
    return Page(response)


def cells_of(page: Page) -> list[list[str]]:
    return [[text_of(cell) for cell in row] for row in page.all(".//table/tbody/tr")]


def test_before_the_first_snapshot(client: Client) -> None:
    page = visit(client)
    assert "No leaderboard has been published yet" in page.text(".//main")
    assert "more than 50 votes" in page.text(".//main")


def test_observed_and_predicted(client: Client, three: int) -> None:
    page = visit(client)
    assert page.texts(".//thead/tr/th") == ["ant", "bee", "cat"]
    assert cells_of(page) == [
        ["ant", "", "62% 40", "83% 24"],
        ["bee", "38% 40", "", "–"],
        ["cat", "17% 24", "–", ""],
    ]
    shades = [cell.get("class") for cell in page.all(".//tbody/tr[1]/td")]
    assert shades == ["same", "won3", "won8"]
    assert page.all(".//tbody/tr[3]/td")[0].get("class") == "lost8"
    other = next(tab for tab in page.all(".//ul[@class='tabs']/li/a") if text_of(tab) == "Predicted")
    predicted = visit(client, "/matchups" + other.get("href", ""))
    assert cells_of(predicted)[1] == ["bee", "36% 40", "", "64% 0"]
    assert text_of(predicted.one(".//ul[@class='tabs']/li/a[@aria-current]")) == "Predicted"


def test_where_no_pair_has_enough_votes_it_points_to_the_predictions(client: Client, publish: Publish) -> None:
    publish({("am-elo", ""): {"ant": {}, "bee": {}}}, matchups=[("ant", "bee", 3, 2, 1, 0.6, None, None)])
    assert cells_of(visit(client)) == [["ant", "", "–"], ["bee", "–", ""]]
    to_predicted = visit(client).one(".//p[@class='notice']/a").get("href", "")
    predicted = visit(client, "/matchups" + to_predicted)
    assert cells_of(predicted)[0][2].startswith("60%")
    assert not predicted.all(".//p[@class='notice']")


def test_chosen_models_of_an_earlier_snapshot(client: Client, publish: Publish, three: int) -> None:
    publish({("am-elo", ""): {"dog": {}, "elk": {}}}, matchups=[("dog", "elk", 1, 0, 0, None, None, None)])
    assert visit(client).texts(".//thead/tr/th") == ["dog", "elk"]
    page = visit(client, f"/matchups?snapshot={three}&model=cat&model=ant&show=predicted")
    assert cells_of(page) == [["ant", "", "76% 24"], ["cat", "24% 24", ""]]
    assert [text_of(option) for option in page.all(".//option[@selected]")] == ["ant", "cat"]
    tabs = page.all(".//ul[@class='tabs']/li/a")
    again = visit(client, "/matchups" + tabs[0].get("href", ""))
    assert cells_of(again) == [["ant", "", "83% 24"], ["cat", "17% 24", ""]], "the choice stays"
    assert page.one(".//form/input[@name='snapshot']").get("value") == str(three)


def test_page_by_page(client: Client, publish: Publish) -> None:
    names = [f"m{i:02}" for i in range(45)]
    publish({("am-elo", ""): {name: {} for name in names}}, matchups=[("m00", "m44", 1, 0, 0, None, None, None)])
    seen: list[str] = []
    address = "/matchups"
    while True:
        page = visit(client, address)
        seen += page.texts(".//thead/tr/th")
        following = page.all(".//a[@rel='next']")
        if not following:
            break
        address = "/matchups" + following[0].get("href", "")
    assert seen == names
    back = page.one(".//a[@rel='prev']").get("href", "")
    assert visit(client, "/matchups" + back).texts(".//thead/tr/th")[0] == "m20"
    assert "ends before place 99" in visit(client, "/matchups?start=99").text(".//main")


def test_what_cannot_be_shown(client: Client, publish: Publish, three: int) -> None:
    for query, status, words in (
        ("?model=nobody", 404, "no model 'nobody'"),
        ("?show=all", 422, "/show"),
        ("?start=0", 422, "/start"),
        ("?snapshot=99", 404, "no snapshot 99"),
        ("?" + "&".join(["model=ant"] * 41), 422, "at most 40"),
    ):
        response = client.get(f"/matchups{query}")
        assert response.status_code == status, query
        assert words in Page(response).text(".//main")
    publish({("am-elo", ""): {"ant": {}}})
    assert "old snapshots drop them" in Page(client.get("/matchups")).text(".//main")


def test_whether_predictions_hold(client: Client, database: Database, three: int) -> None:
    assert not visit(client).all(".//figure"), "the worker has not drawn it yet"
    draw_newest(database)
    page: Any = visit(client)
    assert "in 64 votes" in page.one(".//figure/div").get("aria-label")
    assert page.all(".//figure/div/div[@aria-hidden]/svg")
