"""Where things are on every page, at four widths: no text on another, nothing wider than its container."""

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

import pytest
from httpx import Client
from playwright.sync_api import Page, expect

from app.database.engine import Database
from app.leaderboard.charts import draw_newest
from tests.fixtures.arena import Arena
from tests.fixtures.browser import PageProblems
from tests.fixtures.geometry import assert_laid_out
from tests.pages.screenshots import addresses

pytestmark = pytest.mark.browser

Publish = Callable[..., int]

TAGS = {
    "category": ("coding", "creative_writing", "hard_prompts", "instruction_following", "longer_query", "math"),
    "language": ("en", "de", "fr", "pt-BR", "zh"),
    "occupation": tuple(f"a_rather_long_occupation_{letter}" for letter in "abcdefghijkl"),
}
LONG = "an-organization/a-rather-long-name-of-a-model-70b-instruct-preview-2026-11"
NAMES = [LONG, *(f"model {number:03d}" for number in range(1, 120))]
MAKERS = ("Northwind", "Aster Labs", "Fernhill")


def look_at(page: Page, pages: Iterable[str]) -> None:
    for address in pages:
        page.goto(address)
        expect(page.locator("[hx-trigger^=load]")).to_have_count(0)  # what loads by itself is there
        assert_laid_out(page)


@pytest.mark.arena
def test_an_arena_of_some_weeks(
    arena: Arena,
    client: Client,
    keys: dict[str, str],
    database: Database,
    page: Page,
    console: Callable[[Page], None],
    page_problems: PageProblems,
) -> None:
    page_problems.expect("status of 404")
    draw_newest(database)
    found = addresses(arena, client, keys)
    look_at(page, (address for name, address in found.items() if not name.startswith("console-")))
    console(page)
    look_at(page, (address for name, address in found.items() if name.startswith("console-")))


def board_of(order: Iterable[str], apart: Callable[[int], float] = lambda _place: 0.0) -> dict[str, dict[str, Any]]:
    """Return a leaderboard of these models, the best first, each so far from its usual score."""
    board = {}
    for place, name in enumerate(order, 1):
        score = 1500.0 - 4 * place + apart(place)
        row = {"score": score, "lower": score - 20, "upper": score + 20, "rank": place, "class_rank": 1 + place // 10}
        board[name] = row
    return board


@pytest.fixture
def many_categories(publish: Publish, client: Client, keys: dict[str, str]) -> None:
    """120 models in 23 categories of three dimensions, in some of which they stand out, over six snapshots."""
    boards = {(method, ""): board_of(NAMES) for method in ("am-elo", "m-elo")}
    found: dict[str, dict[str, Any]] = {}
    for dimension, values in TAGS.items():
        tags = [f"{dimension}={value}" for value in values]
        outliers = []
        for at, tag in enumerate(tags):

            def apart(place: int, at: int = at) -> float:
                return {0: 90.0, 3: -70.0}.get((place + at) % 7, 4.0 * (at - 2))

            boards["am-elo", tag] = board_of(NAMES, apart)
            outliers += [{"model": name, "tag": tag} for i, name in enumerate(NAMES, 1) if (i + at) % 7 in (0, 3)]
        votes = {tag: 900 - 50 * at for at, tag in enumerate(tags)}
        found[dimension] = {"votes": {**votes, "": 12}, "spread": 31.0, "outliers": outliers}
    for number in range(1, 6):
        publish({("am-elo", ""): board_of(NAMES if number % 3 else NAMES[3::-1] + NAMES[4:])})
    pairs = [(a, b, 10, 4, 6, 0.6, 0.5, 0.7) for at, a in enumerate(NAMES[:22]) for b in NAMES[at + 1 : 22]]
    publish(boards, matchups=pairs, diagnostics={"categories": found})
    admin = {"Authorization": f"Bearer {keys['admin']}"}
    for at, name in enumerate(NAMES[:30]):
        facts = {"organization": MAKERS[at % 3], "released": f"2026-{11 - at // 3:02d}-{1 + at * 7 % 28:02d}"}
        assert client.patch(f"/api/v1/models/{name}", json=facts, headers=admin).status_code == 200


@pytest.mark.usefixtures("many_categories")
def test_many_models_in_many_categories(page: Page) -> None:
    look_at(
        page,
        (
            "/",
            "/?tag=category%3Dcreative_writing",
            "/?q=model+0",
            "/categories",
            "/categories?by=occupation",
            "/embed?limit=5",
            "/history",
            f"/models/{quote(LONG)}",
            "/matchups",
            f"/compare?a={quote(LONG)}&b=model+003",
            "/history/difference?before=1&after=2",
        ),
    )
