"""The release before goes on working while this version changes the schema under it, and publishes."""

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from app.auth.keys import create_key
from app.database.engine import Database
from app.database.schema import upgrade
from app.naming.known_names import Known
from app.refits.runner import refit_now
from app.votes.schemas import Vote
from app.votes.service import record_votes
from tests.fixtures.console import Visitor
from tests.fixtures.crowds import SENDER, crowd_votes
from tests.fixtures.killed_service import Service

NAMES = ("v0.2.0", "25c6864")
"""The release as its tag, and as its commit where the clone has no tags."""
SCHEMA = "0021"
ROOT = Path(__file__).parents[2]
SENDERS = 3


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the release before."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("there is no git to get the release before with")
    folder = tmp_path_factory.mktemp("release")
    for name in NAMES:
        archive = [git, "-C", str(ROOT), "archive", "--output", str(folder / "release.tar"), name]
        if subprocess.run(archive, capture_output=True, check=False).returncode == 0:
            shutil.unpack_archive(folder / "release.tar", folder, filter="data")
            return folder
    pytest.skip(f"the release before is not in this clone: neither {' nor '.join(NAMES)}")


@dataclass
class Voters:
    """Senders of votes, and what they were answered."""

    client: httpx.Client
    acknowledged: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    ended: threading.Event = field(default_factory=threading.Event)

    def vote(self, sender: int) -> None:
        """Vote until the end; a vote that is answered 503 is sent again."""
        number = 0
        while not self.ended.is_set():
            battle = f"{sender}-{number}"
            body = {"model_a": "model 0", "model_b": "model 1", "winner": "tie", "annotator": "j", "battle_id": battle}
            answer = self.client.post("/votes", json=body)
            read = self.client.get("/leaderboard")
            with self.changed:
                if answer.is_success:
                    self.acknowledged[battle] = answer.json()["id"]
                    number += 1
                self.wrong += [
                    f"{one.request.url}: {one.status_code} {one.text[:300]}"
                    for one in (answer, read)
                    if not one.is_success and one.status_code != 503 and (one is answer or one.status_code != 404)
                ]
                self.changed.notify_all()

    def wait_for(self, more: int) -> None:
        with self.changed:
            target = len(self.acknowledged) + more
            assert self.changed.wait_for(lambda: len(self.acknowledged) >= target or self.wrong, 120)


@contextmanager
def voting(client: httpx.Client) -> Iterator[Voters]:
    voters = Voters(client)
    with ThreadPoolExecutor(SENDERS) as pool:
        running = [pool.submit(voters.vote, sender) for sender in range(SENDERS)]
        try:
            yield voters
        finally:
            voters.ended.set()
        for each in running:
            each.result()


def test_the_release_before_works_on_while_the_schema_is_changed(release: Path, empty_database_url: str) -> None:
    url = empty_database_url
    upgrade(url, SCHEMA)
    with Database(url) as database, database.begin() as conn:
        key = create_key(conn, "tests", ["admin", "ingest"])[1]
    service = Service(url, release)
    service.start()
    try:
        address, headers = f"http://127.0.0.1:{service.port}", {"Authorization": f"Bearer {key}"}
        with (
            httpx.Client(base_url=f"{address}/api/v1", headers=headers, timeout=120) as client,
            Database(url) as database,
        ):
            crowd = client.post("/votes/batch", json={"votes": list(crowd_votes(votes_each=60, honest=12))})
            assert crowd.status_code == 200
            with voting(client) as voters:
                voters.wait_for(30)
                upgrade(url)
                voters.wait_for(30)
                # This version's worker publishes what the release before shows.
                refit_now(database, lease_seconds=30, requested_by="a test")
                voters.wait_for(30)
            assert voters.wrong == []
            assert recorded(url) == voters.acknowledged
            write_everything(client, database)
            read_everything(client, address, key)
    finally:
        service.kill()


def recorded(url: str) -> dict[str, str]:
    with psycopg.connect(url.replace("+psycopg", "")) as conn:
        return {
            str(battle): str(vote)
            for battle, vote in conn.execute("SELECT battle_id, id FROM votes WHERE battle_id IS NOT NULL")
        }


def write_everything(client: httpx.Client, database: Database) -> None:
    """Send what the release before writes, beside votes that only this version takes."""

    def send(path: str, status: int = 200, method: str = "POST", **body: Any) -> Any:
        answer = client.request(method, path, json=body)
        assert answer.status_code == status, (path, answer.status_code, answer.text)
        return answer.json()

    vote = {"model_a": "model 0", "model_b": "model 1", "winner": "model_a", "annotator": "k", "battle_id": "shared"}
    with database.begin() as conn:
        record_votes(conn, [(Vote(**vote, criterion="style"), SENDER)], Known())
    first = send("/votes", 201, **vote)["id"]
    assert send("/votes", **vote) == {"id": first, "status": "duplicate"}
    send("/votes", 409, **{**vote, "winner": "tie"})
    batch = [vote, {**vote, "winner": "tie"}, {**vote, "annotator": "l"}]
    assert [one["status"] for one in send("/votes/batch", votes=batch)["results"]] == [
        "duplicate",
        "conflict",
        "created",
    ]
    retraction = send("/retractions", 201, target="battle", id="shared", reason="a test")
    assert retraction["votes"] == 2
    again = send("/votes", 201, **vote)["id"]
    assert again != first
    send(f"/retractions/{retraction['id']}/withdraw", 409, reason="a test")
    send("/retractions", 201, target="vote", id=again, reason="a test")
    send(f"/retractions/{retraction['id']}/withdraw", reason="a test")
    battle = send("/battles", 201, annotator="k")
    send("/votes", 201, token=battle["token"], winner="left")
    skipped = send("/battles", 201, annotator="l")
    send(f"/battles/{skipped['battle_id']}/skip", reason="skip")
    send("/models", 201, name="model 9")
    send("/annotators/k/decisions", 201, action="exclude", reason="a test")
    settings = {**client.get("/policy").json()["settings"], "on_conflict": "replace"}
    send("/policy", method="PUT", settings=settings, reason="a test")
    assert send("/votes", 201, **{**vote, "winner": "tie"})["replaces"] == first
    send("/exports", 202, what="votes")
    send("/refits", 202)


def read_everything(client: httpx.Client, address: str, key: str) -> None:
    """Read every list of the API, and every page that a link leads to."""
    paths = client.get("/openapi.json").json()["paths"]
    lists = [path for path, methods in paths.items() if "get" in methods and "{" not in path and "events" not in path]
    assert len(lists) > 20
    failed = [path for path in lists if client.get(f"{address}{path}").status_code >= 500]
    with httpx.Client(base_url=address, timeout=120) as browser:
        visitor = Visitor(browser)
        visitor.submit(visitor.page("/console/sign-in"), "/console/sign-in", key=key)
        seen, to_see = set(), ["/", "/console"]
        while to_see:
            page = browser.get(to_see.pop(), follow_redirects=True)
            failed += [page.url.path] if page.is_server_error else []
            links = {urlsplit(link).path for link in re.findall(r'href="(/[^"#]*)"', page.text)}
            links = {link for link in links if not link.endswith("/impact")}  # a refit, for which kernels are compiled
            to_see += links - seen
            seen |= links
    assert {"/history", "/matchups", "/console/audit", "/models/model%200"} <= seen
    assert failed == ["/readyz"]  # it would not start on this schema
