import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own, not worth three calls
import pytest
from sqlalchemy import text

from app.auth.keys import create_key
from app.cli.serve import remove_old_metrics
from app.database.opening import open_database
from tests.fixtures.waiting import wait_until

PATIENCE = 120.0
PATIENTLY = f"supervisor.GRACE_SECONDS = {PATIENCE}"
"""Where processes wait for processors, one that stops cleanly may take longer than the service grants."""


@pytest.fixture
def key(data_dir: Path) -> str:
    with open_database(None, data_dir) as database, database.begin() as conn:
        return create_key(conn, "test", ["ingest"])[1]


@contextmanager
def served(
    data_dir: Path, *options: str, before: str = "", **variables: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `stable-arena serve` on the embedded database; yield the process and the line it prints.

    `before` is a statement that the process runs first.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STABLE_ARENA_")}
    program = f"import importlib, operator, app.cli.supervisor as supervisor, app.cli.command\n{before}"
    command = (
        [sys.executable, "-c", f"{program}\napp.cli.command.run()"] if before else [sys.executable, "-m", "app.cli"]
    )
    process = subprocess.Popen(
        [*command, "serve", "--port", "0", *options],
        env={**kept, "STABLE_ARENA_DATA_DIR": str(data_dir), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().rstrip("\n")
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.campaign
def test_an_idle_connection_stays_open_for_longer_than_clients_keep_theirs(data_dir: Path) -> None:
    """Else a request may be sent on a connection that is being closed, and has no answer."""
    with served(data_dir, "--no-worker") as (_, address):
        where = urlsplit(address)
        with socket.create_connection((where.hostname, where.port), timeout=PATIENCE) as conn:
            conn.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            answer, last = b"", time.monotonic()
            while piece := conn.recv(65536):
                answer, last = answer + piece, time.monotonic()
            idle = time.monotonic() - last
    assert answer.startswith(b"HTTP/1.1 200")
    expiry = httpx.Limits().keepalive_expiry
    assert expiry is not None
    assert idle > 1.5 * expiry


def events_of(log: str) -> set[str]:
    return {json.loads(line)["event"] for line in log.splitlines()}


def postmasters(data_dir: Path) -> list[int]:
    """Return the process ids of the servers that run in the folder."""
    found = [int(path.read_text().split()[0]) for path in data_dir.rglob("postmaster.pid")]
    return [pid for pid in found if Path(f"/proc/{pid}").exists()]


def vote(number: int) -> dict[str, str]:
    return {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": f"k{number % 7}", "battle_id": str(number)}


class Voters:
    """Threads that post votes, each once, and remember which of them were acknowledged."""

    def __init__(self, url: str, key: str, threads: int) -> None:
        self.acknowledged: list[int] = []
        self.failed = 0
        self._numbers = iter(range(10**9))
        self._next = threading.Lock()
        self._stop = threading.Event()
        self._client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE)
        self._pool = ThreadPoolExecutor(threads)
        self._running = [self._pool.submit(self._post) for _ in range(threads)]

    def _post(self) -> None:
        while not self._stop.is_set():
            with self._next:
                number = next(self._numbers)
            try:
                response = self._client.post("/api/v1/votes", json=vote(number))
            except httpx.TransportError:
                self.failed += 1
                return
            if response.status_code == 201:
                self.acknowledged.append(number)
            else:
                assert response.status_code == 503, response.text

    def stop(self) -> None:
        self._stop.set()
        for one in self._running:
            one.result()
        self._client.close()


def stored(data_dir: Path) -> list[int]:
    with open_database(None, data_dir) as database, database.read() as conn:
        return [int(one) for one in conn.execute(text("SELECT battle_id FROM votes")).scalars()]


@pytest.mark.campaign
def test_it_serves_and_stops_cleanly(data_dir: Path) -> None:
    with served(data_dir, before=PATIENTLY) as (process, url):
        assert url.startswith("http://127.0.0.1:")
        assert httpx.get(f"{url}/readyz", timeout=120).status_code == 200
        assert len(postmasters(data_dir)) == 1
        with httpx.stream("GET", f"{url}/events", timeout=PATIENCE) as events:  # a page that is open in a browser
            lines = events.iter_lines()
            assert next(lines).startswith(":")
            process.send_signal(signal.SIGINT)
            assert [line for line in lines if line.startswith("data")] == [], "the events end with the server"
        output, log = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output, events_of(log)) == (0, "", {"starting"})
    assert postmasters(data_dir) == []


@pytest.mark.parametrize(
    ("workers", "how"),
    [
        pytest.param("1", signal.SIGHUP, marks=pytest.mark.campaign),
        pytest.param("1", signal.SIGINT, marks=pytest.mark.soak),  # as Ctrl-C in test_demo.py
        pytest.param("2", signal.SIGTERM, marks=pytest.mark.campaign),
    ],
)
def test_a_signal_to_all_its_processes_stops_it_cleanly(
    data_dir: Path, tmp_path: Path, workers: str, how: signal.Signals
) -> None:
    with served(data_dir, "--workers", workers, before=PATIENTLY, TMPDIR=str(tmp_path)) as (process, url):
        assert httpx.get(f"{url}/readyz", timeout=120).status_code == 200
        wait_until(lambda: len(children_of(process)["worker"]) == 1)
        os.killpg(process.pid, how)  # as the terminal and the system's service manager do
        _, log = process.communicate(timeout=PATIENCE)
    assert (process.returncode, events_of(log)) == (0, {"starting"})
    assert postmasters(data_dir) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.campaign
def test_stopping_in_mid_vote_loses_none(data_dir: Path, key: str) -> None:
    with served(data_dir, "--no-worker") as (process, url):
        voters = Voters(url, key, threads=16)
        wait_until(lambda: len(voters.acknowledged) >= 200)
        process.terminate()
        assert process.wait(PATIENCE) == 0
        voters.stop()
    on_record = stored(data_dir)
    assert len(on_record) == len(set(on_record))
    assert set(voters.acknowledged) <= set(on_record)
    assert postmasters(data_dir) == []


def _state_and_parent(pid: str) -> tuple[str, int]:
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return "gone", 0
    return state, int(parent)


def kill_everything(process: subprocess.Popen[str], data_dir: Path) -> None:
    """Kill the service and every process of its database at once, and wait until they are gone."""
    (postmaster,) = postmasters(data_dir)
    running = [path.name for path in Path("/proc").glob("[0-9]*")]
    database = [str(postmaster), *(pid for pid in running if _state_and_parent(pid)[1] == postmaster)]
    for pid in (process.pid, *map(int, database)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: all(_state_and_parent(pid)[0] in ("gone", "Z") for pid in database))


@pytest.mark.campaign
@pytest.mark.skipif(sys.platform != "linux", reason="finds the server's processes in /proc")
def test_killed_in_mid_vote_every_acknowledged_vote_is_there_once(data_dir: Path, key: str) -> None:
    acknowledged: list[int] = []
    with served(data_dir, "--no-worker") as (process, url):
        voters = Voters(url, key, threads=16)
        wait_until(lambda: len(voters.acknowledged) >= 300)
        kill_everything(process, data_dir)
        voters.stop()
        acknowledged += voters.acknowledged
    assert voters.failed > 0
    with served(data_dir, "--no-worker") as (process, url):
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=url, headers=headers, timeout=PATIENCE) as client:
            assert client.get("/readyz").status_code == 200
            again = client.post("/api/v1/votes/batch", json={"votes": [vote(number) for number in acknowledged]})
        assert again.json()["counts"]["duplicate"] == len(acknowledged)
        process.terminate()
        assert process.wait(PATIENCE) == 0
    on_record = stored(data_dir)
    assert len(on_record) == len(set(on_record))
    assert set(acknowledged) <= set(on_record)
    assert postmasters(data_dir) == []


@pytest.mark.campaign
def test_an_address_that_is_taken(data_dir: Path) -> None:
    with served(data_dir, "--no-worker") as (_, url):
        port = url.rpartition(":")[2]
        with served(data_dir, "--port", port) as (second, line):
            assert line == ""
            assert second.wait(PATIENCE) == 1
            assert second.stderr is not None
            assert second.stderr.read() == f"error: cannot listen on 127.0.0.1, port {port}: Address already in use\n"
        assert httpx.get(f"{url}/readyz", timeout=120).status_code == 200


@pytest.mark.campaign
def test_the_log_is_json_on_standard_error_and_names_no_one(data_dir: Path, key: str) -> None:
    with served(data_dir, "--no-worker", STABLE_ARENA_SERVER__LOG_LEVEL="debug") as (process, url):
        headers = {"Authorization": f"Bearer {key}", "X-Request-ID": "mine"}
        assert httpx.post(
            f"{url}/api/v1/votes", json=vote(1) | {"annotator": "jane"}, headers=headers, timeout=120
        ).is_success
        process.terminate()
        _, log = process.communicate(timeout=PATIENCE)
    assert "jane" not in log
    assert key.split("_")[2] not in log
    entries = [json.loads(line) for line in log.splitlines()]
    (entry,) = [entry for entry in entries if entry["event"] == "request"]
    assert (entry["method"], entry["path"], entry["status"], entry["request_id"]) == (
        "POST", "/api/v1/votes", 201, "mine",
    )  # fmt: skip


def children_of(process: subprocess.Popen[str]) -> dict[str, list[int]]:
    """Return the process ids of the service's children, by whether they answer requests or are the worker, niced."""
    found: dict[str, list[int]] = {"worker": [], "server": []}
    for child in psutil.Process(process.pid).children():
        with suppress(psutil.NoSuchProcess):  # they come and go while they are looked at
            if any("spawn_main" in word for word in child.cmdline()):
                found["worker" if child.nice() > psutil.Process().nice() else "server"].append(child.pid)
    return found


def ended(pid: int) -> bool:
    return _state_and_parent(str(pid))[0] in ("gone", "Z")


@contextmanager
def without_hangups() -> Iterator[None]:
    """Start processes as `nohup` does."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.campaign
@pytest.mark.skipif(sys.platform != "linux", reason="finds the service's processes in /proc")
def test_several_processes_share_the_socket_and_are_started_again_when_they_die(data_dir: Path, key: str) -> None:
    with without_hangups(), served(data_dir, "--workers", "2") as (process, url):
        assert url.startswith("http://127.0.0.1:")
        wait_until(lambda: len(children_of(process)["worker"]) == 1)
        first = children_of(process)
        assert len(first["server"]) == 2
        voters = Voters(url, key, threads=4)
        wait_until(lambda: len(voters.acknowledged) >= 50)
        process.send_signal(signal.SIGHUP)  # under nohup it stops nothing: what dies after it is started again
        # a nice process dies late: until then it would be taken for the one that follows it
        killed = {first["server"][0], first["worker"][0]}
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: killed.isdisjoint(pid for pids in children_of(process).values() for pid in pids))
        wait_until(lambda: [len(pids) for pids in children_of(process).values()] == [1, 2])
        assert {pid for pids in children_of(process).values() for pid in pids} > {first["server"][1]}
        assert httpx.get(f"{url}/readyz", timeout=120).status_code == 200
        voters.stop()
        process.terminate()
        _, log = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    deaths = [json.loads(line) for line in log.splitlines() if "process_died" in line]
    assert {(each["process"], each["exit_code"]) for each in deaths} == {("server", -9), ("worker", -9)}
    assert postmasters(data_dir) == []
    on_record = stored(data_dir)
    assert len(on_record) == len(set(on_record))
    assert set(voters.acknowledged) <= set(on_record)


@pytest.mark.campaign
@pytest.mark.skipif(sys.platform != "linux", reason="finds the service's processes in /proc")
def test_processes_end_with_a_killed_service(data_dir: Path) -> None:
    with served(data_dir) as (process, _):
        wait_until(lambda: len(children_of(process)["worker"]) == 1)
        pids = [pid for pids in children_of(process).values() for pid in pids]
        assert len(pids) == 2
        process.kill()
        process.wait()
        wait_until(lambda: all(ended(pid) for pid in pids))
    stored(data_dir)  # joins the database that was left behind, and stops it
    assert postmasters(data_dir) == []


@pytest.mark.campaign
@pytest.mark.skipif(sys.platform != "linux", reason="finds the service's processes in /proc")
def test_a_child_that_does_not_stop_in_time_is_killed(data_dir: Path) -> None:
    with served(data_dir, "--no-worker", before="supervisor.GRACE_SECONDS = 0.5") as (process, _):
        (server,) = children_of(process)["server"]
        process.terminate()
        os.kill(server, signal.SIGSTOP)
        _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    (killed,) = [json.loads(line) for line in log.splitlines() if "process_killed" in line]
    assert (killed["process"], killed["pid"]) == ("server", server)
    assert ended(server)


@pytest.mark.campaign
@pytest.mark.parametrize("broken", ["importlib.import_module", "operator.truediv"], ids=["raises", "is no application"])
def test_a_server_that_cannot_start_ends_the_service(data_dir: Path, broken: str) -> None:
    with served(data_dir, "--no-worker", before=f"supervisor.make_application = {broken}") as (process, line):
        assert line == ""
        assert process.wait(PATIENCE) == 1
    assert postmasters(data_dir) == []


@pytest.mark.campaign
def test_a_database_of_pseudonyms_is_not_served_without_their_secret(data_dir: Path) -> None:
    with open_database(None, data_dir) as database, database.begin() as conn:
        conn.execute(
            text("INSERT INTO annotators (key, public_id) VALUES (:key, gen_random_uuid())"), {"key": "p1_" + "a" * 52}
        )
    with served(data_dir, "--no-worker") as (process, line):
        assert line == ""
        assert process.wait(PATIENCE) == 1
        assert process.stderr is not None
        assert "STABLE_ARENA_PSEUDONYM_KEY is not set" in process.stderr.read()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="who lives is looked up in /proc")
def test_what_a_killed_service_left_of_its_metrics_is_tidied_up(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left, mine, other = (
        tmp_path / f"stable-arena-metrics-{name}" for name in (f"{gone.pid}-x", f"{os.getpid()}-x", "x")
    )
    for folder in (left, mine, other):
        folder.mkdir()
        (folder / "counter.db").touch()
    remove_old_metrics(tmp_path)
    assert [folder.exists() for folder in (left, mine, other)] == [False, True, True]
