"""The release before goes on taking votes while this version changes the schema under it, and publishes."""

import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psycopg
import pytest

from app.auth.keys import create_key
from app.database.engine import Database
from app.database.schema import needed_revision, upgrade
from tests.fixtures.crowds import crowd_votes
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
    statuses: Counter[int] = field(default_factory=Counter)
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
                self.statuses.update([answer.status_code, read.status_code])
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


@pytest.mark.campaign
def test_votes_come_in_while_the_schema_is_changed(release: Path, empty_database_url: str) -> None:
    url = empty_database_url
    environment = {**os.environ, "STABLE_ARENA_DATABASE_URL": url}
    command = [sys.executable, "-m", "app.cli"]
    theirs = {"cwd": release, "env": {**environment, "PYTHONPATH": str(release)}}
    subprocess.run([*command, "migrate"], **theirs, check=True, capture_output=True)  # type: ignore[call-overload]  # a dict of options
    assert revision(url) == SCHEMA != needed_revision()
    with Database(url) as database, database.begin() as conn:
        key = create_key(conn, "tests", ["ingest"])[1]
    service = Service(url, release)
    service.start()
    address, headers = f"http://127.0.0.1:{service.port}/api/v1", {"Authorization": f"Bearer {key}"}
    try:
        with httpx.Client(base_url=address, headers=headers, timeout=120) as client:
            crowd = client.post("/votes/batch", json={"votes": list(crowd_votes(votes_each=60, honest=12))})
            assert crowd.status_code == 200
            with voting(client) as voters:
                voters.wait_for(30)
                upgrade(url)
                assert revision(url) == needed_revision()
                voters.wait_for(30)
                # This version's worker publishes what the release before shows.
                subprocess.run([*command, "refit"], cwd=ROOT, env=environment, check=True, capture_output=True)
                voters.wait_for(30)
                assert client.get("/leaderboard").status_code == 200
    finally:
        service.kill()
    assert voters.wrong == []
    assert recorded(url) == voters.acknowledged
    print(dict(voters.statuses))


def revision(url: str) -> str:
    with psycopg.connect(url.replace("+psycopg", "")) as conn:
        return str(conn.execute("SELECT version_num FROM alembic_version").fetchone()[0])  # type: ignore[index]  # the table has one row


def recorded(url: str) -> dict[str, str]:
    with psycopg.connect(url.replace("+psycopg", "")) as conn:
        return {
            str(battle): str(vote)
            for battle, vote in conn.execute("SELECT battle_id, id FROM votes WHERE battle_id IS NOT NULL")
        }
