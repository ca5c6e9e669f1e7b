"""Answers to public reads are made once for what is published, compressed once, and few at a time."""

import asyncio
import gzip
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import pytest
from fastapi import Request, Response
from httpx import Client
from sqlalchemy import Engine, event

from app.api.fragments import Fragment, FragmentedResponse
from app.api.kept_answers import KeptAnswers
from app.guard import lanes
from app.guard.lanes import TooManyReadersError

Ask = Callable[..., Any]

PUBLIC = (
    "/",
    "/?q=ant&sort=score",
    "/?snapshot=1",
    "/embed",
    "/models/ant",
    "/compare",
    "/matchups",
    "/history",
    "/method",
    "/governance",
    "/api/v1/leaderboard",
    "/api/v1/leaderboard?snapshot=1",
    "/api/v1/leaderboard?format=csv",
    "/api/v1/leaderboard?format=parquet",
    "/api/v1/leaderboard/arena-catalog",
    "/api/v1/governance",
    "/api/v1/matchups",
    "/api/v1/matchups?format=csv",
    "/api/v1/snapshots",
    "/api/v1/snapshots/1",
)


@dataclass(frozen=True)
class Counted:
    """A state of a version that is a number."""

    version: int
    late: bool = False

    def aged(self, _seconds: float) -> Self:
        return type(self)(self.version, late=True)


class Answers:
    """Kept answers of a state that a test sets, and how often each path was made."""

    def __init__(self, max_bytes: int = 10**6) -> None:
        self.version: int | None = 1
        self.made: list[str] = []
        self.busy = asyncio.Event()
        self.busy.set()
        self._answers = KeptAnswers(self._look, lambda _conn: self._newest(), max_bytes=max_bytes)

    def _newest(self) -> Counted | None:
        return None if self.version is None else Counted(self.version)

    async def _look(self) -> Counted | None:
        return self._newest()

    async def ask(self, path: str, *, network: str = "10.0.0.1", size: int = 1, **headers: str) -> Response:
        scope = {
            "type": "http", "path": path, "query_string": b"", "client": (network, 1), "state": {},
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip

        async def make(request: Request) -> Response:
            self.made.append(path)
            seen = request.scope["state"]["newest"] = self._newest()  # as `newest_state` does
            await self.busy.wait()
            number = Fragment(lambda now: f"<{(now or Counted(0)).version}>")
            body = f"{'x' * size}{number.mark}{path} of {seen and seen.version}"
            return FragmentedResponse(body, (number,), media_type="text/plain")

        return await self._answers.answer(Request(scope), make, stranger=True)


def test_many_readers_share_what_is_made() -> None:
    async def ask() -> None:
        answers = Answers()
        bodies = {bytes((await one).body) for one in asyncio.as_completed([answers.ask("/a") for _ in range(50)])}
        assert bodies == {b"x<1>/a of 1"}
        assert answers.made == ["/a"]
        answers.version = 2
        assert (await answers.ask("/a")).body == b"x<2>/a of 2"
        assert answers.made == ["/a", "/a"]

    asyncio.run(ask())


def test_what_is_asked_for_before_the_first_state_is_not_kept() -> None:
    async def ask() -> None:
        answers = Answers()
        answers.version = None
        answers.busy.clear()
        early = asyncio.create_task(answers.ask("/a"))
        await asyncio.wait([early], timeout=0.05)  # it is being made
        answers.version = 1
        answers.busy.set()
        assert (await early).body == b"x<0>/a of None"
        assert (await answers.ask("/a")).body == b"x<1>/a of 1"

    asyncio.run(ask())


def test_what_was_made_of_an_older_state_is_not_given_to_later_readers() -> None:
    async def ask() -> None:
        answers = Answers()
        answers.busy.clear()
        early = asyncio.create_task(answers.ask("/a"))
        await asyncio.wait([early], timeout=0.05)  # its state was read
        answers.version = 2
        late = asyncio.create_task(answers.ask("/a"))
        await asyncio.wait([late], timeout=0.05)  # it waits for its turn
        answers.busy.set()
        assert (await early).body == b"x<1>/a of 1"
        assert (await late).body == b"x<2>/a of 2"

    asyncio.run(ask())


def test_fragments_are_filled_in_compressed_answers_too() -> None:
    async def ask() -> None:
        answers = Answers()
        await answers.ask("/a", size=100_000)
        answer = await answers.ask("/a", size=100_000, accept_encoding="gzip")
        assert answers.made == ["/a"], "it is compressed, not made again"
        assert answer.headers["content-encoding"] == "gzip"
        assert len(answer.body) < 1000
        assert gzip.decompress(answer.body) == b"x" * 100_000 + b"<1>/a of 1"

    asyncio.run(ask())


def test_what_was_asked_for_longest_ago_is_forgotten_first() -> None:
    async def ask() -> None:
        answers = Answers(max_bytes=100_000)
        for number, path in enumerate(("/a", "/b", "/c", "/d", "/a", "/e", "/a", "/b")):
            await answers.ask(path, network=f"10.0.0.{number}", size=20_000)
        assert answers.made == ["/a", "/b", "/c", "/d", "/e", "/b"]
        await answers.ask("/large", size=30_000)
        await answers.ask("/b", size=20_000)
        assert answers.made[6:] == ["/large"], "what is larger than a network's part drives nothing out"

    asyncio.run(ask())


def test_a_network_that_asks_for_ever_new_answers_drives_out_its_own() -> None:
    async def ask() -> None:
        answers = Answers(max_bytes=100_000)
        await answers.ask("/a", network="10.0.0.2", size=20_000)
        for number in range(20):
            await answers.ask(f"/{number}", size=10_000)
        await answers.ask("/a")
        await answers.ask("/19")
        assert answers.made == ["/a", *(f"/{number}" for number in range(20))]

    asyncio.run(ask())


def test_a_network_that_asks_for_ever_new_answers_leaves_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_WAIT_SECONDS", 120)  # on a slow machine too each gets its turn

    async def ask() -> None:
        answers = Answers()
        answers.busy.clear()
        asked = [asyncio.create_task(answers.ask(f"/{number}")) for number in range(20)]
        same = [asyncio.create_task(answers.ask("/1")) for _ in range(20)]
        other = asyncio.create_task(answers.ask("/other", network="10.0.0.2"))
        refused, _ = await asyncio.wait(asked, timeout=1, return_when=asyncio.FIRST_COMPLETED)
        answers.busy.set()
        ended = await asyncio.gather(*asked, return_exceptions=True)
        assert refused
        assert sum(isinstance(one, TooManyReadersError) for one in ended) == 15
        assert (await other).status_code == 200
        assert {(await one).status_code for one in same} == {200}, "who waits for the same answer takes no place"

    asyncio.run(ask())


def _same(text: str) -> str:
    return re.sub(r'nonce(:inherited)?="[^"]*"|"age_seconds":[0-9.e+-]+|<time .*?</time>', "", text)


def test_public_reads_are_the_same_for_all(client: Client, three: int) -> None:
    for path in PUBLIC:
        first, again = client.get(path), client.get(path)
        assert first.status_code == again.status_code == 200, path
        assert _same(first.text) == _same(again.text), path
        for encoding in ("identity", "gzip"):
            other = client.get(path, headers={"Accept-Encoding": encoding})
            assert other.headers.get("content-encoding", "identity") in (encoding, "identity"), path
            assert _same(other.text) == _same(first.text), (path, encoding)


def test_a_page_reads_the_state_of_the_snapshot_once(client: Client, three: int) -> None:
    read: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        read.extend(["state"] if "models_hash" in statement else [])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        for path in ("/?rows=7", "/embed?limit=7", "/api/v1/leaderboard?limit=7", "/api/v1/matchups?limit=7"):
            read.clear()
            assert client.get(path).status_code == 200
            assert len(read) == 1, path
            assert client.get(path).status_code == 200
            assert len(read) == 2, f"{path} is kept: the state alone is looked up"
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def test_no_two_readers_share_a_nonce(client: Client, three: int) -> None:
    policies = [client.get("/compare").headers["content-security-policy"] for _ in range(5)]
    assert len(set(policies)) == 5


def test_a_change_of_models_is_seen_at_once(ask: Ask, client: Client, three: int) -> None:
    assert "Ant Inc." not in client.get("/models/ant").text
    assert ask("PATCH", "/models/ant", json={"organization": "Ant Inc."}).status_code == 200
    assert "Ant Inc." in client.get("/models/ant").text
    assert ask("POST", "/models/ant/aliases", json={"name": "emmet"}).status_code in (200, 201)
    assert "emmet" in client.get("/models/ant").text
