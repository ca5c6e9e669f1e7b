"""The example of an arena: its backend, its page in a real browser, and the command that starts it."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from httpx import Client
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import text

from app.database.engine import Database
from examples.arena.backend import COOKIE, Prompt, create_app, read_prompts
from tests.fixtures.application import Serving
from tests.fixtures.browser import PageProblems, assert_accessible, assert_fits_phone

MODELS = ["maple", "otter", "pixel", "quartz"]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def arena_url(client: Client, keys: dict[str, str], database: Database, serving: Serving) -> Iterator[str]:
    with database.begin() as conn:
        conn.execute(text("INSERT INTO models (name) VALUES (:name)"), [{"name": name} for name in [*MODELS, "other"]])
    with serving(create_app(f"{client.base_url}/api/v1", keys["ingest"], read_prompts())) as url:
        yield url


@pytest.fixture
def visitor(arena_url: str) -> Iterator[Client]:
    with Client(base_url=arena_url, timeout=60) as visitor:
        yield visitor


def votes(database: Database) -> list[Any]:
    statement = "SELECT outcome, sealed_battle_id IS NOT NULL FROM votes ORDER BY id"
    with database.read() as conn:
        return [tuple(row) for row in conn.execute(text(statement))]


def test_the_browser_gets_answers_and_a_token_until_it_has_voted(visitor: Client, database: Database) -> None:
    answers = {one.prompt: one.answers for one in read_prompts()}
    drawn = visitor.post("/battle")
    battle = drawn.json()
    assert battle.keys() == {"prompt", "left", "right", "token"}
    assert not any(model in drawn.text for model in MODELS)
    assert "HttpOnly" in drawn.headers["set-cookie"]
    revealed = visitor.post("/vote", json={"token": battle["token"], "winner": "left"}).json()
    assert answers[battle["prompt"]][revealed["left"]] == battle["left"]
    assert answers[battle["prompt"]][revealed["right"]] == battle["right"]
    again = visitor.post("/vote", json={"token": battle["token"], "winner": "right"})
    assert again.status_code == 409
    assert "already" in again.json()["detail"]
    assert votes(database) == [(0, True)]


def test_a_visitor_is_one_annotator(visitor: Client, database: Database) -> None:
    kept = set()
    for _ in range(3):
        visitor.post("/battle")
        kept.add(visitor.cookies[COOKIE])
    visitor.cookies.clear()
    visitor.post("/battle")
    with database.read() as conn:
        annotators = set(conn.execute(text("SELECT key FROM annotators")).scalars())
    assert annotators == {f"visitor-{key}" for key in (*kept, visitor.cookies[COOKIE])}
    assert len(annotators) == 2


def test_a_battle_can_be_skipped(visitor: Client, database: Database) -> None:
    token = visitor.post("/battle").json()["token"]
    assert [visitor.post("/skip", json={"token": one}).status_code for one in (token, token, "unknown")] == [204] * 3
    refused = visitor.post("/vote", json={"token": token, "winner": "tie"})
    assert refused.status_code == 409
    with database.read() as conn:
        assert conn.execute(text("SELECT skip_reason FROM battles")).scalars().all() == ["skip"]


def test_what_the_service_refuses_is_passed_on(visitor: Client, serving: Serving) -> None:
    assert visitor.post("/vote", json={"token": "forged", "winner": "left"}).status_code == 422
    assert visitor.post("/vote", json={"token": "forged", "winner": "both"}).status_code == 422
    with serving(create_app("http://127.0.0.1:1/api/v1", "none", read_prompts())) as url:
        alone = httpx.post(f"{url}/battle")
    assert alone.status_code == 502
    assert "does not answer" in alone.json()["detail"]


def test_every_prompt_needs_every_model(tmp_path: Path) -> None:
    prompts = read_prompts()
    assert all(isinstance(one, Prompt) and sorted(one.answers) == MODELS for one in prompts)
    assert len({one.prompt for one in prompts}) == len(prompts) >= 5
    lacking = [{"prompt": "a", "answers": {"x": "1", "y": "2"}}, {"prompt": "b", "answers": {"x": "1"}}]
    (tmp_path / "answers.json").write_text(json.dumps(lacking))
    with pytest.raises(ValueError, match="every prompt needs an answer of each of x, y"):
        read_prompts(tmp_path / "answers.json")


@pytest.fixture
def arena_problems(arena_url: str) -> Iterator[PageProblems]:
    """What goes wrong in the arena's pages; the test fails at its end for what it did not expect."""
    problems = PageProblems(urlsplit(arena_url).netloc)
    yield problems
    assert not problems.unexpected(), problems.unexpected()


@pytest.fixture
def arena_page(browser: Browser, arena_url: str, arena_problems: PageProblems) -> Iterator[Page]:
    """An empty page of a browser on the arena."""
    context = browser.new_context(base_url=arena_url)
    arena_problems.watch(context)
    yield context.new_page()
    context.close()


@pytest.mark.browser
def test_a_vote_in_the_browser(arena_page: Page, database: Database) -> None:
    arena_page.goto("/")
    left = arena_page.get_by_role("button", name="Left is better")
    expect(left).to_be_enabled()
    sealed = arena_page.content()
    assert not any(model in sealed for model in MODELS)
    assert_accessible(arena_page)
    assert_fits_phone(arena_page)
    left.focus()
    arena_page.keyboard.press("Enter")
    message = arena_page.get_by_role("status")
    expect(message).to_contain_text("You compared")
    expect(left).to_be_disabled()
    told = re.fullmatch(r"Thank you. You compared (\w+) with (\w+).", message.inner_text())
    assert told is not None
    expect(arena_page.get_by_role("heading", name=f"Left: {told[1]}")).to_be_visible()
    expect(arena_page.get_by_role("heading", name=f"Right: {told[2]}")).to_be_visible()
    arena_page.get_by_role("button", name="Next battle").click()
    expect(left).to_be_enabled()
    expect(message).to_be_empty()
    arena_page.get_by_role("button", name="Skip").click()
    expect(left).to_be_enabled()
    arena_page.get_by_role("button", name="Both are bad").click()
    expect(message).to_contain_text("You compared")
    assert votes(database) == [(0, True), (3, True)]
    with database.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM battles WHERE skip_reason = 'skip'")).scalar_one() == 1


@pytest.mark.browser
def test_the_page_says_what_went_wrong(arena_page: Page, arena_problems: PageProblems, database: Database) -> None:
    arena_problems.expect("status of 422")
    arena_page.goto("/")
    expect(arena_page.get_by_role("button", name="Both are good")).to_be_enabled()
    arena_page.route("**/vote", lambda route: route.continue_(post_data='{"token": "forged", "winner": "left"}'))
    arena_page.get_by_role("button", name="Both are good").click()
    expect(arena_page.get_by_role("status")).to_contain_text("The vote was not counted")
    assert votes(database) == []


@pytest.mark.campaign
def test_the_command_starts_both_and_ends_at_ctrl_c() -> None:
    command = [sys.executable, "-m", "examples.arena", "--port", "0"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=dict(os.environ), stdin=subprocess.DEVNULL
    ) as example:
        assert example.stdout is not None
        line = example.stdout.readline()
        assert line.startswith("The arena:"), line
        arena, board = line.split()[-1], example.stdout.readline().split()[2]
        token = httpx.post(f"{arena}battle", timeout=60).json()["token"]
        cast = httpx.post(f"{arena}vote", json={"token": token, "winner": "tie"}, timeout=60)
        assert cast.status_code == 200
        assert httpx.get(board, timeout=60).status_code == 200
        example.send_signal(signal.SIGINT)
        rest = example.stdout.read()
    assert example.returncode == 0
    assert rest.endswith("The arena was stopped.\n")
    with pytest.raises(httpx.TransportError):
        httpx.get(board, timeout=5)
