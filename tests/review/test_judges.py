"""Judges beside people by the votes on record: over HTTP and on the console's page."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page as BrowserPage
from playwright.sync_api import expect

from app.database.engine import Database
from app.database.tables import annotators
from app.refits.fit.process import FitProcess
from app.refits.fragility import measure_newest
from tests.fixtures.browser import NewPage, assert_accessible
from tests.fixtures.console import SignIn
from tests.fixtures.crowds import RANK_EVERYTHING
from tests.fixtures.geometry import assert_laid_out

Ask = Callable[..., Any]


@pytest.fixture
def measured(
    database: Database, ask: Ask, stored_crowd: None, store_policy: Ask, run_refit: Ask, fit_process: FitProcess
) -> None:
    """12 people; two judges who vote against them; and one who says the left, and saw 20 battles both ways."""
    store_policy(**RANK_EVERYTHING, style_features=["length"])
    with database.begin() as conn:
        conn.execute(annotators.update().where(annotators.c.key.startswith("flip")).values(kind="judge"))
    votes = [
        {
            "annotator": "lefty",
            "annotator_kind": "judge",
            "winner": "model_a",
            "battle_id": f"q{number}/{a}/{b}" if number % 2 else f"{number} of {a} and {b}",
            "metadata": {} if number % 2 else {"question": number},
            "model_a": f"model {a}",
            "model_b": f"model {b}",
            "tags": [("code", "prose")[number % 2]],
            "features": {"length": [100 + number, 140]},
        }
        for number in range(80)
        for a, b in [(number % 6, (number + 1 + number % 5) % 6)]
        for a, b in ((a, b), (b, a))[: 2 if number < 20 else 1]
        if a != b
    ]
    sent = ask("POST", "/votes/batch", json={"votes": votes}).json()
    assert sent["counts"]["created"] == len(votes)
    run_refit()
    assert measure_newest(database, fit_process, lease_seconds=30)


def test_only_reviewers_read_it_and_before_the_first_leaderboard_it_is_empty(ask: Ask, assert_problem: Ask) -> None:
    assert_problem(ask("GET", "/judges", scope=None), 401, "not-authenticated")
    assert_problem(ask("GET", "/judges", scope="read"), 403, "scope-missing")
    assert ask("GET", "/judges", scope="review:read").json() == {
        "snapshot": None,
        "computed": False,
        "people": None,
        "judges": [],
        "panel": None,
        "sharpened": None,
    }


def test_people_alone_have_nothing_to_compare(ask: Ask, crowd: list[str], refit: Ask, sign_in: SignIn) -> None:
    refit()
    found = ask("GET", "/judges").json()
    assert (found["computed"], found["judges"], found["people"]) == (True, [], None)
    assert "nothing to compare" in sign_in("review").page("/console/judges").text(".//div[@class='empty']")


@pytest.mark.usefixtures("measured")
def test_each_judge_is_beside_the_people(ask: Ask, sign_in: SignIn) -> None:
    found = ask("GET", "/judges", scope="review:read").json()
    assert (found["snapshot"], found["computed"]) == (1, True)
    judges = {one["annotator"]: one for one in found["judges"]}
    assert judges.keys() == {"flip 12", "flip 13", "lefty"}
    assert (found["people"]["annotators"], found["people"]["votes"]) == (12, 12 * 120)
    assert all(judges[name]["ability_upper"] < 0.0 for name in ("flip 12", "flip 13")), "they vote against the people"
    assert judges["flip 12"]["agreement"] < found["people"]["agreement"]
    lefty = judges["lefty"]
    assert lefty["ability_lower"] < 0.5
    assert lefty["side_lean_lower"] > 100.0
    assert (lefty["swapped_battles"], lefty["swap_consistency"]) == (20, 0.0)
    (liked,) = lefty["style"]
    assert liked["feature"] == "length"
    assert liked["points_lower"] < liked["points"] < liked["points_upper"]
    assert judges["flip 12"]["style"] == [], "without measures"
    assert judges["flip 12"]["swap_consistency"] is None
    assert [band["low"] for band in lefty["by_gap"]] == [0, 50, 100, 200]
    assert set(found["panel"]["judges"]) <= judges.keys()
    page = sign_in("review").page("/console/judges")
    assert [one.split()[0] for one in page.texts(".//tbody/tr/th")] == [
        *(one["annotator"].split()[0] for one in found["judges"]),
        "People,",
    ]
    assert f"/console/annotators/{lefty['id']}" in page.links
    assert "/console/judges" in sign_in("review").page("/console/annotators").links


@pytest.mark.browser
@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_a_phone_and_a_desk(
    new_page: NewPage, console: Callable[[BrowserPage], None], width: int
) -> None:
    page = new_page(viewport={"width": width, "height": 844})
    console(page)
    page.goto("/console/judges")
    page.get_by_role("heading", name="Which judges are enough").wait_for()
    expect(page.get_by_role("img", name="Slopes of judges, with their intervals")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert_laid_out(page, (width,))
    assert_accessible(page)
