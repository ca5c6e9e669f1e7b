"""The page on the method: this arena's own numbers, and nothing of any annotator."""

from collections.abc import Callable
from typing import Any

import pytest
from httpx import Client
from sqlalchemy import insert, text

from app.database.engine import Database
from app.database.tables import snapshot_annotators
from app.leaderboard.charts import draw_newest
from tests.fixtures.pages import Page, text_of

DIAGNOSTICS = {
    "votes": {"read": 300, "used": 200, "pending": 40, "excluded": 60, "retracted": 0, "over_quota": 0},
    "rules": {"ability": {"annotators": 1, "votes": 64}, "coin": {"annotators": 2, "votes": 128}},
    "interval": "clustered",
    "ability_spread": 0.31,
}
CROWD = {"active": 5, "trusted": 1, "flagged": 3, "pending": 4, "excluded": 2}


@pytest.fixture
def crowd_of_a_snapshot(database: Database, publish: Callable[..., int]) -> None:
    number = publish({("am-elo", ""): {"ant": {}, "bee": {}}}, diagnostics=DIAGNOSTICS)
    standings = [standing for standing, many in CROWD.items() for _ in range(many)]
    with database.begin() as conn:
        found = conn.execute(text("SELECT id FROM snapshots WHERE number = :number"), {"number": number}).scalar()
        rows = [
            {"snapshot_id": found, "annotator_id": i, "votes": 10, "rule_standing": "active", "standing": standing}
            for i, standing in enumerate(standings, 1)
        ]
        conn.execute(insert(snapshot_annotators), rows)


def visit(client: Client) -> Page:
    response = client.get("/method")
    assert response.status_code == 200, response.text
    return Page(response)


@pytest.mark.usefixtures("crowd_of_a_snapshot")
def test_this_arenas_numbers(client: Client) -> None:
    page = visit(client)
    figures = dict(zip(page.texts(".//dl/div/dt"), page.texts(".//dl/div/dd"), strict=True))
    assert figures == {
        "votes count, of 300": "200",
        "annotators count, of 15": "9",
        "flagged": "3",
        "excluded": "2",
        "δ, votes that are too few": "50",
        "ε, ability that is too low": "0.2",
    }
    rows = [[text_of(cell) for cell in row][:3] for row in page.all(".//table")[1].findall("tbody/tr")]
    assert rows == [[name, str(many), str(10 * many)] for name, many in CROWD.items()]
    assert page.texts(".//main//section/ul/li")[:3] == [
        "200 count",
        "40 do not count: of annotators with too few votes so far",
        "60 do not count: of excluded annotators",
    ]
    said = page.text(".//main")
    assert "6 tests" in said
    assert "2 were found by the tests, and 1 by the ability alone." in said
    assert "It takes an annotator's votes as belonging together" in said
    assert "about 0.31 (a standard deviation)" in said


def test_votes_that_are_left_out_add_up(client: Client, publish: Callable[..., int]) -> None:
    left_out = {"pending": 1, "excluded": 2, "of_others": 3, "retracted": 4, "unsealed": 5, "over_quota": 6}
    votes = {"read": 300, "used": 272, **left_out, "same_model": 7}
    publish({("am-elo", ""): {"ant": {}, "bee": {}}}, diagnostics={"votes": votes})
    account = visit(client).texts(".//main//section/ul/li")[:8]
    numbers = [int(line.split(" ")[0]) for line in account]
    assert (numbers, sum(numbers)) == ([272, 1, 2, 3, 4, 5, 6, 7], 300)


@pytest.mark.usefixtures("crowd_of_a_snapshot")
def test_the_charts_come_with_the_worker(client: Client, database: Database) -> None:
    assert not visit(client).all(".//figure")
    draw_newest(database)
    labels = [one.get("aria-label", "") for one in visit(client).all(".//figure/div")]
    assert [label.split(" ")[0] for label in labels] == ["Abilities", "Votes", "No"]


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"flag_rule": "threshold", "on_low_ability": "exclude"}, ["A rule finds", "are excluded from the scores"]),
        ({"flag_rule": "threshold"}, ["A rule finds", "flagged, and an admin decides"]),
        ({"min_probability": 0.8}, ["with a probability of 80 % or more"]),
    ],
)
def test_by_the_policy_of_the_snapshot(
    client: Client, publish: Callable[..., int], database: Database, store_policy: Any, policy: Any, words: list[str]
) -> None:
    store_policy(**policy)
    number = publish({("am-elo", ""): {"ant": {}}})
    with database.begin() as conn:
        conn.execute(text("UPDATE snapshots SET policy_version = 2 WHERE number = :number"), {"number": number})
    said = visit(client).text(".//main")
    assert all(part in said for part in words)


def test_before_the_first_snapshot(client: Client) -> None:
    assert "No leaderboard has been published yet" in visit(client).text(".//main")
