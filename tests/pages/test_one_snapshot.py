"""The pages of one snapshot beside each other, and beside the API: a number or a word on two of them is the same."""

import re
from collections.abc import Callable, Iterator
from itertools import combinations, permutations
from typing import Any

import pytest
from httpx import Client

from app.database.engine import Database
from app.leaderboard.charts import draw_newest
from app.snapshots.differences import WORDS
from tests.fixtures.arena import Arena
from tests.fixtures.console import SignIn, Visitor
from tests.fixtures.pages import Page, text_of

pytestmark = pytest.mark.arena

Ask = Callable[..., Any]


@pytest.fixture
def board(client: Client) -> Page:
    return Page(client.get("/"))


@pytest.fixture
def places(ask: Ask) -> dict[str, dict[str, Any]]:
    """The models of the leaderboard that have a class, the best first."""
    rows = ask("GET", "/leaderboard").json()["models"]
    return {row["model"]: row for row in rows if row["class_rank"] is not None}


@pytest.fixture
def differences(ask: Ask) -> dict[tuple[str, str], str]:
    """What a model is beside another, by the API, both ways round."""
    found = {}
    for one in ask("GET", "/matchups?limit=200").json()["items"]:
        if one["difference"] is not None:
            a, b = one["model_a"], one["model_b"]
            found[a, b] = one["difference"]
            found[b, a] = WORDS[-1 - WORDS.index(one["difference"])]
    return found


def rows_of(board: Page) -> Iterator[tuple[str, Any]]:
    for row in board.all(".//tbody/tr"):
        yield text_of(row.findall("th/a")[0]), row


def count_words(differences: dict[tuple[str, str], str], model: str) -> dict[str, int]:
    mine = [word for (a, _), word in differences.items() if a == model]
    return {word: mine.count(word) for word in WORDS if word in mine}


def test_one_word_for_a_difference_on_every_page(
    client: Client, ask: Ask, board: Page, places: dict[str, Any], differences: dict[tuple[str, str], str]
) -> None:
    """Headline, class, hover, Compare, the models' pages and the API; and what rank sets and intervals allow."""
    assert differences.keys() == set(permutations(places, 2))
    assert set(differences.values()) == set(WORDS), "all of them occur"
    leader = next(iter(places))
    level = [other for other in places if other != leader and differences[leader, other] == "level"]
    likely = any(differences[leader, other] == "likely-better" for other in places if other != leader)
    alone = f"{leader} likely leads all others" if likely else f"{leader} leads all others"
    several = level[0] if len(level) == 1 else "others"
    headline = board.text(".//h1")
    assert headline.startswith(f"{leader} leads, level with ") if level else headline == alone
    assert headline.endswith(several if level else alone)
    assert {name for name, row in places.items() if row["class_rank"] == 1} == {leader, *level}
    names = [name for name, _ in rows_of(board)]
    for name, row in rows_of(board):
        if name not in places:
            assert row.get("data-differences") is None
            continue
        digits = dict(zip(names, row.get("data-differences"), strict=True))
        assert {other: WORDS[int(digit)] for other, digit in digits.items() if digit != "-"} == {
            other: differences[name, other] for other in places if other != name
        }
        said = {words.rpartition(" ")[0]: int(words.rpartition(" ")[2]) for words in row.get("data-words").split(", ")}
        stated = {word.replace("-", " ") + (" with" if word == "level" else " than"): number
                for word, number in count_words(differences, name).items()}  # fmt: skip
        assert said == stated
        page = Page(client.get(f"/models/{name}"))
        beside = {text_of(cells[0]): text_of(cells[-2]) for cells in map(list, page.all(".//table/tbody/tr"))
                  if text_of(cells[-1]) == "compare"}  # fmt: skip
        assert {other: beside[other] for other in places if other != name} == {
            other: differences[name, other].replace("-", " ") for other in places if other != name
        }
        better = [differences[other, name] for other in places if other != name].count("better")
        assert places[name]["rank_set_best"] == 1 + better, "the archived model is the last"


def test_compare_says_what_the_leaderboard_says(
    client: Client, places: dict[str, Any], differences: dict[tuple[str, str], str], ask: Ask
) -> None:
    shown = {(one["model_a"], one["model_b"]): one for one in ask("GET", "/matchups?limit=200").json()["items"]}
    for a, b in combinations(list(places)[:6] + list(places)[-2:], 2):
        page = Page(client.get("/compare", params={"a": a, "b": b}))
        verdict, word = page.text(".//h2[@class='verdict']"), differences[a, b]
        better = {"better": f"{a} is better.", "likely-better": f"{a} is likely better."}
        assert verdict == better.get(word, "The votes cannot tell the two apart."), (a, b)
        pair = shown.get((a, b)) or shown[b, a]
        if pair["lower"] > 0.5 or pair["upper"] < 0.5:
            assert word != "level", "the interval leaves out one half, and so does the word"
        else:
            assert word == "level"
        points = [round(places[name]["score"]) for name in (a, b) if places[name]["score"] is not None]
        row = text_of(page.all(".//table/tbody/tr")[0])
        assert all(f"{one:,}" in row for one in points)
        assert f"class {places[a]['class_rank']}" in row


def test_a_model_has_the_same_numbers_on_its_page_and_on_the_board(
    client: Client, board: Page, places: dict[str, Any]
) -> None:
    for name, row in rows_of(board):
        if name not in places:
            continue
        cells, api = [text_of(cell) for cell in row], places[name]
        scored = api["score"] is not None
        assert cells[0] == (f"{api['rank']}class {api['class_rank']}" if scored else "–")
        assert cells[5].replace(",", "") == str(api["votes"])
        page = Page(client.get(f"/models/{name}"))
        figures = list(zip(page.texts(".//dl/div/dt"), page.texts(".//dl/div/dd"), strict=True))
        assert figures[2] == ("votes that count", f"{api['votes']:,}")
        if scored:
            assert cells[3].startswith(f"{round(api['score']):,}")
            assert figures[0][0] == f"by am-ELO, class {api['class_rank']}"
            assert figures[0][1].startswith(str(api["rank"]))
            assert figures[1][1] == f"{round(api['score']):,}"


def test_the_votes_add_up_and_are_the_same_everywhere(client: Client, ask: Ask, board: Page) -> None:
    snapshot = ask("GET", "/snapshots?limit=1").json()["items"][0]
    account = board.texts(".//section[@class='behind']/div[2]/ul/li")
    method = Page(client.get("/method"))
    assert method.texts(".//section[h2='Which votes count']/ul/li") == account
    numbers = [int(line.split(" ")[0].replace(",", "")) for line in account]
    assert sum(numbers) == snapshot["votes_read"]
    assert account[0].endswith("count in full")
    counting = [number for number, line in zip(numbers, account, strict=True) if "do not count" not in line]
    assert sum(counting) == snapshot["votes_used"]
    assert any("seem to push a model" in line for line in account), "the clique's"
    weights = ask("GET", f"/snapshots/{snapshot['number']}").json()["diagnostics"]["weights"]
    assert numbers[0] == round(weights["full"])


def test_the_chart_of_predictions_is_the_same_on_both_pages(client: Client, database: Database) -> None:
    draw_newest(database)
    said = [next(text for text in Page(client.get(address)).texts(".//figcaption") if "percentage points" in text)
            for address in ("/method", "/matchups")]  # fmt: skip
    assert said[0] == said[1]
    assert "none of 10 points lies outside the band of chance" in said[0]


def test_one_ability_and_one_diagnosis_of_an_annotator(sign_in: SignIn, ask: Ask, arena: Arena) -> None:
    visitor: Visitor = sign_in("admin")
    queue = {one["annotator"]: one for one in ask("GET", "/reviews?limit=100").json()["items"]}
    listed = {text_of(row[0]): [text_of(cell) for cell in row]
              for row in visitor.page("/console/annotators").all(".//tbody/tr")}  # fmt: skip
    shown = {text_of(row[1]): row for row in visitor.page("/console/reviews").all(".//tbody/tr")}
    assert len(queue) > 5
    for name, one in queue.items():
        detail = ask("GET", f"/annotators/{one['id']}").json()
        page = visitor.page(f"/console/annotators/{one['id']}")
        ability = detail["ability"] if detail["ability"] is not None else detail["shadow_ability"]
        written = f"{ability:z.2f}".replace("-", "−")
        assert one["evidence"]["judged"]["value"] == ability
        assert page.one(".//svg[@class='band']").get("aria-label", "").count(f"{written} in snapshot 4") == 1
        if name in listed:
            assert listed[name][2] == written
        diagnosis, *others = one["evidence"]["words"]
        assert page.text(".//p[@class='lead diagnosis']") == diagnosis == detail["evidence"]["summary"][0]
        text = page.text(".//main")
        assert not re.search(r"10\^?\d{2,} to 1", text)
        weights = one["evidence"]["weights"]
        if weights is not None:
            assert weights["full"] + weights["pushed"] + weights["many"] == one["votes"]
            assert f"{weights['full']:,.0f} count in full" in text
        if name in shown:
            assert text_of(shown[name][2].findall("p")[0]) == diagnosis
            assert [text_of(each) for each in shown[name][2].findall("details/p")] == others
            assert text_of(shown[name][4]).startswith(written)
            if weights is not None:
                assert f"{weights['pushed'] + weights['many']:,.0f} weigh less" in text_of(shown[name][5])
    assert {name for name in arena.annotators["clique"] if (queue[name]["evidence"]["weights"] or {}).get("pushed")}
