"""The leaderboard as people see it: what its HTML says."""

import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import Client
from sqlalchemy import text

from app.database.engine import Database
from app.main import create_app
from app.settings import Settings
from tests.fixtures.arena import ARCHIVED, UNIDENTIFIED
from tests.fixtures.pages import Page, text_of

Publish = Callable[..., int]

_ANOTHER_VOTE = """
    INSERT INTO votes SELECT (jsonb_populate_record(v, jsonb_build_object(
        'id', gen_random_uuid(), 'battle_id', 'late', 'recorded_in', pg_current_xact_id()::text
    ))).* FROM votes v LIMIT 1
"""


def visit(client: Client, address: str = "/") -> Page:
    response = client.get(address)
    assert response.status_code == 200, response.text
    return Page(response)


def columns(page: Page) -> dict[str, dict[str, str]]:
    """Return each model's cells by the columns' names."""
    names = ["Rank", "Class", "Model", "Score", "Interval", "Votes", "Won", "Change", "Other", "Maker"]
    rows = [[text_of(cell) for cell in row] for row in page.all(".//tbody/tr")]
    models = page.texts(".//tbody/tr/th/a[1]")
    return {model: dict(zip(names, row, strict=True)) for model, row in zip(models, rows, strict=True)}


def test_before_the_first_snapshot_it_says_what_to_do(client: Client) -> None:
    page = visit(client)
    assert "No leaderboard has been published yet" in page.text(".//main")
    assert "more than 50 votes" in page.text(".//main")
    assert page.one(".//div[@id='board']").get("data-snapshot") == "0", "the first one appears by itself"
    assert "No leaderboard" in visit(client, "/embed").text(".//main")


def test_rows_show_what_the_api_answers(client: Client, publish: Publish) -> None:
    publish({("am-elo", ""): {"ant": {"rank": 2}, "bee": {"rank": 1}, "cat": {}}})
    publish(
        {
            ("am-elo", ""): {
                "ant": {"class_rank": 1, "worst_rank": 2},
                "bee": {"class_rank": 1, "lower": 970.0, "upper": 1085.0},
                "cat": {"class_rank": None, "lower": 700.0, "upper": 1000.0, "provisional": True},
                "dog": {
                    "score": None,
                    "se": None,
                    "lower": None,
                    "upper": 640.0,
                    "identified": False,
                    "class_rank": None,
                },
            },
            ("m-elo", ""): {"bee": {}, "ant": {}, "cat": {}},
        },
        diagnostics={
            "votes": {"read": 300, "used": 200, "pending": 70, "excluded": 30, "retracted": 0, "over_quota": 0},
            "weights": {"full": 148.0, "pushed": 12.0, "pushed_worth": 1.2, "many": 40.0, "many_worth": 19.7},
        },
    )
    page = visit(client)
    rows = columns(page)

    assert rows["ant"] == {
        "Rank": "1class 1", "Class": "1", "Model": "ant 60 votes", "Score": "1,1001,080–1,120", "Interval": "",
        "Votes": "60", "Won": "62%", "Change": "▲up 1", "Other": "–", "Maker": "–",
    }  # fmt: skip
    assert rows["bee"]["Change"] == "▼down 1"
    assert rows["cat"]["Change"] == "–"
    assert "provisional" in rows["cat"]["Model"]
    assert "provisional" not in rows["bee"]["Model"]
    assert "no score yet" in rows["dog"]["Model"]
    assert rows["dog"]["Rank"] == "–"
    assert (rows["dog"]["Score"], rows["dog"]["Class"], rows["dog"]["Change"]) == ("below 640", "–", "new")
    assert [row.get("class") for row in page.all(".//tbody/tr")] == ["leading", "leading", None, None]
    assert page.text(".//h1") == "ant leads, level with bee"
    sure = "ant leads; bee cannot be told apart from it at these 200 votes. Votes since snapshot 1: +30."
    assert sure in page.texts(".//details/p")
    behind = page.text(".//section[@class='behind']")
    assert "200 of 300 votes on record count." in behind
    assert page.texts(".//section/div/ul/li")[:5] == [
        "148 count in full",
        "12 count as 1: they seem to push a model, or to bury it",
        "40 count as 20: their annotator has far more votes on a model than its other judges",
        "70 do not count: of annotators with too few votes so far",
        "30 do not count: of excluded annotators",
    ]
    assert "snapshot before" not in behind


def test_a_row_says_what_the_model_is_beside_the_others(client: Client, publish: Publish) -> None:
    """For the plot: in words beside all of its group, and in a digit beside each row of the page."""
    rows = {"ant": {"better": ["cat"], "likely": ["bee"]}, "bee": {}, "cat": {}, "dog": {}, "far": {"component": 1}}
    board = {name: {"class_rank": None if name == "dog" else 1, **row} for name, row in rows.items()}
    publish({("am-elo", ""): board, ("m-elo", ""): {"ant": {"class_rank": 1}, "bee": {"class_rank": 1}}})
    page = visit(client, "/?sort=model")
    found = {text_of(row.findall("th/a")[0]): (row.get("data-words"), row.get("data-differences"))
             for row in page.all(".//tbody/tr")}  # fmt: skip
    assert found == {
        "ant": ("better than 1, likely better than 1", "-34-"),
        "bee": ("level with 1, likely worse than 1", "1-2-"),
        "cat": ("level with 1, worse than 1", "02--"),
        "dog": (None, None),
    }
    assert visit(client, "/?method=m-elo").all(".//tbody/tr[@data-words]") == [], "the snapshot does not say"
    assert "cannot tell the two apart" in page.text(".//p[@id='words']"), "the words are explained"


def test_intervals_share_one_axis(client: Client, publish: Publish) -> None:
    publish(
        {
            ("am-elo", ""): {
                "ant": {"score": 1100.0, "lower": 1050.0, "upper": 1150.0},
                "bee": {"score": 1000.0, "lower": 950.0, "upper": 1050.0},
                "cat": {"score": 900.0, "lower": 850.0, "upper": 950.0},
                "new": {"score": 990.0, "lower": -9000.0, "upper": 9000.0},
            }
        }
    )
    page = visit(client)
    lines = [
        tuple(float(line.get(end, "").removesuffix("%")) for end in ("x1", "x2"))
        for line in page.all(".//tbody/tr/td/svg/line")
    ]
    dots = [float(dot.get("cx", "").removesuffix("%")) for dot in page.all(".//tbody/tr/td/svg/circle")]

    assert lines[0][0] == pytest.approx(lines[1][1], abs=0.01), "1,050 is where one ends and the other begins"
    assert lines[1][0] == pytest.approx(lines[2][1], abs=0.01)
    assert dots[:3] == [pytest.approx(sum(line) / 2, abs=0.01) for line in lines[:3]]
    assert lines[3] == (0.0, 100.0), "a model that the votes say little of does not squeeze the others"
    assert lines[0][1] - lines[0][0] > 15
    assert [text_of(mark) for mark in page.all(".//tbody/tr/td/svg/text")] == ["‹", "›"]
    assert "1,000" in page.texts(".//thead//svg/text")


def test_search_sort_and_switch(client: Client, three: int) -> None:
    def order(address: str) -> list[str]:
        return visit(client, address).texts(".//tbody/tr/th/a")

    assert order("/") == ["ant", "bee", "cat"]
    assert order("/?sort=model&order=down") == ["cat", "bee", "ant"]
    assert order("/?sort=score") == ["ant", "bee", "cat"]
    assert order("/?sort=score&order=up") == ["cat", "bee", "ant"]
    assert order("/?q=+BE+") == ["bee"]
    assert order("/?method=m-elo") == ["bee", "ant", "cat"]
    assert order("/?tag=code") == ["cat", "ant"]
    assert "9 votes" in visit(client, "/?tag=code").text(".//tbody/tr[1]/th")
    nothing = visit(client, "/?q=%3Cb%3E")
    assert nothing.text(".//div[@class='empty']/p[@class='lead']").startswith("No model has “<b>” in its name")
    assert nothing.text(".//h1") == visit(client).text(".//h1")

    page = visit(client, "/?sort=score&q=a")
    headers = {text_of(cell): cell.get("aria-sort") for cell in page.all(".//thead/tr/th")}
    assert headers["Score"] == "descending"
    assert list(headers.values()).count(None) == len(headers) - 1
    links = {text_of(link): link.get("href", "") for link in page.all(".//thead//a")}
    assert links["Score"] == "/?q=a&sort=score&order=up"
    assert links["Votes"] == "/?q=a&sort=votes"
    hidden = {field.get("name"): field.get("value") for field in page.all(".//form/input[@type='hidden']")}
    assert hidden == {"sort": "score"}
    assert page.one(".//input[@id='q']").get("value") == "a"
    for link in [*links.values(), *(link.get("href", "") for link in page.all(".//nav[@class='choices']//a"))]:
        assert client.get(link).status_code == 200, link


def test_what_judges_like_is_taken_out(client: Client, publish: Publish) -> None:
    models: dict[str, dict[str, object]] = {"ant": {}, "bee": {}}
    worth = {"points": 9.0, "lower": 1.0, "upper": 17.0}
    style = {"features": [{"feature": name, **worth} for name in ("side", "length")], "left_out": 0}
    publish({("am-elo", ""): models, ("judges", ""): models}, diagnostics={"style": style})
    assert "What each likes is taken out too: length." in visit(client, "/?method=judges").text(".//main")
    publish({("am-elo", ""): models, ("judges", ""): models})
    assert "taken out too" not in visit(client, "/?method=judges").text(".//main")


def test_what_modelling_annotators_changes_is_said(client: Client, three: int) -> None:
    said = "Compared with m-ELO, modelling annotators moves 2 models of 3; the farthest is ant, from rank 2 to 1."
    assert "modelling annotators moves" not in visit(client).text(".//main")
    assert said in visit(client, "/?method=m-elo").text(".//p[@class='about']")
    alike = "Modelling annotators moves no model: am-ELO has the order of m-ELO of all votes."
    assert alike in visit(client, "/?method=m-elo-all").text(".//p[@class='about']")


def test_a_past_snapshot_says_so_and_has_its_own_address(client: Client, three: int, publish: Publish) -> None:
    publish({("am-elo", ""): {"bee": {}, "ant": {}}})
    newest, past = visit(client), visit(client, f"/?snapshot={three}")

    assert newest.one(".//div[@id='board']").get("data-live") == ""
    assert past.one(".//div[@id='board']").get("data-live") is None
    assert f"This is snapshot {three}" in past.text(".//p[@class='notice']")
    assert "/" in past.links
    assert f"/?snapshot={three}" in past.links
    assert f"/?snapshot={three + 1}" in newest.links
    for page, number in ((newest, three + 1), (past, three)):
        files = [link for link in page.links if link.startswith("/api/v1/leaderboard")]
        kinds = [client.get(link).headers["content-type"].partition(";")[0] for link in files]
        assert kinds == ["application/json", "text/csv", "application/vnd.apache.parquet"]
        assert client.get(files[0]).json()["snapshot"]["number"] == number


def test_what_does_not_exist_is_an_error_page(client: Client, three: int) -> None:
    for query, status, words in (
        ("snapshot=99", 404, "There is no snapshot 99."),
        ("tag=poetry", 404, "no leaderboard of the tag 'poetry'"),
        ("sort=luck", 422, "sort"),
        ("method=glicko", 422, "method"),
    ):
        response = client.get(f"/?{query}")
        assert response.status_code == status
        assert words in Page(response).text(".//main")
    assert client.get("/?utm_source=elsewhere").status_code == 200


def test_each_group_has_a_tab_an_axis_a_headline_and_an_address(client: Client, publish: Publish) -> None:
    far: dict[str, dict[str, Any]] = {
        name: {"component": 1, "rank": place, "score": 3000.0 - place, "lower": None, "upper": None, "votes": 20}
        for place, name in enumerate(("far", "fax"), 1)
    }
    whole = {"ant": {"class_rank": 1}, "bee": {"class_rank": 2}, **far}
    named = {name: {**row, "component": 0} for name, row in far.items()}
    publish({("am-elo", ""): whole, ("m-elo", ""): whole, ("am-elo", "en-cs"): named, ("am-elo", "code"): {"far": {}}})
    first, second = visit(client), visit(client, "/?group=en-cs")

    tabs = [[text_of(tab) for tab in strip] for strip in first.all(".//nav[@class='choices']/ul")]
    assert tabs == [["All votes", "code"], ["group 1", "en-cs"], ["am-ELO", "m-ELO"]]
    assert [page.texts(".//tbody/tr/th/a") for page in (first, second)] == [["ant", "bee"], ["far", "fax"]]
    assert [page.text(".//h1") for page in (first, second)] == [
        "group 1: ant likely leads all others",
        "en-cs: far has the best score",
    ]
    scales = [page.one(".//thead//svg").get("aria-label") for page in (first, second)]
    assert scales == ["Intervals from 976 to 1,124 points", "Intervals from 2,997 to 3,000 points"]
    assert text_of(second.all(".//nav//a[@href='/?group=en-cs']")[0]) == "en-cs"
    assert visit(client, "/?method=m-elo&group=en-cs").texts(".//tbody/tr/th/a") == ["far", "fax"]
    assert visit(client, "/embed?group=2").texts(".//tbody/tr/th/a") == ["far", "fax"]
    assert "it has 1, en-cs" in Page(client.get("/?group=3")).text(".//main")

    found = columns(visit(client, "/?q=a&group=en-cs"))
    assert {name: (row["Rank"], row["Model"]) for name, row in found.items()} == {
        "ant": ("1of 2class 1", "ant group 1 60 votes"),
        "far": ("1of 2", "far en-cs 20 votes"),
        "fax": ("2of 2", "fax en-cs 20 votes"),
    }
    model = visit(client, "/models/fax")
    assert "2nd of 2 in en-cs" in model.texts(".//dl/div/dd")
    assert "/?method=am-elo&tag=&group=en-cs" in model.links


def test_an_outlier_stands_at_the_border_with_its_value(client: Client, publish: Publish) -> None:
    scores = [1100.0, 1090.0, 1080.0, 1070.0, 1060.0, -5000.0]
    board = {f"m{at}": {"score": score, "lower": score - 8, "upper": score + 8} for at, score in enumerate(scores)}
    publish({("am-elo", ""): board})
    page = visit(client)
    assert page.one(".//thead//svg").get("aria-label") == "Intervals from 1,050 to 1,110 points"
    beyond = page.one(".//tbody//text")
    assert (beyond.get("class"), beyond.get("x"), text_of(beyond)) == ("below", "0.0%", "−5,000")
    board["m5"]["upper"] = 1065.0
    publish({("am-elo", ""): board})
    page = visit(client)
    line, beyond = page.all(".//tbody//line")[-1], page.one(".//tbody//text")
    assert beyond.get("x") == line.get("x2") != "0.0%", "beside its interval, not on it"


def test_a_leader_far_ahead_is_on_the_axis(client: Client, publish: Publish) -> None:
    scores = [3000.0, 1090.0, 1080.0, 1070.0, 1060.0, 1050.0]
    board = {f"m{at}": {"score": score, "lower": score - 8, "upper": score + 8} for at, score in enumerate(scores)}
    publish({("am-elo", ""): board})
    page = visit(client)
    assert page.one(".//thead//svg").get("aria-label") == "Intervals from 983 to 3,067 points"
    assert page.all(".//tbody//text") == []
    dots = [float(dot.get("cx", "").removesuffix("%")) for dot in page.all(".//tbody/tr/td/svg/circle")]
    assert 90 < dots[0] < 100


def test_a_model_without_a_score_has_no_rank(client: Client, publish: Publish) -> None:
    lost = {"score": None, "se": None, "lower": None, "upper": 640.0, "identified": False, "class_rank": 3}
    publish({("am-elo", ""): {"ant": {"class_rank": 1}, "bee": {"class_rank": 2}, "cat": lost}})
    row = columns(visit(client))["cat"]
    assert (row["Rank"], row["Class"], row["Score"]) == ("–", "–", "below 640")
    assert "no rank" in visit(client, "/models/cat").texts(".//dl/div/dd")
    svg = client.get("/card.svg").text
    assert ">3</text>" not in svg


def test_tabs_are_named_as_people_say_and_by_dimension(client: Client, publish: Publish) -> None:
    board: dict[str, dict[str, Any]] = {"ant": {}, "bee": {}}
    tags = ("task=creative_writing", "language=fr", "language=pt-BR", "short")
    publish({("am-elo", tag): board for tag in ("", *tags)} | {(method, ""): board for method in ("m-elo", "elo")})
    page = visit(client)
    tabs = [[text_of(tab) for tab in strip] for strip in page.all(".//nav[@class='choices']/ul")]
    assert tabs == [
        ["All votes", "short"],
        ["Language", "French", "Portuguese (BR)"],
        ["Task", "Creative writing"],
        ["am-ELO", "m-ELO"],
    ]
    assert visit(client, "/?tag=language%3Dfr").text(".//h1").startswith("French: ant")
    assert "French" in visit(client, "/models/ant").text(".//table")
    assert visit(client, "/?method=elo").texts(".//tbody/tr/th/a") == ["ant", "bee"], "its address still shows it"


def test_scores_by_day_of_release(client: Client, publish: Publish, ask: Callable[..., Any]) -> None:
    publish({("am-elo", ""): {name: {} for name in ("new", "worse", "old", "undated")}})
    assert not visit(client).all(".//div[@class='dated']"), "no day is known"
    for name, day in (("old", "2025-01-31"), ("worse", "2026-03-01"), ("new", "2026-01-31")):
        assert ask("PATCH", f"/models/{name}", json={"released": day}).status_code == 200
    section = ".//section[h2='Score by day of release']"
    label = visit(client).one(f"{section}/div").get("aria-label", "")
    assert label.endswith("the latest last: old and new"), "worse was never the best"
    assert visit(client).text(f"{section}/p").endswith("released until then, old and new.")
    dots = visit(client).all(f"{section}//circle")
    assert [dot.get("class") for dot in dots] == ["best", "best", None]
    assert [dot.get("cx") for dot in dots] == ["0.0%", "92.64%", "100.0%"]


def test_scores_by_price(client: Client, publish: Publish, ask: Callable[..., Any]) -> None:
    publish({("am-elo", ""): {name: {} for name in ("dear", "cheap", "worse", "unpriced")}})
    for name, price in (("dear", 30), ("worse", 0.6), ("cheap", 0.3)):
        assert ask("PATCH", f"/models/{name}", json={"price": price}).status_code == 200
    section = ".//section[h2='Score by price']"
    label = visit(client).one(f"{section}/div").get("aria-label", "")
    assert label.endswith("the cheapest first: cheap and dear")
    assert visit(client).text(f"{section}/p").endswith("that cost no more, cheap and dear.")
    assert [dot.get("cx") for dot in visit(client).all(f"{section}//circle")] == ["0.0%", "15.05%", "100.0%"]
    assert visit(client).texts(f"{section}//title") == ["cheap: 1,000, $0.3", "worse: 900, $0.6", "dear: 1,100, $30"]
    assert "$0.3 for a million tokens" in visit(client, "/models/cheap").text(".//p[@class='muted facts']")


def test_a_long_leaderboard_comes_in_parts(client: Client, publish: Publish) -> None:
    publish({("am-elo", ""): {f"model {number:03d}": {} for number in range(130)}})
    page = visit(client)
    assert len(page.all(".//tbody/tr")) == 100
    (more,) = [link for link in page.links if "rows=" in link]
    whole = visit(client, more)
    assert len(whole.all(".//tbody/tr")) == 130
    assert not [link for link in whole.links if "rows=300" in link]
    assert client.get("/?rows=0").status_code == 422


def test_the_embedded_board_is_bare_and_may_be_framed(client: Client, three: int) -> None:
    response = client.get("/embed?theme=dark&tag=code&limit=1")
    page = Page(response)

    assert page.one("html").get("data-theme") == "dark"
    assert "frame-ancestors *" in response.headers["Content-Security-Policy"]
    assert page.texts(".//tbody/tr/th/a") == ["cat"]
    assert page.all(".//nav") == page.all(".//form") == page.all(".//thead//a") == []
    assert "/?tag=code" in page.links
    assert Page(client.get("/embed")).one("html").get("data-theme") is None


def test_a_picture_of_the_first_five_for_previews_of_links(
    settings: Settings, serving: Callable[[FastAPI], Any], client: Client, publish: Publish
) -> None:
    publish({("am-elo", ""): {f"m{at} <&>": {"class_rank": at + 1} for at in range(7)}})
    page = visit(client)
    addresses = [link for link in page.links if link.startswith("/card.")]
    png, svg = (client.get(address) for address in addresses)
    assert png.headers["content-type"] == "image/png"
    assert png.content[16:24] == (1200).to_bytes(4) + (630).to_bytes(4)
    texts = list(ET.fromstring(svg.text).itertext())  # noqa: S314  our own
    assert "m0 <&> likely leads all others" in texts
    assert [f"m{at} <&>" in texts for at in range(7)] == [True] * 5 + [False] * 2
    assert page.all(".//meta[@property='og:image']") == []

    pages = settings.pages.model_copy(update={"public_url": "https://arena.example"})
    with (
        serving(create_app(settings.model_copy(update={"pages": pages}))) as url,
        Client(base_url=url, timeout=120) as reader,
    ):
        previewed = visit(reader, "/?method=am-elo")
    shown = {one.get("property"): one.get("content") for one in previewed.all(".//meta[@property]")}
    assert shown["og:title"] == page.text(".//h1")
    assert shown["og:image"] == "https://arena.example/card.png"


@pytest.mark.arena
def test_a_real_arena(client: Client, database: Database) -> None:
    page = visit(client)
    rows = columns(page)

    assert ARCHIVED not in rows
    assert "no score yet" in rows[UNIDENTIFIED]["Model"]
    assert "<2>" in " ".join(rows)
    assert "english" in page.texts(".//nav[@class='choices']//a")
    assert "1 archived model is not shown; its votes count." in page.text(".//section[@class='behind']")
    classes = [int(row["Class"]) for row in rows.values() if row["Class"].isdigit()]
    assert classes[0] == 1
    assert max(classes) > 2
    assert any("up" in row["Change"] or "down" in row["Change"] for row in rows.values())
    with database.begin() as conn:
        conn.execute(text("UPDATE snapshots SET published_at = published_at - interval '2 days'"))
        conn.execute(text(_ANOTHER_VOTE))
    status = visit(client).text(".//p[@role='status']")
    assert "1 new vote waits" in status
    assert "out of date" in status


def test_it_says_whether_the_votes_are_enough(
    client: Client, ask: Callable[..., Any], gather: Callable[..., Any], refit: Callable[..., Any]
) -> None:
    gather(honest=30)
    refit()
    known = ask("GET", "/leaderboard/confidence", scope=None).json()
    page = visit(client)
    assert known["sentence"] in page.texts(".//details/p")
    assert known["verdict"] == "decided"
    assert page.text(".//div[@class='under']/p[1]") == "Decided with 95 % confidence."


def test_it_says_how_many_prompts_stand_behind_it(client: Client, publish: Publish) -> None:
    boards: dict[Any, Any] = {(method, ""): {"ant": {}, "bee": {}} for method in ("am-elo", "m-elo")}
    best = [{"k": 1, "votes": 9, "flipped_votes": 5, "added_votes": 4, "annotators": 2, "prompts": 3}]
    known = {"prompts": 50, "prompt_share": 0.62, "warnings": [{"code": "few-prompts", "detail": "", "models": []}]}
    said = "The votes are on 50 prompts. Which ones they are makes 62 % of the variance of the scores."
    asks = " More prompts help more than more votes."
    publish(boards, diagnostics={**known, "fragility_of_best": best})
    assert f"{said}{asks} First place hangs on 3 of 50 prompts." in visit(client).texts(".//details/p")
    assert said not in visit(client, "/?method=m-elo").text(".//main")
    publish(boards, diagnostics={**known, "warnings": [], "fragility_of_best": None})
    assert said in visit(client).texts(".//details/p")


def test_a_snapshot_that_does_not_know_says_nothing(client: Client, three: int) -> None:
    assert "decided" not in visit(client).text(".//main")
