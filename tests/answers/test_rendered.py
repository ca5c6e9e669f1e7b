"""Texts become HTML once, in a child process with limits: no text of any model holds up those who vote."""

import html
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from httpx import Client
from sqlalchemy import text

from app.answers.rendered import RenderProcess
from app.answers.rendering import Rendered
from app.answers.schemas import MAX_TEXT_BYTES
from app.database.engine import Database
from app.settings import Settings
from app.worker import Worker
from tests.fixtures.waiting import wait_until

Ask = Callable[..., Any]
COSTLY = {
    "formulas": "$x$ " * (MAX_TEXT_BYTES // 4),
    "brackets": "[" * MAX_TEXT_BYTES,
    "images": "![" * (MAX_TEXT_BYTES // 2),
    "table": "|a|b|\n|-|-|\n" + "|x|y|\n" * (MAX_TEXT_BYTES // 6 - 2),
}
LONG = "$x$ " * 6_000
"""Its HTML is twenty times as long, and more than may be shown."""
STATED = text("SELECT count(*) FILTER (WHERE html IS NULL), count(*) FROM answers")


def source(of: str) -> str:
    return f'<pre tabindex="0"><code>{html.escape(of, quote=False)}</code></pre>\n'


@pytest.fixture
def process() -> Iterator[RenderProcess]:
    process = RenderProcess()
    yield process
    process.stop()


@pytest.fixture
def draw(client: Client, ask: Ask) -> Callable[[], Any]:
    """Draw a battle in a browser, by the link of someone new."""

    def send() -> Any:
        token = ask("POST", "/invitations", json={}).json()["link"].partition("#")[2]
        return client.post("/api/v1/battles", json={}, headers={"Authorization": f"Bearer {token}"})

    return send


@pytest.fixture
def record(ask: Ask) -> Callable[..., None]:
    def send(left: str, right: str, prompt: str = "**Why?**") -> None:
        given = [{"prompt": prompt, "model": model, "answer": said} for model, said in (("a", left), ("b", right))]
        assert ask("POST", "/answers", json={"answers": given}).json()["created"] == 2

    return send


def test_a_text_that_costs_too_much_is_shown_as_it_was_written(render_process: RenderProcess) -> None:
    quick, pids = RenderProcess(seconds=0.02), set()
    for costly in COSTLY.values():
        assert quick.render(costly) == (source(costly), "it takes more than 0.02 seconds")
        pids.add(render_process.child_pid)
    assert len(pids) == 1, "the child goes on"
    assert render_process.render("**a** $x < y$ <script>").html.startswith("<p><strong>a</strong> <span")
    shown, refusal = render_process.render(LONG)
    assert (shown, refusal is None) == (source(LONG), False)


@pytest.mark.own_child
def test_a_child_that_was_killed_is_replaced(process: RenderProcess) -> None:
    assert process.render("a") == ("<p>a</p>\n", None)
    first = process.child_pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert process.render("b") == ("<p>b</p>\n", None)
    assert process.child_pid not in (None, first)


@pytest.mark.own_child
def test_a_child_that_gives_no_answer_is_killed() -> None:
    process = RenderProcess(stuck_seconds=0.0)
    try:
        assert process.render("a & b").html == source("a & b")
        assert process.child_pid is None
    finally:
        process.stop()


def test_the_service_itself_renders_nothing_and_nothing_twice(
    record: Callable[..., None],
    draw: Callable[[], Any],
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def render_here(_: str) -> str:
        raise AssertionError("this process answers requests")

    monkeypatch.setattr("app.answers.rendering.render_markdown", render_here)  # the child has its own
    record(LONG, "_b_")
    battle = draw().json()
    assert battle["prompt"] == "<p><strong>Why?</strong></p>\n"
    assert {battle["left_answer"], battle["right_answer"]} == {source(LONG), "<p><em>b</em></p>\n"}
    with database.read() as conn:
        assert conn.execute(STATED).one() == (0, 2)
    monkeypatch.setattr(RenderProcess, "render", render_here)
    again = draw().json()
    assert {again["left_answer"], again["right_answer"]} == {source(LONG), "<p><em>b</em></p>\n"}


def test_the_worker_renders_what_was_recorded(
    record: Callable[..., None],
    draw: Callable[[], Any],
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Also what an earlier version has recorded, which knew no HTML."""
    record("*a*", "*b*")
    worker = Worker(database, Settings(data_dir=tmp_path))
    try:
        assert [worker.render_answers() for _ in range(2)] == [3, 0]
    finally:
        worker.stop()

    def render_again(_: RenderProcess, text: str) -> Rendered:
        raise AssertionError(text)

    monkeypatch.setattr(RenderProcess, "render", render_again)
    assert draw().json()["left_answer"] in ("<p><em>a</em></p>\n", "<p><em>b</em></p>\n")


def test_a_worker_that_runs_renders_at_once(record: Callable[..., None], database: Database, tmp_path: Path) -> None:
    worker = Worker(database, Settings(data_dir=tmp_path))  # its tick is half a minute: a notice wakes it
    worker.start()
    try:
        record("*a*", "*b*")

        def rendered() -> bool:
            with database.read() as conn:
                return conn.execute(STATED).one() == (0, 2)

        wait_until(rendered, 25)
    finally:
        worker.stop()


def test_no_voter_waits_for_a_text_that_is_not_rendered(
    record: Callable[..., None], draw: Callable[[], Any], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its source is shown, others vote on meanwhile, and the next voter gets it rendered."""
    record("*a*", "*b*")
    begun, go_on, really = Event(), Event(), RenderProcess.render

    def wait_first(process: RenderProcess, text: str) -> Rendered:
        begun.set()
        assert go_on.wait(60)
        return really(process, text)

    monkeypatch.setattr(RenderProcess, "render", wait_first)
    monkeypatch.setattr("app.answers.rendered.WAIT_SECONDS", 0.1)
    with ThreadPoolExecutor(50) as many:
        waiting = [many.submit(draw) for _ in range(50)]  # more than there are threads for requests
        try:
            assert begun.wait(60)
            assert client.get("/api/v1/leaderboard").status_code == 404
            shown = [one.result().json() for one in waiting]
            assert {one["left_answer"] for one in shown} == {source("*a*"), source("*b*")}
            cast = [client.post("/api/v1/votes", json={"token": one["token"], "winner": "tie"}) for one in shown[:2]]
            assert [one.status_code for one in cast] == [201, 201]
        finally:
            go_on.set()
    monkeypatch.setattr("app.answers.rendered.WAIT_SECONDS", 60.0)
    assert draw().json()["left_answer"] in ("<p><em>a</em></p>\n", "<p><em>b</em></p>\n")
