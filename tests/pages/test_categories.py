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
    page = Page(client.get("/categories?rows=2"))
    assert page.texts(".//thead/tr/th") == [
        "model",
        "all votes",
        "language=en 90 votes",
        "language=fr 30 votes",
        "language=de 0 votes",
    ]
    assert page.texts(".//tbody/tr[1]/*") == ["ant", "1,100", "1,100 1,080 to 1,120", "1,100", "–"]
    assert page.texts(".//tbody/tr[2]/*") == ["bee", "1,000", "1,000 980 to 1,020", "920 (−80) 980 to 1,020", "–"]
    assert page.texts(".//td//strong") == ["920 (−80)"]
    assert "varies by about 42 points" in page.text(".//main")
    assert "In none of these categories: 7 votes." in page.text(".//main")
    more = Page(client.get("/categories" + next(link for link in page.links if "rows=" in link)))
    assert more.texts(".//tbody/tr[3]/*") == ["cat", "900", "890 880 to 920 no votes", "–", "–"]
    assert "1 category score beside the rest" in Page(client.get("/")).text(".//main")


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
