"""The history, and the difference between two snapshots."""

import re
from collections.abc import Callable

from httpx import Client

from tests.fixtures.pages import Page, text_of

Publish = Callable[..., int]


def visit(client: Client, address: str = "/history", status: int = 200) -> Page:
    response = client.get(address)
    assert response.status_code == status, response.text
    return Page(response)


def test_each_snapshot_says_what_it_changed(client: Client, publish: Publish) -> None:
    publish({("am-elo", ""): {"ant": {}, "bee": {}}})
    alarm = {"rule": "coin", "annotators": 4, "votes": 60, "share": 0.2, "usual": 0.012}
    publish(
        {("am-elo", ""): {"bee": {"score": 1150.0}, "ant": {"score": 1000.0}, "cat": {}}},
        diagnostics={"alarms": [alarm]},
    )
    page = visit(client)
    newest, first = page.all(".//ol/li")
    assert text_of(newest.findall("h3/a")[0]) == "Snapshot 2"
    assert [text_of(one) for one in newest.findall("ul/li")] == [
        "bee rose from rank 2 to 1, +150.0 points, beyond its interval.",
        "ant fell from rank 1 to 2, −100.0 points, beyond its interval.",
        "cat is new, at rank 3.",
        "Everything that changed",
    ]
    assert "the rule coin found annotators with 20.0% of the votes; 1.2% is usual" in text_of(newest)
    assert "200 votes count, of 300 on record" in text_of(newest)
    assert "The first leaderboard on record" in text_of(first)
    assert newest.findall("h3/a")[0].get("href") == "/?snapshot=2"


def test_ranks_over_time(client: Client, publish: Publish) -> None:
    assert not visit(client).all(".//svg")
    publish({("am-elo", ""): {"ant": {}, "bee": {}}})
    assert not visit(client).all(".//svg"), "one snapshot makes no line"
    publish({("am-elo", ""): {"bee": {}, "ant": {"provisional": True}, "cat": {"score": None, "identified": False}}})
    publish({("am-elo", ""): {"bee": {}, "ant": {}}})
    page = visit(client)
    lines, names = page.all(".//svg[2]/g"), page.texts(".//svg[3]/g/a/text")
    assert names == ["1 bee", "2 ant"]
    start, end = page.texts(".//svg[2]/text")[-1], page.texts(".//svg[3]/text")[0]
    assert re.fullmatch(r"\d\d:\d\d", start), "within a day"
    assert end.endswith(" UTC")
    bee, ant = ([one for one in line.findall("line") if one.get("class") is None] for line in lines)
    assert (len(bee), len(ant)) == (2, 0), "where it had no rank its line has a gap"
    assert float(bee[0].get("y1", "")) > float(bee[0].get("y2", "")), "a better rank is drawn higher"
    assert bee[1].get("y1") == bee[1].get("y2")
    chosen = visit(client, "/history?model=ant")
    assert chosen.texts(".//svg[3]/g/a/text") == ["2 ant"]
    assert chosen.texts(".//option[@selected]")[0] == "ant"
    visit(client, "/history?model=dog", 404)


def test_a_snapshot_with_many_moves_names_the_largest(client: Client, publish: Publish) -> None:
    names = [f"m{i}" for i in range(8)]
    publish({("am-elo", ""): {name: {} for name in names}})
    publish({("am-elo", ""): {name: {} for name in reversed(names)}})
    moves = [text_of(one) for one in visit(client).all(".//ol/li[1]/ul/li")]
    assert len(moves) == 4
    assert moves[3] == "and 5 more changes"


def test_older_snapshots(client: Client, publish: Publish) -> None:
    for _ in range(12):
        publish({("am-elo", ""): {"ant": {}}})
    page = visit(client)
    assert len(page.all(".//ol/li")) == 10
    older = visit(client, page.one(".//a[@rel='next']").get("href", ""))
    assert [text_of(one) for one in older.all(".//ol/li/h3/a")] == ["Snapshot 2", "Snapshot 1"]
    assert older.all(".//a[@rel='next']") == []
    assert "There is no earlier snapshot" in visit(client, "/history?before=1").text(".//main")
    assert [one.get("value") for one in page.all(".//select[@id='at']/option")] == [str(at) for at in range(1, 13)]


def test_any_two_snapshots(client: Client, publish: Publish, ask: Callable[..., object]) -> None:
    publish({("am-elo", ""): {"ant": {}, "bee": {}, "old": {}}})
    publish({("am-elo", ""): {"ant": {}}})
    publish({("am-elo", ""): {"bee": {}, "ant": {"votes": 90}, "cat": {}}})
    page = visit(client, "/history/difference?before=3&after=1")
    assert page.text(".//h1") == "From snapshot 1 to 3", "the earlier one comes first"
    figures = dict(zip(page.texts(".//dl/div/dt"), page.texts(".//dl/div/dd"), strict=True))
    assert figures == {"models rose": "1", "models fell": "1", "models entered": "1", "models left": "1"}
    table = [[text_of(cell) for cell in row] for row in page.all(".//tbody/tr")]
    assert table == [
        ["bee", "1 from 2", "1,100 from 1,000", "+100.0", "60"],
        ["ant", "2 from 1", "1,000 from 1,100", "−100.0", "90 from 60"],
        ["cat new", "3 from –", "900 from –", "–", "60 from 0"],
        ["old left", "– from 3", "– from 900", "–", "0 from 60"],
    ]
    assert "Both were made from exactly the same votes." in page.texts(".//section/ul/li")
    ask("PATCH", "/models/bee", json={"name": "wasp"})
    assert "wasp" in visit(client, "/history/difference?before=1&after=3").text(".//tbody"), (
        "what is kept is up to date"
    )


def test_each_group_shows_what_changed_first_and_folds_the_rest(client: Client, publish: Publish) -> None:
    near, far = {"component": 0}, {"component": 1}
    first = {"ant": near, "bee": near, "cat": near, "pig": {**far, "rank": 1}, "yak": {**far, "rank": 2}}
    publish({("am-elo", ""): first})
    publish({("am-elo", ""): {"bee": near, "ant": near, "cat": near, "pig": {**far, "rank": 1, "votes": 70}}})
    page = visit(client, "/history/difference?before=1&after=2")
    assert page.texts(".//nav[@aria-label='Groups']//a") == ["group 1 2 changed", "group 2 1 changed"]
    assert page.texts(".//main/div[@class='scroll']//tbody//a") == ["bee", "ant"]
    assert page.texts(".//details//tbody//a") == ["cat"]
    other = visit(client, "/history/difference" + page.all(".//nav[@aria-label='Groups']//a")[1].get("href", ""))
    assert other.texts(".//tbody/tr/th") == ["yak left", "pig"]
    assert other.texts(".//section[1]/ul/li") == ["yak is no longer on the leaderboard; it was at rank 2."]
    visit(client, "/history/difference?before=1&after=2&group=7", 404)


def test_what_does_not_exist(client: Client, publish: Publish) -> None:
    assert "No leaderboard has been published yet" in visit(client).text(".//main")
    publish({("am-elo", ""): {"ant": {}}})
    assert "no snapshot 9" in visit(client, "/history/difference?before=1&after=9", 404).text(".//main")
    assert "m-elo" in visit(client, "/history/difference?before=1&after=1&method=m-elo", 404).text(".//main")
    visit(client, "/history/difference?before=1", 422)
    visit(client, "/history?before=0", 422)
