"""The leaderboard as people see it: what its HTML says."""

from collections.abc import Callable
from typing import Any

import pytest
from httpx import Client
from sqlalchemy import text

from app.database.engine import Database
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
    models = page.texts(".//tbody/tr/th/a")
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
            "votes": {"read": 300, "used": 200, "pending": 70, "excluded": 30, "retracted": 0, "over_quota": 0}
        },
    )
    page = visit(client)
    rows = columns(page)

    assert rows["ant"] == {
        "Rank": "1between 1–2", "Class": "1", "Model": "ant 60 votes", "Score": "1,1001,080–1,120", "Interval": "",
        "Votes": "60", "Won": "62%", "Change": "▲up 1+0", "Other": "21,000", "Maker": "–",
    }  # fmt: skip
    assert rows["bee"]["Change"] == "▼down 1+0"
    assert rows["cat"]["Change"] == "–"
    assert "provisional" in rows["cat"]["Model"]
    assert "provisional" not in rows["bee"]["Model"]
    assert "no score yet" in rows["dog"]["Model"]
    assert (rows["dog"]["Score"], rows["dog"]["Class"], rows["dog"]["Change"]) == ("below 640", "–", "new")
    assert [row.get("class") for row in page.all(".//tbody/tr")] == ["leading", "leading", None, None]
    assert page.text(".//p[@class='verdict']") == "ant leads; bee cannot be told apart from it at these 200 votes."
    behind = page.text(".//section[@class='behind']")
    assert "200 of 300 votes on record count." in behind
    assert page.texts(".//section/div/ul/li")[:2] == [
        "70 of annotators with too few votes so far",
        "30 of excluded annotators",
    ]
    assert "snapshot before" not in behind


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
    assert nothing.text(".//p[@class='verdict']") == visit(client).text(".//p[@class='verdict']")

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


def test_what_modelling_annotators_changes_is_said(client: Client, three: int) -> None:
    said = "Compared with m-ELO, modelling annotators moves 2 models of 3; the farthest is ant, from rank 2 to 1."
    assert said in visit(client).text(".//p[@class='about']")
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


def test_models_that_votes_do_not_link_are_marked(client: Client, publish: Publish) -> None:
    publish({("am-elo", ""): {"ant": {}, "bee": {}, "far": {"component": 1, "rank": 1}}})
    page = visit(client)
    assert "group 2" in columns(page)["far"]["Model"]
    assert page.text(".//p[@class='verdict']").startswith("Votes do not link all models; in the largest group, ant")


def test_the_embedded_board_is_bare_and_may_be_framed(client: Client, three: int) -> None:
    response = client.get("/embed?theme=dark&tag=code&limit=1")
    page = Page(response)

    assert page.one("html").get("data-theme") == "dark"
    assert "frame-ancestors *" in response.headers["Content-Security-Policy"]
    assert page.texts(".//tbody/tr/th/a") == ["cat"]
    assert page.all(".//nav") == page.all(".//form") == page.all(".//thead//a") == []
    assert "/?tag=code" in page.links
    assert Page(client.get("/embed")).one("html").get("data-theme") is None


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
    assert "1 new vote waits for the next one" in status
    assert "out of date" in status


def test_it_says_whether_the_votes_are_enough(
    client: Client, ask: Callable[..., Any], crowd: list[str], refit: Callable[..., Any]
) -> None:
    refit()
    sentence = ask("GET", "/leaderboard/confidence", scope=None).json()["sentence"]
    assert sentence in visit(client).text(".//main")


def test_a_snapshot_that_does_not_know_says_nothing(client: Client, three: int) -> None:
    assert "decided" not in visit(client).text(".//main")
