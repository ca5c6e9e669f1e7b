import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import Client
from sqlalchemy import text

from app.auth.callers import Caller
from app.auth.keys import create_key
from app.database.engine import Database
from app.guard.errors import RateLimitedError
from app.guard.limits import RateLimits
from app.settings import ServerSettings, Settings
from tests.fixtures.application import Assemble
from tests.fixtures.clocks import Clock

Ask = Callable[..., Any]


def caller(number: int = 0, limit: int | None = None) -> Caller:
    return Caller(number, "k", frozenset({"read"}), limit)  # type: ignore[arg-type]  # any name will do


def allowed(limits: RateLimits, who: Caller | str, attempts: int) -> int:
    done = 0
    for _ in range(attempts):
        try:
            if isinstance(who, str):
                limits.count_anonymous({"client": (who, 1), "state": {}})
            else:
                limits.count_caller({"state": {}}, who)
        except RateLimitedError:
            continue
        done += 1
    return done


def test_a_minute_s_requests_come_at_once_or_evenly(limits_clock: Clock) -> None:
    limits = RateLimits(per_key=60, per_address=None)
    assert allowed(limits, caller(), 100) == 60
    limits_clock(0.5)
    assert allowed(limits, caller(), 10) == 0
    limits_clock(10)
    assert allowed(limits, caller(), 100) == 10
    limits_clock(3600)
    assert allowed(limits, caller(), 100) == 60


def test_a_flood_of_an_address_ends_after_a_burst(limits_clock: Clock) -> None:
    limits = RateLimits(per_key=600, per_address=600)
    assert allowed(limits, "192.0.2.1", 700) == 100
    limits_clock(1)
    assert allowed(limits, "192.0.2.1", 700) == 10
    limits_clock(3600)
    assert allowed(limits, "192.0.2.1", 700) == 100
    assert allowed(limits, caller(), 700) == 600, "a key has no burst beside its limit"
    assert allowed(RateLimits(per_key=None, per_address=6000), "192.0.2.1", 7000) == 1000


def test_people_and_dashboards_are_not_refused(limits_clock: Clock) -> None:
    limits = RateLimits(per_key=None, per_address=600)
    for second in range(120):
        requests = 30 if second % 10 == 0 else 1  # a page and its parts; a dashboard asks each second beside it
        assert allowed(limits, "192.0.2.1", requests) == requests
        limits_clock(1)


def test_each_key_for_itself_and_its_own_limit_first(limits_clock: Clock) -> None:
    limits = RateLimits(per_key=3, per_address=None)
    assert [allowed(limits, caller(i, limit), 9) for i, limit in enumerate((None, 5, 2, None))] == [3, 5, 2, 3]
    assert allowed(limits, caller(0, 4), 9) == 4, "a limit that was changed did not come into force"


def test_no_limit_is_none() -> None:
    limits = RateLimits(per_key=None, per_address=None)
    assert allowed(limits, caller(), 1000) == allowed(limits, "::1", 1000) == 1000


def test_addresses_by_the_network_they_are_handed_out_in(limits_clock: Clock) -> None:
    limits = RateLimits(per_key=None, per_address=2)
    assert allowed(limits, "192.0.2.1", 9) == allowed(limits, "192.0.2.2", 9) == 2
    assert allowed(limits, "2001:db8::1", 9) == 2
    assert allowed(limits, "2001:db8::ffff:2", 9) == 0
    assert allowed(limits, "2001:db8:0:1::1", 9) == 2
    assert allowed(limits, "fe80::1%eth0", 9) == 2


def test_memory_is_bounded_and_those_in_use_are_kept(limits_clock: Clock) -> None:
    limits = RateLimits(per_key=2, per_address=None, size=100)
    for i in range(99):
        allowed(limits, caller(i), 1)
    limits_clock(60)
    allowed(limits, caller(500), 2)
    for i in range(100, 190):
        allowed(limits, caller(i), 1)
    assert allowed(limits, caller(500), 9) == 0, "a full memory must not lift the limit"
    for i in range(1000, 2000):
        allowed(limits, caller(i), 1)
    assert allowed(limits, caller(500), 9) == 2, "the one that was silent longest is forgotten"


@pytest.fixture
def limited(settings: Settings, serving: Callable[[FastAPI], Any], assemble: Assemble) -> Iterator[Client]:
    """The service with 3 requests a minute for a key and 2 for an address without one."""
    tight = settings.model_copy(
        update={"server": ServerSettings(requests_per_minute=3, anonymous_requests_per_minute=2)}
    )
    with serving(assemble(tight)) as url, Client(base_url=f"{url}/api/v1", timeout=120) as client:
        yield client


def test_what_a_limited_caller_is_told(
    limited: Client, keys: dict[str, str], assert_problem: Ask, limits_clock: Clock
) -> None:
    headers = {"Authorization": f"Bearer {keys['read']}"}
    answers = [limited.get("/policy", headers=headers) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert [answer.headers["ratelimit-policy"] for answer in answers] == ['"key";q=3;w=60'] * 4
    assert [answer.headers["ratelimit"] for answer in answers] == [
        '"key";r=2;t=20', '"key";r=1;t=40', '"key";r=0;t=60', '"key";r=0;t=60',
    ]  # fmt: skip
    assert_problem(answers[3], 429, "rate-limited")
    assert answers[3].headers["retry-after"] == "20"
    limits_clock(20)
    assert limited.get("/policy", headers=headers).status_code == 200
    other = {"Authorization": f"Bearer {keys['admin']}"}
    assert limited.get("/policy", headers=other).status_code == 200


def test_what_a_flood_is_told(client: Client, assert_problem: Ask, limits_clock: Clock) -> None:
    answers = [client.get("/api/v1/leaderboard") for _ in range(101)]
    assert [answer.headers["ratelimit-policy"] for answer in answers] == ['"address";q=100;w=10'] * 101
    assert [answers[i].headers["ratelimit"] for i in (0, 99, 100)] == [
        '"address";r=99;t=1', '"address";r=0;t=10', '"address";r=0;t=10',
    ]  # fmt: skip
    assert {answer.status_code for answer in answers[:100]} == {404}
    assert_problem(answers[100], 429, "rate-limited")
    assert answers[100].headers["retry-after"] == "1"
    limits_clock(1)
    assert client.get("/api/v1/leaderboard").status_code == 404


def test_whoever_shows_no_key_or_a_wrong_one(limited: Client, assert_problem: Ask, limits_clock: Clock) -> None:
    first = limited.get("/leaderboard")
    assert (first.status_code, first.headers["ratelimit"]) == (404, '"address";r=1;t=30')
    assert limited.get("/policy", headers={"Authorization": "Bearer sa_guess"}).status_code == 401
    assert_problem(limited.get("/leaderboard"), 429, "rate-limited")
    assert_problem(limited.get("/policy", headers={"Authorization": "Bearer sa_guess"}), 429, "rate-limited")
    assert limited.get("../../healthz").status_code == 200


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ("zz:zz", "::g", True),
        ("zz:zz", "somebody", True),
        ('"[2001:db8::1]:4711"', "2001:db8::2", True),
        ("[2001:db8::1]:4711", '"[2001:db8:1::1]"', False),
        ('"192.0.2.1:4711"', "192.0.2.1", True),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
    ],
)
def test_addresses_that_a_proxy_forwards(
    limited: Client, limits_clock: Clock, first: str, second: str, shared: bool
) -> None:
    statuses = [
        limited.get("/leaderboard", headers={"X-Forwarded-For": host}).status_code for host in (first, first, second)
    ]
    assert statuses == [404, 404, 429 if shared else 404]


def test_single_votes_and_tokens_draw_on_the_key(
    limited: Client, database: Database, assert_problem: Ask, limits_clock: Clock
) -> None:
    with database.begin() as conn:
        _, key = create_key(conn, "front end", ["ingest"], requests_per_minute=2)
        conn.execute(text("INSERT INTO models (name) VALUES ('a'), ('b')"))
    vote = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}
    token = limited.post("/keys/tokens", headers={"Authorization": f"Bearer {key}"}).json()["token"]
    recorded = limited.post("/votes", json=vote, headers={"Authorization": f"Bearer {token}"})
    assert (recorded.status_code, recorded.headers["ratelimit"]) == (201, '"key";r=0;t=60')
    assert_problem(limited.post("/votes", json=vote, headers={"Authorization": f"Bearer {key}"}), 429, "rate-limited")


def test_no_headers_without_a_limit(ask: Ask) -> None:
    assert not re.search("ratelimit", str(ask("GET", "/policy").headers), re.IGNORECASE)
