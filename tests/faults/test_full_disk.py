"""No room left under the embedded database, for its tables, its log or all of it: a real disk, really full.

What needs room is refused with 503 and leaves nothing half done; what needs none goes on; and when there is room again
the service comes back by itself.
"""

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from app.database.embedded.folder import ServerFolder
from app.database.embedded.server import EmbeddedServer
from app.database.schema import upgrade
from app.settings import DatabaseSettings, Settings, WorkerSettings
from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.campaign

DISK = "320m"
RECOVERY_SECONDS = 30
BATCH, MOST_BATCHES = 5_000, 100  # more than a disk takes that is full but for what the server has set aside
IMPORTED = 250_000  # some chunks
CROWD = 1_000
NO_ROOM = "No space left on device"
BATCHES_STORED = "SELECT key, count(*) FROM votes JOIN annotators AS a ON a.id = annotator_id GROUP BY 1"
IMPORT_STORED = "SELECT rows_done, (SELECT count(*) FROM votes WHERE import_id = i.id) FROM imports AS i WHERE id = %s"
DISTINCT = "SELECT count(*), count(DISTINCT battle_id) FROM votes WHERE import_id = %s"
ROLLED_BACK = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()"
PUBLICATION_WAITS = "SELECT count(*) FROM pg_locks WHERE relation = 'snapshots'::regclass AND NOT granted"

FOLDERS = {"tables": "base", "log": "pg_wal", "everything": None}
"""What is on the small disk → which of the cluster's folders that is; None: the whole data folder."""


class Disk:
    """A file system in memory that can be filled to its last byte, and relieved."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)) == size:
                        pass

    def relieve(self) -> None:
        self._ballast.unlink(missing_ok=True)


class Scene(NamedTuple):
    """A service, and the disk that some of its database is on."""

    place: str
    service: Any
    disk: Disk


@pytest.fixture(scope="module")
def disk(cluster_folder: Path) -> Iterator[Disk]:
    folder = cluster_folder / "disk"
    folder.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("there is no command to mount a disk with")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0711", "stable-arena-test", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no disk of its own can be mounted here: {mounted.stderr.strip()}")
    yield Disk(folder)
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(scope="module", params=FOLDERS)
def scene(disk: Disk, cluster_folder: Path, start_service: Callable[..., Any], request: Any) -> Iterator[Scene]:
    place, folder = request.param, FOLDERS[request.param]
    data = (cluster_folder if folder else disk.folder) / f"data of {place}"
    server = EmbeddedServer(data)
    upgrade(server.start())
    if folder:
        server.release()
        move(ServerFolder(data).cluster / folder, disk.folder)
        server.start()
    settings = Settings(
        data_dir=data,
        database=DatabaseSettings(pool_size=4, connect_timeout_seconds=5),  # as long do reads wait for a slow machine
        worker=WorkerSettings(lease_seconds=2),
    )
    with start_service(server.url, settings) as service:
        yield Scene(place, service, disk)
        disk.relieve()  # where a test failed
    server.release()
    for each in disk.folder.iterdir():
        shutil.rmtree(each)


def move(folder: Path, to: Path) -> None:
    """Move a folder to another disk, and leave a link to it."""
    subprocess.run(["cp", "-a", str(folder), str(to)], check=True)
    shutil.rmtree(folder)
    folder.symlink_to(to / folder.name)


def fill_with_batches(service: Any) -> dict[str, int]:
    """Send batches until one is refused; return how many votes of each were acknowledged."""
    stored = {}
    with service.client() as client:
        for number in range(MOST_BATCHES):
            vote = {"model_a": "model 0", "model_b": "model 1", "winner": "tie", "annotator": f"batch {number}"}
            response = service.send(client, "POST", "/votes/batch", json={"votes": [vote] * BATCH})
            stored[vote["annotator"]] = BATCH if response.is_success else 0
            if response.status_code == 503:
                return stored
    pytest.fail("no batch was refused")


def test_nothing_can_be_written(scene: Scene) -> None:
    place, service, disk = scene
    before = service.statuses.copy()
    with service.traffic():
        service.wait_for_votes(5)
        disk.fill()
        acknowledged = fill_with_batches(service)
        service.wait_for_answer("POST", 503, more=5)
        if place == "tables":
            service.wait_for_answer("GET", 200, more=30)
            assert (service.statuses - before)["GET", 503] == 0, "reads need no room"
        disk.relieve()
        seconds = service.wait_for_votes(1, RECOVERY_SECONDS)
        service.wait_for_votes(5)
    print(f"{place}: the first vote {seconds:.2f} s after there was room")
    with service.admin() as operator:
        stored = dict(operator.execute(BATCHES_STORED).fetchall())
    for batch, count in acknowledged.items():
        # A refusal after the server was lost says only that nobody knows whether the batch was committed.
        assert stored.get(batch, 0) in ({count} if place == "tables" else {count, BATCH})
    service.check(place)


@pytest.mark.parametrize("scene", ["everything"], indirect=True)
def test_a_board_cannot_be_published(scene: Scene) -> None:
    _, service, disk = scene
    vote = {"model_a": "model 0", "model_b": "model 1", "winner": "tie"}
    crowd = [{**vote, "annotator": f"reader {i}"} for i in range(CROWD)]  # a row each, for which there is no page yet
    with service.client() as client, service.admin() as operator:
        assert service.send(client, "POST", "/votes/batch", json={"votes": crowd}).is_success
        board = service.send(client, "GET", "/leaderboard").json()
        with operator.transaction():
            operator.execute("LOCK TABLE snapshots IN SHARE MODE")
            asked = service.send(client, "POST", "/refits", json={}).json()["id"]
            wait_until(lambda: operator.execute(PUBLICATION_WAITS).fetchone() != (0,))
            disk.fill()
        wait_until(lambda: service.send(client, "GET", f"/refits/{asked}").json()["finished_at"] is not None)
        refit = service.send(client, "GET", f"/refits/{asked}").json()
        assert refit["state"] == "failed"
        assert NO_ROOM in refit["detail"]
        served = service.send(client, "GET", "/leaderboard").json()
        assert served["snapshot"]["id"] == board["snapshot"]["id"]
        # How few votes swap neighbours is measured after the publication, and may have come meanwhile.
        one, other = ([(row["model"], row["score"], row["se"]) for row in each["models"]] for each in (served, board))
        assert one == other
    disk.relieve()
    service.check("publication")


@pytest.mark.parametrize("scene", ["tables", "log"], indirect=True)
def test_an_import_is_cut_short(scene: Scene) -> None:
    place, service, disk = scene
    rows = (f"model 0,model 1,tie,importer {i % 50},{place} {i}" for i in range(IMPORTED))
    file = "\n".join(("model_a,model_b,winner,annotator,battle_id", *rows))

    with service.client() as client, service.admin() as watcher:

        def stored() -> tuple[int, int]:
            """How many votes the import says that it has recorded, and how many there are."""
            return watcher.execute(IMPORT_STORED, [asked]).fetchone()

        def has_failed() -> bool:
            try:
                return watcher.execute(ROLLED_BACK).fetchone()[0] > rolled_back
            except psycopg.OperationalError:
                return True  # the whole server has

        def is_done() -> bool:
            answer = service.send(client, "GET", f"/imports/{asked}")
            return answer.is_success and answer.json()["state"] == "done"

        asked = service.send(client, "POST", "/imports?filename=votes.csv", content=file).json()["id"]
        wait_until(lambda: stored()[0])
        operator = service.admin()
        operator.execute("BEGIN")
        operator.execute("SELECT FROM imports WHERE id = %s FOR UPDATE", [asked])  # between two chunks
        so_far = stored()
        assert 0 < so_far[0] == so_far[1] < IMPORTED
        disk.fill()
        fill_with_batches(service)
        with contextlib.suppress(psycopg.OperationalError):
            rolled_back = watcher.execute(ROLLED_BACK).fetchone()[0]
        operator.close()
        wait_until(has_failed)
        with contextlib.suppress(psycopg.OperationalError):
            assert stored() == so_far
        disk.relieve()
        seconds = wait_until(is_done)
    print(f"{place}: {so_far} of {IMPORTED} on the full disk; whole after {seconds:.2f} s")
    with service.admin() as operator:
        assert operator.execute(DISTINCT, [asked]).fetchone() == (IMPORTED, IMPORTED)
    assert service.wrong == []
    assert service.recorded() == sorted(service.acknowledged.items())
