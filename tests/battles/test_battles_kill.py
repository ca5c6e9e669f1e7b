import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from app.database.engine import Database
from tests.fixtures.killed_service import Service, Tally, attempt

SENDERS = 8


def judge_until_stopped(service: Service, key: str, sender: int, tally: Tally) -> None:
    """Ask for battles with the key, and vote on each with its token alone, each request again until it is answered."""
    number = 0
    with httpx.Client(base_url=f"http://127.0.0.1:{service.port}/api/v1", timeout=120) as client:

        def ask(name: str, path: str, headers: dict[str, str], body: dict[str, Any]) -> httpx.Response:
            while (response := attempt(client, path, headers, body)) is None:
                assert service.up.wait(120)
            tally.add(name, response)
            return response

        while not tally.stopping:
            name = f"{sender}-{number}"
            headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": name}
            drawn = ask(f"{name} battle", "/battles", headers, {"annotator": f"k{sender}"})
            assert drawn.status_code == 201, drawn.text
            ask(f"{name} vote", "/votes", {}, {"token": drawn.json()["token"], "winner": "left"})
            number += 1


@pytest.mark.parametrize(
    "kills", [pytest.param(2, marks=pytest.mark.campaign), pytest.param(50, marks=pytest.mark.soak)]
)
def test_battles_and_their_tokens_outlive_a_killed_service(
    database: Database, database_url: str, keys: dict[str, str], kills: int
) -> None:
    with database.begin() as conn:
        conn.execute(text("INSERT INTO models (name) VALUES ('a'), ('b'), ('c')"))
    service, chance, tally = Service(database_url), random.Random(3), Tally()  # noqa: S311  when to kill is no secret
    service.start()
    try:
        with ThreadPoolExecutor(SENDERS) as pool:
            senders = [pool.submit(judge_until_stopped, service, keys["ingest"], i, tally) for i in range(SENDERS)]
            try:
                for _ in range(kills):
                    tally.wait_for(chance.randint(1, 60))
                    service.kill()
                    service.start()
                tally.wait_for(20)
            finally:
                tally.stopping = True
            for sender in senders:
                sender.result()
    finally:
        service.kill()
    battles = {name: body for name, (_, body) in tally.answers.items() if name.endswith("battle")}
    votes = {name: body for name, (_, body) in tally.answers.items() if name.endswith("vote")}
    statuses = Counter(status for name, (status, _) in tally.answers.items() if name.endswith("vote"))
    assert statuses.keys() <= {200, 201}, "200 where the answer to the first request was lost"
    with database.read() as conn:
        drawn = {str(row.id): str(row.vote_id) for row in conn.execute(text("SELECT id, vote_id FROM battles"))}
        cast = {str(row.sealed_battle_id): str(row.id) for row in conn.execute(text("SELECT * FROM votes"))}
    promised = {battles[name]["battle_id"]: votes[name.replace("battle", "vote")]["id"] for name in battles}
    assert drawn == cast == promised, "every battle is on record once, with its one vote, and there is nothing else"
    print(f"{kills} kills, {len(battles)} battles, votes answered {statuses}")
