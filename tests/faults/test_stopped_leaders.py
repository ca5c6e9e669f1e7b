"""Two workers on one database, the one at work stopped past its lease and resumed: one board per refit, in order."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.errors import UnavailableError
from tests.fixtures.waiting import wait_until

TICK_SECONDS = 0.02
STAGE_SECONDS = 3
STAGES = ("publishing", "fitting", "reading")
HOLDER = """
SELECT holder, epoch, state, clock_timestamp() FROM leases JOIN refits USING (epoch)
WHERE name = 'refit' AND expires_at > clock_timestamp() AND finished_at IS NULL
"""
BOARDS = "SELECT count(*) FROM snapshots"
TAKEN_OVER = "SELECT min(started_at) FROM refits WHERE epoch > :epoch"
EPOCH = "SELECT coalesce(max(epoch), 0) FROM leases WHERE name = 'refit'"


class Stopped(NamedTuple):
    """A worker that was stopped while it held the lease, the epoch it held it in and when, by the database's clock."""

    pid: int
    epoch: int
    at: Any


@pytest.fixture
def start_worker(database: Database, start_driver: Callable[..., Any]) -> Callable[[float], Any]:
    def start(lease_seconds: float) -> Any:
        url = database.url.render_as_string(hide_password=False)
        return start_driver("worker_process.py", url, lease_seconds, TICK_SECONDS)

    return start


@contextmanager
def always_asking(ask: Callable[[], object]) -> Iterator[None]:
    """Ask for a refit again and again."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(TICK_SECONDS):
            with suppress(UnavailableError):  # a stopped worker holds what the request waits for
                ask()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def stop_holder(database: Database, stage: str | None) -> Stopped | None:
    """Stop whoever is at this stage of a refit (None: any); None if nobody is, or not any more when it was stopped."""
    with database.read() as conn:
        held = conn.execute(text(HOLDER)).one_or_none()
    if held is None or stage not in (None, held.state):
        return None
    pid = int(held.holder.split(":")[1])
    os.kill(pid, signal.SIGSTOP)
    with database.read() as conn:
        now = conn.execute(text(HOLDER)).one_or_none()
    if now is None or now.epoch != held.epoch:
        os.kill(pid, signal.SIGCONT)
        return None
    return Stopped(pid, now.epoch, now.clock_timestamp)


def measure_takeovers(database: Database, stops: int, lease_seconds: float) -> list[float]:
    seconds, last_board = list[float](), 0
    while len(seconds) < stops:
        stage = STAGES[len(seconds) % len(STAGES)]
        if stage == STAGES[0]:  # boards have to come between, or nothing could be published twice
            wait_until(lambda seen=last_board: count_boards(database) > seen)
            last_board = count_boards(database)
        stopped, patience = None, time.monotonic() + STAGE_SECONDS
        while stopped is None:  # some stages are over before they are seen: then any will do
            stopped = stop_holder(database, stage if time.monotonic() < patience else None)
        try:

            def taken_over(epoch: int = stopped.epoch) -> bool:
                with database.read() as conn:
                    return conn.execute(text(TAKEN_OVER), {"epoch": epoch}).scalar_one() is not None

            wait_until(taken_over)
            with database.read() as conn:
                taken = conn.execute(text(TAKEN_OVER), {"epoch": stopped.epoch}).scalar_one()
            seconds.append((taken - stopped.at).total_seconds())
            assert seconds[-1] <= 2 * lease_seconds, f"takeover {len(seconds)} took {seconds[-1]:.2f} s"
        finally:
            os.kill(stopped.pid, signal.SIGCONT)
    return seconds


def count_boards(database: Database) -> int:
    with database.read() as conn:
        return int(conn.execute(text(BOARDS)).scalar_one())


def check_record(database: Database) -> tuple[int, int]:
    """Every refit that is done has one board, and boards came in the order of the leases; return boards and epochs."""
    with database.read() as conn:
        boards = conn.execute(
            text(
                "SELECT s.number, s.published_at, r.epoch, r.state, r.id FROM snapshots AS s"
                " LEFT JOIN refits AS r ON r.id = s.refit_id ORDER BY s.number"
            )
        ).all()
        done = conn.execute(text("SELECT count(*) FROM refits WHERE state = 'done'")).scalar_one()
        running = conn.execute(
            text("SELECT count(*) FROM refits WHERE state IN ('reading', 'fitting', 'publishing')")
        ).scalar_one()
        overtaken = conn.execute(
            text(
                "SELECT count(*) FROM snapshots AS s JOIN refits AS r ON r.id = s.refit_id"
                " JOIN refits AS later ON later.epoch > r.epoch AND later.started_at < s.published_at"
            )
        ).scalar_one()
        newest = conn.execute(text(EPOCH)).scalar_one()
    epochs = [board.epoch for board in boards]
    assert {board.state for board in boards} == {"done"}
    assert len({board.id for board in boards}) == len(boards) == done, "a refit published twice, or its board is gone"
    assert epochs == sorted(set(epochs)), "a superseded holder published"
    assert [board.published_at for board in boards] == sorted(board.published_at for board in boards)
    assert overtaken == 0, "a board came after another had taken over"
    assert running == 0
    return len(boards), newest


def end(workers: list[Any]) -> list[int]:
    """Let the workers finish, and return how often each ticked."""
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    ticks = []
    for worker in workers:
        try:
            ticks.append(int(worker.communicate(timeout=120)[0]))
        except subprocess.TimeoutExpired:
            worker.send_signal(signal.SIGUSR1)
            pytest.fail("a worker that was told to stop goes on; where it is stands in its error output")
    return ticks


def wait_for_both(database: Database) -> None:
    """Wait until both workers have published: before that one may still be starting the process that fits."""

    def both() -> bool:
        with database.read() as conn:
            for row in conn.execute(text("SELECT epoch, holder FROM leases WHERE name = 'refit'")):
                holders[row.epoch] = row.holder
            done = conn.execute(text("SELECT epoch FROM refits WHERE state = 'done'")).scalars().all()
        return len({holders[epoch] for epoch in done if epoch in holders}) == 2

    holders: dict[int, str] = {}
    wait_until(both, 300)


def run_campaign(
    database: Database,
    ask: Callable[[], object],
    start_worker: Callable[[float], Any],
    stops: int,
    lease_seconds: float,
) -> int:
    """Stop leaders until that is enough, check what they left, and return how often they ticked."""
    workers = [start_worker(lease_seconds) for _ in range(2)]
    with always_asking(ask):
        wait_for_both(database)
        seconds = measure_takeovers(database, stops, lease_seconds)
    ticks = end(workers)
    boards, epochs = check_record(database)
    assert boards >= len(seconds) // len(STAGES)
    print(
        f"{len(seconds)} stops, {epochs} leases taken, {sum(ticks)} ticks, {boards} boards; takeover of a lease of"
        f" {lease_seconds:g} s: median {sorted(seconds)[len(seconds) // 2]:.2f} s, longest {max(seconds):.2f} s"
    )
    return sum(ticks)


@pytest.mark.campaign
def test_a_stopped_leader_is_replaced_and_publishes_nothing_late(
    database: Database, crowd: None, ask_for_refit: Any, start_worker: Any
) -> None:
    run_campaign(database, ask_for_refit, start_worker, stops=2, lease_seconds=3)


@pytest.mark.soak
def test_leaders_stopped_again_and_again_over_a_thousand_ticks(
    database: Database, crowd: None, ask_for_refit: Any, start_worker: Any
) -> None:
    ticks = run_campaign(database, ask_for_refit, start_worker, stops=36, lease_seconds=3)
    assert ticks >= 1000
