"""stable-arena-client against the service behind a real HTTP server."""

import asyncio
import inspect
import json
import runpy
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from httpx import Client

import app
from app.database.engine import Database
from app.imports.runner import ImportRunner
from stable_arena_client import (
    NO_RETRIES,
    ArenaUnreachableError,
    AsyncStableArena,
    Policy,
    ProblemError,
    Retries,
    StableArena,
    Vote,
)
from tests.fixtures.errors import having

Ask = Callable[..., Any]
ROOT = Path(__file__).parents[2]
VOTE = Vote(model_a="a", model_b="b", winner="model_a", annotator="k", battle_id="b1")
WITHOUT_BATTLE = Vote(model_a="a", model_b="b", winner="both_bad", annotator="k")


class Flaky(httpx.HTTPTransport):
    """Goes wrong for the first requests in turn, then not. `lost` sends the request and loses the answer."""

    def __init__(self, *faults: str | dict[str, Any]) -> None:
        super().__init__()
        self.faults = list(faults)
        self.sent: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request)
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, dict):
            return httpx.Response(**fault)
        if fault == "refused":
            raise httpx.ConnectError("refused", request=request)
        response = super().handle_request(request)
        if fault == "lost":
            response.read()
            raise httpx.ReadError("the connection broke", request=request)
        return response


@pytest.fixture
def connect(client: Client, keys: dict[str, str]) -> Iterator[Callable[..., StableArena]]:
    """A client with the key of a scope, which notes how long it would have waited."""
    opened: list[StableArena] = []

    def open_one(scope: str | None, *faults: Any, waits: list[float] | None = None, **options: Any) -> StableArena:
        arena = StableArena(
            str(client.base_url), keys.get(scope or "", scope),
            transport=options.pop("transport", None) or Flaky(*faults),
            sleep=(waits if waits is not None else []).append, **options,
        )  # fmt: skip
        opened.append(arena)
        return arena

    yield open_one
    for arena in opened:
        arena.close()


def total(ask: Ask) -> int:
    rows = ask("POST", "/retractions", json={"target": "annotator", "id": "k", "reason": "counting"})
    return int(rows.json()["votes"])


def test_a_vote_whose_answer_is_lost_counts_once(connect: Ask, ask: Ask) -> None:
    waits: list[float] = []
    transport = Flaky("lost", "refused", {"status_code": 503, "headers": {"Retry-After": "7"}})
    recorded = connect("ingest", transport=transport, waits=waits).vote(WITHOUT_BATTLE)
    assert recorded.status == "created"
    assert len(transport.sent) == 4
    assert len({request.headers["Idempotency-Key"] for request in transport.sent}) == 1
    assert waits[2] == 7
    assert 0.1 <= waits[0] <= 0.2 <= waits[1] <= 0.4
    assert total(ask) == 1


def test_what_is_final_is_not_sent_again(connect: Ask) -> None:
    transport = Flaky()
    arena = connect("ingest", transport=transport)
    assert arena.vote(VOTE).status == "created"
    assert arena.vote(VOTE).status == "duplicate"
    with pytest.raises(ProblemError) as caught:
        arena.vote(VOTE.model_copy(update={"winner": "tie"}))
    assert (caught.value.status, caught.value.code) == (409, "vote-conflict")
    assert caught.value.body["id"]
    assert caught.value.request_id
    assert len(transport.sent) == 3
    with pytest.raises(ProblemError, check=having(status=422, code="invalid")):
        arena.vote(VOTE.model_copy(update={"winner": "both_good"}))


def test_patience_has_an_end(connect: Ask) -> None:
    busy = {"status_code": 429, "headers": {"Retry-After": "61"}}
    with pytest.raises(ProblemError, check=having(code="http-429")):
        connect("ingest", busy).vote(VOTE)
    with pytest.raises(ProblemError, check=having(code="http-503")):
        connect("ingest", *[{"status_code": 503}] * 3, retries=Retries(attempts=3)).vote(VOTE)
    with pytest.raises(ArenaUnreachableError):
        connect("ingest", "refused", retries=NO_RETRIES).vote(VOTE)


def test_what_cannot_be_repeated_is_not(connect: Ask, ask: Ask) -> None:
    arena = connect("ingest", None, "refused", "lost")
    arena.vote(VOTE)
    with pytest.raises(ArenaUnreachableError):
        arena.appeal("k", "look again")
    assert [one["note"] for one in ask("GET", "/appeals").json()["items"]] == ["look again"]


def test_batches_have_one_result_for_each_vote(connect: Ask) -> None:
    transport = Flaky(None, "lost")
    votes = [VOTE.model_copy(update={"battle_id": f"b{i}"}) for i in range(7)]
    votes[5] = votes[5].model_copy(update={"winner": "nonsense"})
    results = list(connect("ingest", transport=transport).vote_many(iter(votes), batch=3))
    assert [one.index for one in results] == list(range(7))
    assert [one.status for one in results] == ["created"] * 5 + ["invalid", "created"]
    assert len(transport.sent) == 4
    with pytest.raises(ValueError, match="1 to 10,000"):
        list(connect("ingest").vote_many(votes, batch=0))


def test_a_sealed_battle(connect: Ask, ask: Ask) -> None:
    for name in ("x", "y"):
        ask("POST", "/models", json={"name": name})
    arena = connect("ingest", "lost")
    battle = arena.battle("k", tags=["english"])
    assert {battle.left, battle.right} == {"x", "y"}
    revealed = connect(None).cast(battle.token, "left")
    assert (revealed.left, revealed.right) == (battle.left, battle.right)
    skipped = arena.battle("k", candidates=["x", "y"])
    assert arena.skip(skipped.battle_id, "failed").battle_id == skipped.battle_id
    assert [model.name for model in connect("read").list_models()] == ["x", "y"]


@pytest.mark.arena
def test_what_readers_read(connect: Ask) -> None:
    arena = connect("a stale key")
    board = arena.leaderboard()
    assert board.models[0].rank == 1
    assert board.diagnostics
    short = arena.leaderboard(limit=2, fields=["score", "rank"])
    assert [row.model for row in short.models] == [row.model for row in board.models[:2]]
    assert (short.models[0].score, short.models[0].votes) == (board.models[0].score, None)
    snapshots = list(arena.list_snapshots())
    assert arena.leaderboard(as_of=snapshots[-1].published_at).snapshot.id == snapshots[-1].id
    assert arena.confidence(2).k == 2
    pairs = list(arena.list_matchups())
    assert len(pairs) > 100, "more than a page"
    news = arena.follow(after=snapshots[1].number)
    assert next(news) == snapshots[0].number
    news.close()
    assert connect("read").policy().settings.min_votes == 50


@pytest.mark.arena
def test_a_preview_of_a_policy(connect: Ask) -> None:
    arena = connect("admin")
    settings: Policy = arena.policy().settings
    preview = arena.preview(settings.model_copy(update={"min_votes": 100}))
    assert preview.counts


def test_a_file(connect: Ask, database: Database, tmp_path: Path) -> None:
    runner = ImportRunner(database, lease_seconds=30)
    file = tmp_path / "votes.csv"
    file.write_text("annotator,model_a,model_b,winner\nk,a,b,model_a\nk,b,c,tie\n")
    arena = connect("ingest", "lost")
    sent = arena.import_file(file)
    assert sent.state == "queued"
    with pytest.raises(TimeoutError):
        arena.wait_for_import(sent.id, seconds=-1)
    assert runner.run_next() == sent.id
    done = arena.wait_for_import(sent.id)
    assert (done.state, done.rows_done) == ("done", 2)


def test_an_annotator_s_own_page(connect: Ask) -> None:
    arena = connect("ingest")
    arena.vote(VOTE)
    page = connect(arena.token(annotator="k").token)
    assert page.me("k").votes_summary.votes == 1
    assert [vote.battle_id for vote in page.my_votes("k")] == ["b1"]


def test_asyncio(client: Client, keys: dict[str, str], ask: Ask) -> None:
    async def numbered() -> list[Any]:
        async with AsyncStableArena(str(client.base_url), keys["ingest"]) as arena:
            await asyncio.gather(*(arena.vote(VOTE.model_copy(update={"battle_id": f"s{i}"})) for i in range(5)))
            results = [one async for one in arena.vote_many([VOTE, VOTE], batch=1)]
            token = await arena.token(annotator="k")
        async with AsyncStableArena(str(client.base_url), token.token) as page:
            own: AsyncIterator[Any] = page.my_votes("k")
            return [results[0].status, results[1].status, results[1].index, len([vote async for vote in own])]

    assert asyncio.run(numbered()) == ["created", "duplicate", 1, 6]


def test_both_clients_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        named = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(one).parameters) for name, one in named if not name.startswith("_")}

    assert methods(StableArena) == methods(AsyncStableArena)


def test_its_version_is_that_of_the_service() -> None:
    for folder in (ROOT, ROOT / "clients" / "python"):
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert project["version"] == app.__version__
    component = json.loads((ROOT / "clients" / "battle" / "package.json").read_text(encoding="utf-8"))
    assert component["version"] == app.__version__


def test_the_models_are_those_of_the_description(usual_app: FastAPI) -> None:
    generate = runpy.run_path(str(ROOT / "clients" / "python" / "generate.py"))
    first = generate["MODELS"].read_text(encoding="utf-8").partition("\n")[0]
    assert first == generate["header"](generate["describe"](usual_app.openapi())), "run make docs"


@pytest.mark.campaign
def test_the_models_are_what_the_generator_writes(usual_app: FastAPI) -> None:
    generate = runpy.run_path(str(ROOT / "clients" / "python" / "generate.py"))
    assert generate["generate"](generate["describe"](usual_app.openapi())) == generate["MODELS"].read_text(
        encoding="utf-8"
    )


@pytest.mark.campaign
def test_the_wheel_has_the_client_alone(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT / "clients" / "python", check=True, capture_output=True)
    (wheel,) = tmp_path.glob("stable_arena_client-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
        files = {name.partition("/")[2] for name in archive.namelist() if name.startswith("stable_arena_client/")}
    assert {"__init__.py", "models.py", "py.typed"} <= files
    alone = "import sys, stable_arena_client as c; assert 'app' not in sys.modules; print(c.__file__, c.StableArena)"
    said = subprocess.run(
        [sys.executable, "-c", alone], env={"PYTHONPATH": str(tmp_path / "installed")}, cwd=tmp_path, check=True,
        capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert str(tmp_path / "installed") in said
