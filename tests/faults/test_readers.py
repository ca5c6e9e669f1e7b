"""Sixteen readers without a key, as fast as they can: votes are recorded, and keys are not limited with them."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest

from app.auth.keys import create_key
from app.database.engine import Database
from tests.fixtures.environment import Configure
from tests.fixtures.killed_service import Service

pytestmark = pytest.mark.campaign

READERS, VOTES = 16, 200
READS = 200  # a minute, from an address: a slow machine, too, answers more
BURST = 100  # of them that may come at once
ELSEWHERE = "127.0.0.2"
PATHS = ("/api/v1/matchups?format=csv", "/compare", "/", "/api/v1/leaderboard")
MOST_MEMORY = 100 * 1024**2


def memory_of(service: Service) -> int:
    """Bytes that the process which answers has in memory."""
    return max(process.memory_info().rss for process in psutil.Process(service.pid).children(recursive=True))


@pytest.mark.parametrize("query", ["", "q={}"], ids=["the same answers", "ever new answers"])
def test_readers_cost_no_vote(
    database: Database, database_url: str, three: int, configure: Configure, query: str
) -> None:
    assert three == 1
    configure(SERVER__ANONYMOUS_REQUESTS_PER_MINUTE=READS)
    with database.begin() as conn:
        key = create_key(conn, "tests", ["ingest", "read"])[1]
    service = Service(database_url)
    service.start()
    address = f"http://127.0.0.1:{service.port}"
    answered: Counter[int] = Counter()
    ended = threading.Event()

    def read(number: int) -> None:
        transport = httpx.HTTPTransport(local_address=ELSEWHERE)
        with httpx.Client(base_url=address, transport=transport, timeout=60) as client:
            turn = 0
            while not ended.is_set():
                path = PATHS[turn % len(PATHS)] if not query else f"/?{query.format(f'{number}-{turn}')}"
                answered[client.get(path).status_code] += 1
                turn += 1

    vote = {"model_a": "ant", "model_b": "bee", "winner": "tie", "annotator": "k"}
    headers = {"Authorization": f"Bearer {key}"}
    try:
        with httpx.Client(base_url=address, headers=headers, timeout=60) as client:
            assert client.post("/api/v1/votes", json=vote).status_code == 201
            before, began = memory_of(service), time.monotonic()
            with ThreadPoolExecutor(READERS) as pool:
                reading = [pool.submit(read, number) for number in range(READERS)]
                try:
                    statuses, read_by_key, most = Counter[int](), Counter[int](), before
                    while statuses.total() < VOTES or (not answered[429] and statuses.total() < 10 * VOTES):
                        statuses[client.post("/api/v1/votes", json=vote).status_code] += 1
                        read_by_key[client.get("/api/v1/leaderboard").status_code] += 1
                        most = max(most, memory_of(service))
                finally:
                    ended.set()
                for one in reading:
                    one.result()
    finally:
        service.kill()
    assert statuses.keys() == {201}
    assert read_by_key.keys() == {200}, "a key has a limit of its own"
    assert most - before <= MOST_MEMORY
    assert answered.keys() <= {200, 429, 503}
    assert answered.total() - answered[429] <= BURST + READS * (time.monotonic() - began) / 60
    assert answered[200]
    assert answered[429]
    print(f"memory +{(most - before) / 1024**2:.0f} MiB; readers: {dict(answered)}; votes: {statuses.total()}")
