import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own, not worth three calls
import pytest

from app.database.engine import Database
from app.leaderboard.schemas import Leaderboard
from app.leaderboard.service import read_leaderboard
from app.refits.service import find_refit, list_refits, request_refit
from tests.fixtures.environment import Configure
from tests.fixtures.waiting import wait_until

StartWorker = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def start_worker(
    on_database: None, vote_file: Path, run_cli: Callable[..., Any], configure: Configure
) -> Iterator[StartWorker]:
    """Start `stable-arena worker` on a database with the vote file in it."""
    configure(WORKER__LEASE_SECONDS=3)  # less is lost where processes wait for processors
    assert run_cli("import", vote_file).exit_code == 0
    started = []

    def start() -> "subprocess.Popen[bytes]":
        started.append(subprocess.Popen([sys.executable, "-m", "app.cli", "worker"]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def states(database: Database) -> list[str]:
    with database.read() as conn:
        return [refit.state for refit in list_refits(conn, limit=10)]


def served(database: Database) -> Leaderboard:
    with database.read() as conn:
        return read_leaderboard(conn)


def scores(board: Leaderboard) -> list[tuple[str, float | None, float | None]]:
    """Return what a refit publishes; how few votes swap neighbours is measured later."""
    return [(row.model, row.score, row.se) for row in board.models]


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.campaign
def test_a_worker_killed_in_mid_fit_does_no_harm(
    database: Database, start_worker: StartWorker, run_cli: Callable[..., Any]
) -> None:
    assert run_cli("refit").exit_code == 0
    board = served(database)

    worker = start_worker()
    with database.begin() as conn:
        cut_short = request_refit(conn, trigger="request", requested_by="a test")
    wait_until(lambda: states(database)[0] == "fitting")  # a new process takes its time to start the child that fits
    pids = [child.pid for child in psutil.Process(worker.pid).children()]
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    assert states(database)[0] == "fitting"
    still = served(database)
    assert (still.snapshot, scores(still)) == (board.snapshot, scores(board))
    wait_until(lambda: not any(is_alive(pid) for pid in pids))

    worker = start_worker()
    with database.begin() as conn:
        following = request_refit(conn, trigger="request", requested_by="a test")
    wait_until(lambda: states(database)[0] == "done")
    with database.read() as conn:
        assert find_refit(conn, following).snapshot_id is not None
        lost = find_refit(conn, cut_short)
    assert (lost.state, lost.detail) == ("failed", "worker lost")
    after = served(database)
    assert after.snapshot.number > board.snapshot.number
    assert scores(after) == scores(board)
    worker.terminate()
    assert worker.wait(120) == 0


@pytest.mark.campaign
@pytest.mark.parametrize(("how", "level", "told"), [(signal.SIGINT, "info", True), (signal.SIGHUP, "error", False)])
def test_a_worker_logs_as_much_as_is_set_and_is_stopped(
    database: Database,
    start_worker: StartWorker,
    configure: Configure,
    capfd: pytest.CaptureFixture[str],
    how: signal.Signals,
    level: str,
    told: bool,
) -> None:
    configure(SERVER__LOG_LEVEL=level)
    worker = start_worker()
    wait_until(lambda: states(database) == ["done"])
    assert worker.poll() is None
    worker.send_signal(how)
    assert worker.wait(120) == 0
    assert ('"refit_done"' in capfd.readouterr().err) is told


@pytest.mark.campaign
def test_a_worker_is_stopped_while_it_starts(configure: Configure) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        configure(DATABASE_URL=f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/d")
        configure(DATABASE__CONNECT_TIMEOUT_SECONDS="60")
        with subprocess.Popen([sys.executable, "-m", "app.cli", "worker"]) as worker:
            silent.settimeout(120)
            with silent.accept()[0]:  # it waits for an answer from the database
                worker.terminate()
                assert worker.wait(120) == 0  # 1 after the sixty seconds


STOPS = 15  # a third of them leave a main thread that does not wake up asleep
WAITING = """
import signal, threading
from app.cli.worker import wait_awake
threading.Thread(target=threading.Event().wait, daemon=True).start()
signal.signal(signal.SIGTERM, lambda *_: print("heard", flush=True))
print("waiting", flush=True)
wait_awake(threading.Event())
"""


@pytest.mark.campaign
def test_a_signal_that_comes_while_the_worker_is_stopped_is_acted_on() -> None:
    with subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "waiting\n"
            for _ in range(STOPS):
                process.send_signal(signal.SIGSTOP)
                os.waitpid(process.pid, os.WUNTRACED)
                process.send_signal(signal.SIGTERM)
                process.send_signal(signal.SIGCONT)
                assert select.select([process.stdout], [], [], 30)[0], "the signal was not acted on"
                assert process.stdout.readline() == "heard\n"
        finally:
            process.kill()
