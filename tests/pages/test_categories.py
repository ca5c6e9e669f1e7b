"""The page of models and categories."""

from collections.abc import Callable

from httpx import Client, Response

from tests.fixtures.pages import Page

Publish = Callable[..., int]


def test_scores_votes_and_what_stands_out(client: Client, publish: Publish) -> None:
    outlier = {"model": "bee", "tag": "language=fr", "difference": -80.0, "lower": -120.0, "upper": -40.0}
    votes = {"language=en": 90, "language=fr": 30, "language=de": 0, "": 7}
    found = {"language": {"votes": votes, "spread": 41.7, "outliers": [outlier]}}
    main: dict[str, dict[str, object]] = {"ant": {}, "bee": {}, "cat": {}}
    boards = {
        ("am-elo", ""): main,
        ("am-elo", "language=en"): {**main, "cat": {"score": 890.0, "votes": 0}},
        ("am-elo", "language=fr"): {"ant": {"lower": None, "upper": None}, "bee": {"score": 920.0}},
    }
    publish(boards, diagnostics={"categories": found})
    page = Page(client.get("/categories"))
    assert page.texts(".//thead/tr/th") == ["model", "All votes", "English", "French", "German"]
    assert page.texts(".//tbody/tr[1]/*") == ["ant", "1,100", "1,100", "1,100", "–"]
    assert page.texts(".//tbody/tr[2]/*") == ["bee", "1,000", "1,000", "920▼stands out by −80", "–"]
    assert page.texts(".//tbody/tr[3]/*") == ["cat", "900", "–", "–", "–"], "a score without votes is that of all votes"
    marked = [cell for cell in page.all(".//tbody//td") if cell.get("class") in ("above", "below")]
    assert [(cell.get("class"), cell.get("title")) for cell in marked] == [("below", "980 to 1,020, 60 votes")]
    assert "varies by about 42 points" in page.text(".//main")
    assert "In none of these categories: 7 votes." in page.text(".//main")
    assert "1 category score that stands out" in Page(client.get("/")).text(".//main")


def test_one_dimension_twenty_models_at_a_time_and_a_search(client: Client, publish: Publish) -> None:
    names = [f"model {number:02d}" for number in range(45)]
    tags = {"language": "language=fr", "task": "task=creative_writing"}
    found = {name: {"votes": {tag: 30, "": 0}, "spread": None, "outliers": []} for name, tag in tags.items()}
    board: dict[str, dict[str, object]] = {name: {} for name in names}
    publish({("am-elo", tag): board for tag in ("", *tags.values())}, diagnostics={"categories": found})
    page = Page(client.get("/categories"))
    assert page.texts(".//ul[@class='tabs']/li/a") == ["Language", "Task"]
    assert page.texts(".//tbody/tr/th") == names[:20]
    after = page.one(".//a[@rel='next']").get("href", "")
    assert Page(client.get("/categories" + after)).texts(".//tbody/tr/th") == names[20:40]
    other = Page(client.get("/categories" + page.all(".//ul[@class='tabs']/li/a")[1].get("href", "")))
    assert other.texts(".//thead/tr/th") == ["model", "All votes", "Creative writing"]
    searched = Page(client.get("/categories?by=task&q=MODEL+4")).texts(".//tbody/tr/th")
    assert searched == [name for name in names if "4" in name]
    assert "No model has" in Page(client.get("/categories?q=x")).text(".//main")
    assert client.get("/categories?by=mood").status_code == 404


def test_a_renamed_model_still_stands_out(client: Client, publish: Publish, ask: Callable[..., Response]) -> None:
    outlier = {"model": "bee", "tag": "language=fr", "difference": -80.0, "lower": -120.0, "upper": -40.0}
    found = {"language": {"votes": {"language=fr": 30, "": 7}, "spread": 41.7, "outliers": [outlier]}}
    main: dict[str, dict[str, object]] = {"ant": {}, "bee": {}}
    boards = {("am-elo", ""): main, ("am-elo", "language=fr"): {"ant": {}, "bee": {"score": 920.0}}}
    publish(boards, diagnostics={"categories": found})
    assert ask("PATCH", "/models/bee", json={"name": "wasp"}).status_code == 200
    _, renamed = ask("GET", "/leaderboard/categories").json()["models"]
    assert renamed["model"] == "wasp"
    assert renamed["categories"]["language=fr"]["stands_out"]


def test_without_categories_and_before_the_first_snapshot(client: Client, publish: Publish) -> None:
    assert "No leaderboard has been published yet" in Page(client.get("/categories")).text(".//main")
    publish({("am-elo", ""): {"ant": {}, "bee": {}}})
    assert "There are no categories yet" in Page(client.get("/categories")).text(".//main")
    assert "/categories" not in Page(client.get("/")).links
