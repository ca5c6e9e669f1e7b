"""Two API servers and two workers on an external PostgreSQL; each is killed in turn, under votes."""

import os
import signal
from collections.abc import Callable
from typing import Any

import httpx
import psycopg
import pytest

from tests.deployment.load import Load
from tests.deployment.parts import Command, Server
from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.campaign

SENDERS = 2
LEADER = """
SELECT split_part(holder, ':', 2)::int, epoch FROM leases JOIN refits USING (epoch)
WHERE name = 'refit' AND expires_at > clock_timestamp() AND finished_at IS NULL
"""
PUBLISHED_SINCE = """
SELECT count(*) FROM snapshots JOIN refits ON refits.id = refit_id WHERE started_at > %s AND state = 'done'
"""
STATE_OF_EPOCH = "SELECT state FROM refits WHERE epoch = %s"


def ask(server: Server, query: str, *values: object) -> Any:
    with psycopg.connect(server.url, autocommit=True) as conn:
        return conn.execute(query, values).fetchone()  # type: ignore[arg-type]


def kill_leader(server: Server, workers: list[Command]) -> int:
    """Kill the worker that is at a refit, and return the epoch of its lease."""
    found: list[int] = []

    def stopped() -> bool:
        led = ask(server, LEADER)
        if led is None:
            return False
        os.kill(led[0], signal.SIGSTOP)
        if ask(server, LEADER) != led:  # it had ended the refit before it was stopped
            os.kill(led[0], signal.SIGCONT)
            return False
        found[:] = led
        return True

    wait_until(stopped)
    leader, epoch = found
    next(worker for worker in workers if worker.pid == leader).kill()
    return epoch


def test_votes_and_refits_outlive_every_process(
    primary: Server, key: str, apis: list[Command], workers: list[Command]
) -> None:
    load = Load(apis, key)

    def keep_asking() -> None:
        with load.client() as client:
            while not load.ended.wait(0.5):
                load.send(client, len(load.acknowledged), "POST", "/refits", json={})

    def restart() -> None:
        primary.kill()
        primary.start()

    lost: list[int] = []
    kills: dict[str, Callable[[], object]] = {
        "an API server": apis[0].kill,
        "the other API server": apis[1].kill,
        "the worker at a refit": lambda: lost.append(kill_leader(primary, workers)),
        "the other worker at a refit": lambda: lost.append(kill_leader(primary, workers)),
        "PostgreSQL": restart,
    }
    with load.running(SENDERS, keep_asking):
        for what, kill in kills.items():
            load.wait_for_votes(10)
            (killed_at,) = ask(primary, "SELECT clock_timestamp()")
            kill()
            load.wait_for_votes(10)
            seconds = wait_until(lambda since=killed_at: ask(primary, PUBLISHED_SINCE, since)[0] > 0)
            print(f"{what}: the next leaderboard after {seconds:.1f} s")
    assert [ask(primary, STATE_OF_EPOCH, epoch) for epoch in lost] == [("failed",), ("failed",)]
    load.check(primary.url)
    newest = ask(primary, "SELECT max(number) FROM snapshots")[0]
    for api in apis:
        wait_until(
            lambda at=api.address: (
                httpx.get(f"{at}/api/v1/leaderboard", timeout=120).json()["snapshot"]["number"] >= newest
            )
        )
    print(f"{len(load.acknowledged)} votes acknowledged; answers {dict(load.statuses)}")
