"""What everyone may know of how an arena is run, over HTTP and on its page."""

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import pytest
from httpx import Client
from sqlalchemy import text

from app.database.engine import Database
from tests.fixtures.pages import Page

Ask = Callable[..., Any]


@pytest.fixture
def governance(ask: Ask) -> Callable[[], Any]:
    return lambda: ask("GET", "/governance", scope=None).json()


def draw_battles(database: Database, pair: tuple[int, int], count: int, *, age: str = "1 hour") -> None:
    """Add battles of two models, drawn uniformly from models 1 to 6 so long before the newest snapshot."""
    with database.begin() as conn:
        conn.execute(
            text("""
            INSERT INTO candidate_sets (digest, model_ids) VALUES ('x', '{1,2,3,4,5,6}') ON CONFLICT DO NOTHING
        """)
        )
        conn.execute(
            text("""
            INSERT INTO battles (id, annotator_id, left_id, right_id, candidate_set_id, drawn_by, propensity,
                policy_version, created_at, expires_at)
            SELECT gen_random_uuid(), 1, :left, :right, (SELECT max(id) FROM candidate_sets), 'uniform', 0.1, 1,
                published_at - CAST(:age AS interval), published_at
            FROM generate_series(1, :count), (SELECT max(published_at) AS published_at FROM snapshots) AS newest
        """),
            {"left": pair[0], "right": pair[1], "count": count, "age": age},
        )


def test_an_arena_that_has_just_begun(governance: Callable[[], Any], client: Client) -> None:
    found = governance()
    assert (found["snapshot"], found["battles"], found["models"]) == (None, 0, [])
    assert [one["role"] for one in found["roles"]] == ["rule", "review", "admin"]
    assert "Nothing was removed." in Page(client.get("/governance")).texts(".//p")


def test_how_often_models_were_shown(
    ask: Ask, crowd: list[str], refit: Ask, database: Database, governance: Callable[[], Any], client: Client
) -> None:
    with database.begin() as conn:
        conn.execute(text("UPDATE models SET organization = 'Acme' WHERE id <= 2"))
        conn.execute(text("UPDATE models SET organization = 'Acme', unreleased = TRUE WHERE id = 3"))
    refit()
    draw_battles(database, (1, 2), 3)
    draw_battles(database, (1, 3), 2)
    draw_battles(database, (1, 2), 7, age="31 days")
    refit()
    found = governance()
    newest = ask("GET", "/snapshots/2").json()
    assert found["snapshot"]["votes_hash"] == newest["votes_hash"]
    assert found["audit"] == newest["diagnostics"]["audit"]
    assert found["battles"] == 5, "those of 30 days"
    shown = {one["model"]: one for one in found["models"]}
    assert "model 2" not in shown
    assert (shown["model 0"]["battles"], shown["model 0"]["share"]) == (5, 1.0)
    assert (shown["model 0"]["compared"], shown["model 0"]["intended"]) == (5, pytest.approx(5 / 3))
    assert found["battles_of_unreleased"] == 2
    acme, rest = found["organizations"]
    assert (acme["organization"], acme["variants"], acme["unreleased"]) == ("Acme", 2, 1)
    assert (rest["organization"], rest["variants"], rest["best"]) == (None, 3, None)
    exposed = ask("GET", "/exposure", scope="review").json()["organizations"]
    assert acme["best"] == next(one["best"] for one in exposed if one["organization"] == "Acme")
    assert acme["best"]["adjusted_score"] < acme["best"]["score"]
    page = Page(client.get("/governance"))
    assert "model 0Acme5100.0%5 of 2" in ["".join(row.itertext()).strip() for row in page.all(".//tbody/tr")]
    assert newest["votes_hash"] in page.texts(".//code")
    assert ("/governance", "Governance") in [(one.get("href"), one.text) for one in page.all(".//header//a")]


def test_unreleased_variants_count_in_what_the_choice_is_worth(
    ask: Ask, crowd: list[str], refit: Ask, database: Database, governance: Callable[[], Any]
) -> None:
    refit()
    best, *_, low, lowest = [row["model"] for row in ask("GET", "/leaderboard").json()["models"]]

    with database.begin() as conn:
        conn.execute(text("UPDATE models SET unreleased = TRUE WHERE name IN (:a, :b)"), {"a": low, "b": lowest})
    refit()

    def width_of_the_best_of(*theirs: str) -> float:
        with database.begin() as conn:
            conn.execute(text("UPDATE models SET organization = name || ' Inc.'"))
            conn.execute(text("UPDATE models SET organization = 'Acme' WHERE name = ANY(:names)"), {"names": [*theirs]})
        (acme,) = [one for one in governance()["organizations"] if one["organization"] == "Acme"]
        assert (acme["best"]["model"], acme["variants"], acme["unreleased"]) == (best, 1, len(theirs) - 1)
        return float(acme["best"]["score"] - acme["best"]["adjusted_lower"])

    two, three = (NormalDist().inv_cdf(1 - 0.025 / n) for n in (2, 3))
    assert width_of_the_best_of(best, low, lowest) == pytest.approx(width_of_the_best_of(best, low) * three / two)


def test_what_was_removed_and_why(
    ask: Ask, crowd: list[str], refit: Ask, governance: Callable[[], Any], client: Client
) -> None:
    refit()
    assert ask("PATCH", "/models/model 5", json={"archived": True}).status_code == 200
    assert ask("PATCH", "/models/model 4", json={"archived": True, "reason": "withdrawn by <Acme>"}).status_code == 200
    assert ask("POST", "/models/model 3/merge", json={"into": "model 0", "reason": "spelling"}).status_code == 200
    body = {"target": "annotator", "id": "flip 12", "reason": "Ada Lovelace is a bot"}
    assert ask("POST", "/retractions", json=body).status_code == 201
    vote = ask("POST", "/votes", json={"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "x"}).json()["id"]
    for _ in range(2):
        again = {"target": "vote", "id": vote, "reason": "sent twice"}
        assert ask("POST", "/retractions", json=again).status_code == 201
    withdrawn = ask("POST", "/retractions", json={"target": "model", "id": "model 1", "reason": "a slip"}).json()["id"]
    assert ask("POST", f"/retractions/{withdrawn}/withdraw", json={"reason": "back"}).status_code == 200
    found = governance()
    assert [(one["model"], one["reason"]) for one in found["archived"]] == [
        ("model 4", "withdrawn by <Acme>"),
        ("model 5", None),
    ]
    assert [(one["model"], one["into"], one["reason"]) for one in found["merged"]] == [
        ("model 3", "model 0", "spelling")
    ]
    retracted = [(one["target"], one["reason"], one["retractions"], one["votes"]) for one in found["retracted"]]
    assert retracted == [("vote", "sent twice", 2, 1), ("annotator", None, 1, 120)]
    text_of_page = client.get("/governance").text
    assert "Ada" not in text_of_page
    assert "flip 12" not in text_of_page
    assert "no reason given" in text_of_page
    assert "withdrawn by &lt;Acme&gt;" in text_of_page
    assert ask("PATCH", "/models/model 4", json={"archived": False}).json()["archive_reason"] is None
    assert [one["model"] for one in governance()["archived"]] == ["model 5"], "kept answers know of the change"


def test_a_reason_from_before_its_writer_knew_that_it_is_public_stays_unsaid(
    ask: Ask, crowd: list[str], governance: Callable[[], Any], database: Database
) -> None:
    body = {"target": "model", "id": "model 1", "reason": "Ada asked for it"}
    assert ask("POST", "/retractions", json=body).status_code == 201
    with database.begin() as conn:
        conn.execute(text("UPDATE retractions SET reason_public = false"))  # as the release before records it
    assert [one["reason"] for one in governance()["retracted"]] == [None]


def test_a_reason_is_for_archiving(ask: Ask, crowd: list[str], assert_problem: Ask) -> None:
    assert_problem(ask("PATCH", "/models/model 1", json={"reason": "x"}), 422, "invalid")
    assert_problem(ask("PATCH", "/models/model 1", json={"archived": False, "reason": "x"}), 422, "invalid")
    archive = {"archived": True, "reason": "first"}
    assert ask("PATCH", "/models/model 1", json=archive).json()["archive_reason"] == "first"
    assert ask("PATCH", "/models/model 1", json={"archived": True}).json()["archive_reason"] == "first"


def test_no_reason_names_an_unreleased_model_by_an_earlier_codename(ask: Ask, governance: Callable[[], Any]) -> None:
    assert ask("POST", "/models", json={"name": "owl", "unreleased": True}).status_code == 201
    body = {"target": "model", "id": "owl", "reason": "owl served wrong weights"}
    assert ask("POST", "/retractions", json=body).status_code == 201
    assert ask("PATCH", "/models/owl", json={"name": "lark"}).status_code == 200
    assert [one["reason"] for one in governance()["retracted"]] == [None]
