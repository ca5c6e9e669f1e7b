import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from httpx import Client
from sqlalchemy import text

from app.database.engine import Database
from app.settings import IngestSettings, Settings
from tests.fixtures.application import Assemble

Ask = Callable[..., Any]

VOTE = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "judge"}


@pytest.fixture
def client(settings: Settings, serving: Ask, assemble: Assemble) -> Iterator[Client]:
    """A service that holds two votes in its queue and one batch at a time."""
    tight = IngestSettings(queue_size=2, batch_bytes=20_000)
    app = assemble(settings.model_copy(update={"ingest": tight}))
    with serving(app) as url, Client(base_url=url, timeout=120) as client:
        yield client


def count(database: Database) -> int:
    with database.read() as conn:
        return int(conn.execute(text("SELECT count(*) FROM votes")).scalar_one())


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [("/votes", VOTE, "queue-full"), ("/votes/batch", {"votes": [VOTE]}, "too-many-batches")],
)
def test_too_much_is_refused_at_once_and_the_rest_is_recorded(
    ask: Ask, database: Database, assert_problem: Ask, path: str, body: Any, code: str
) -> None:
    with ThreadPoolExecutor(40) as pool, database.begin() as conn:
        # The votes that were taken cannot be committed yet: everything that comes then has to be refused.
        conn.execute(text("LOCK TABLE votes IN EXCLUSIVE MODE"))
        refused, answered = threading.Event(), list[Any]()

        def send(_: int) -> None:
            response = ask("POST", path, json=body)
            answered.append(response)
            if response.status_code == 503:
                refused.set()

        sending = [pool.submit(send, i) for i in range(40)]
        assert refused.wait(120), "nothing was refused while nothing could be recorded"
        assert {response.status_code for response in answered} == {503}
        conn.get_transaction().commit()  # type: ignore[union-attr]  # begin() has begun it
        for each in sending:
            each.result()
    for response in answered:
        if response.status_code == 503:
            assert_problem(response, 503, code)
    fates = Counter(response.status_code for response in answered)
    done = 201 if path == "/votes" else 200
    assert fates.keys() == {done, 503}
    assert count(database) == fates[done]
    # And it recovers.
    assert ask("POST", path, json=body).status_code == done


def test_a_batch_as_large_as_any_may_be_is_taken_when_nothing_else_is_under_way(ask: Ask) -> None:
    votes = [{**VOTE, "metadata": {"x": "y" * 1000}}] * 100
    assert ask("POST", "/votes/batch", json={"votes": votes}).json()["counts"]["created"] == 100


def test_a_batch_that_does_not_say_how_long_it_is(ask: Ask) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"votes": ['
        yield b'{"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}]}'

    headers = {"Content-Type": "application/json"}
    assert ask("POST", "/votes/batch", content=pieces(), headers=headers).json()["counts"]["created"] == 1
