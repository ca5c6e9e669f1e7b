import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from app.database.engine import Database
from tests.fixtures.killed_service import Service, Tally, attempt

SENDERS = 12
BATCH = 7


def request_of(name: str, number: int) -> tuple[str, dict[str, str], Any]:
    """A vote with a key, a vote of a battle without one, and a batch with one, in turn; tags say whose they are."""
    vote = {"model_a": "a", "model_b": f"b{number % 3}", "winner": "tie", "annotator": f"k{number % 5}"}
    if number % 3 == 0:
        return "/votes", {"Idempotency-Key": name}, {**vote, "tags": [name]}
    if number % 3 == 1:
        return "/votes", {}, {**vote, "battle_id": name, "tags": [name]}
    votes = [{**vote, "tags": [f"{name}/{i}"]} for i in range(BATCH)]
    return "/votes/batch", {"Idempotency-Key": name}, {"votes": votes}


def send_until_stopped(service: Service, key: str, sender: int, tally: Tally) -> None:
    number = 0
    with httpx.Client(base_url=f"http://127.0.0.1:{service.port}/api/v1", timeout=120) as client:
        while not tally.stopping:
            name = f"{sender}-{number}"
            path, headers, body = request_of(name, number)
            # Sent again until it is answered: the connection may break before, during or after the commit.
            while (response := attempt(client, path, {"Authorization": f"Bearer {key}", **headers}, body)) is None:
                assert service.up.wait(120)
            tally.add(name, response)
            number += 1


@contextmanager
def under_fire(service: Service, key: str) -> Iterator[Tally]:
    tally = Tally()
    with ThreadPoolExecutor(SENDERS) as pool:
        senders = [pool.submit(send_until_stopped, service, key, i, tally) for i in range(SENDERS)]
        try:
            yield tally
        finally:
            tally.stopping = True
        for sender in senders:
            sender.result()


def kill_again_and_again(database: Database, service: Service, key: str, kills: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  when to kill is no secret
    service.start()
    try:
        with under_fire(service, key) as tally:
            for _ in range(kills):
                tally.wait_for(chance.randint(1, 60))
                service.kill()
                service.start()
            tally.wait_for(20)
    finally:
        service.kill()
    check(database, tally.answers)
    print(f"{kills} kills, {len(tally.answers)} requests, statuses {Counter(s for s, _ in tally.answers.values())}")


def check(database: Database, answers: dict[str, tuple[int, Any]]) -> None:
    """Every answered vote is on record once, under the id that was answered, and there is nothing else."""
    with database.read() as conn:
        rows = list(conn.execute(text("SELECT tags[1], id FROM votes")))
    on_record = {tag: str(id_) for tag, id_ in rows}
    assert len(on_record) == len(rows), "a vote was recorded twice"
    promised: dict[str, str] = {}
    for name, (status, body) in answers.items():
        path, headers, _ = request_of(name, int(name.partition("-")[2]))
        if path == "/votes/batch":
            assert status == 200
            assert body["counts"]["created"] == BATCH
            promised |= {f"{name}/{each['index']}": each["id"] for each in body["results"]}
        else:
            # With a key the first answer comes again; without, the battle says that the vote is there already.
            assert (status, body["status"]) in (
                [(201, "created")] if headers else [(201, "created"), (200, "duplicate")]
            )
            promised[name] = body["id"]
    assert on_record == promised


@pytest.fixture
def service(database_url: str) -> Service:
    return Service(database_url)


@pytest.mark.campaign
def test_votes_outlive_a_killed_service(database: Database, service: Service, keys: dict[str, str]) -> None:
    kill_again_and_again(database, service, keys["ingest"], kills=2, seed=1)


@pytest.mark.soak
def test_votes_outlive_two_hundred_kills(database: Database, service: Service, keys: dict[str, str]) -> None:
    kill_again_and_again(database, service, keys["ingest"], kills=200, seed=2)
