"""A refit killed at any moment: the board stays the last complete one, and the next refit needs no help."""

import json
import signal
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.leaderboard.service import read_leaderboard
from app.refits.reproduce import reproduce
from app.refits.runner import RefitRunner
from app.refits.service import find_refit
from app.snapshots.service import find_snapshot

TABLES = ("snapshot_models", "snapshot_annotators", "snapshot_matchups", "snapshot_pair_weights", "snapshot_confidence")
SUBMITTED = "after submit"
DONE = "after UPDATE refits SET state=%(state)s::VARCHAR, finished_at=clock_timestamp(), seconds"  # published

Point = tuple[int, str]
"""Which event, counted from the first whose name begins so."""

RunAndKill = Callable[..., dict[str, Any]]


@pytest.fixture
def run_and_kill(database: Database, start_driver: Callable[..., Any]) -> RunAndKill:
    """Run the next refit in a process that dies at an event (0: never); return how it ended."""
    driver = start_driver("refit_process.py")
    url = database.url.render_as_string(hide_password=False)

    def run(last: int, first: str = "") -> dict[str, Any]:
        driver.stdin.write(f"{url} {last} {first}\n")
        driver.stdin.flush()
        return json.loads(driver.stdout.readline())

    return run


def everything_published(database: Database) -> dict[str, list[Any]]:
    with database.read() as conn:
        rows = {
            name: conn.execute(text(f"SELECT to_jsonb({name}) FROM {name} ORDER BY 1")).scalars().all()
            for name in ("snapshots", *TABLES)
        }
    return {name: list(found) for name, found in rows.items()}


def served(database: Database) -> Any:
    with database.read() as conn:
        board = read_leaderboard(conn)
    return board.snapshot.id, board.models


def killed_at(point: Point, database: Database, ask: Any, run_and_kill: RunAndKill, runner: RefitRunner) -> bool:
    """Kill a refit at an event, and check what it leaves; return False where it ended before that event."""
    before, board = everything_published(database), served(database)
    wanted = ask()
    ended = run_and_kill(*point)
    if ended["exit"] == 0:
        return False
    where = f"killed at event {point}: {ended['events'][-1]}"
    assert ended["exit"] == -signal.SIGKILL, where
    check_complete(database, before, board, wanted, where)
    run_next_unaided(database, ask, runner, where)
    return True


def check_complete(database: Database, before: dict[str, list[Any]], board: Any, wanted: UUID, where: str) -> None:
    """What is published is what was, or that and the whole board of the refit that was killed after its commit."""
    after = everything_published(database)
    with database.read() as conn:
        refit = find_refit(conn, wanted)
    if refit.state != "done":
        assert after == before, where
        assert served(database) == board, where
        return
    own = [row["id"] for row in after["snapshots"] if row not in before["snapshots"]]
    assert own == [str(refit.snapshot_id)], where
    for name in TABLES:
        old = [row for row in after[name] if row["snapshot_id"] not in own]
        assert old == before[name], where
        new = [row for row in after[name] if row["snapshot_id"] in own]
        assert len(new) * (len(before["snapshots"])) == len(old), f"{name} is not complete: {where}"
    assert served(database)[0] == refit.snapshot_id, where


def run_next_unaided(database: Database, ask: Any, runner: RefitRunner, where: str) -> None:
    with database.begin() as conn:
        conn.execute(text("UPDATE leases SET expires_at = clock_timestamp()"))  # time passes
    ran = runner.run_next(scheduled=False) or (ask(), runner.run_next(scheduled=False))[1]
    assert ran is not None, where
    with database.read() as conn:
        done = find_refit(conn, ran)
        left = conn.execute(text("SELECT count(*) FROM refits WHERE finished_at IS NULL")).scalar_one()
        newest = conn.execute(text("SELECT max(number) FROM snapshots")).scalar_one()
    assert (done.state, done.snapshot_number) == ("done", newest), where
    assert left == 0, f"a refit is left without an end: {where}"


@pytest.fixture
def events(database: Database, crowd: None, ask_for_refit: Any, run_and_kill: RunAndKill) -> list[str]:
    """The events of a refit that is not killed; it has published the first board."""
    ask_for_refit()
    whole = run_and_kill(0)
    assert whole["exit"] == 0
    assert len(whole["events"]) >= 50
    assert len(everything_published(database)["snapshots"]) == 1
    return whole["events"]


@pytest.mark.campaign
@pytest.mark.comparisons
def test_killed_here_and_there(
    database: Database, events: list[str], ask_for_refit: Any, run_and_kill: RunAndKill, runner: RefitRunner
) -> None:
    assert [sum(name.startswith(one) for name in events) for one in (SUBMITTED, DONE)] == [1, 1]
    points = [(3, ""), (1, "before do_commit"), (1, SUBMITTED), (1, DONE), (2, DONE), (3, DONE)]
    for point in points:
        assert killed_at(point, database, ask_for_refit, run_and_kill, runner), point


@pytest.mark.soak
@pytest.mark.comparisons
def test_killed_at_every_event(
    database: Database, events: list[str], ask_for_refit: Any, run_and_kill: RunAndKill, runner: RefitRunner
) -> None:
    kills = 0
    while killed_at((kills + 1, ""), database, ask_for_refit, run_and_kill, runner):
        kills += 1
    print(f"{kills} kills")
    assert kills >= len(
        set(events)
    )  # not one for each: whether to cancel is asked every second, more often if it is slow


@pytest.mark.campaign
def test_killed_while_it_keeps_the_votes(
    database: Database, events: list[str], ask_for_refit: Any, run_and_kill: RunAndKill, vote: Any
) -> None:
    """The next refit with the same files reads every vote once, wherever the one before was killed."""
    files = [name for name in events if name.split()[1] in ("open", "touch", "unlink", "replace")]
    assert len(files) > 20
    points = [(1, "after touch"), (6, "after touch"), (3, "before open"), (1, "before replace"), (1, "after replace")]
    for point in points:
        vote()
        ask_for_refit()
        killed = run_and_kill(*point)
        assert killed["exit"] == -signal.SIGKILL, point
        with database.begin() as conn:
            conn.execute(text("UPDATE leases SET expires_at = clock_timestamp()"))
            on_record = conn.execute(text("SELECT count(*) FROM votes")).scalar_one()
        ask_for_refit()
        assert run_and_kill(0)["exit"] == 0
        with database.read() as conn:
            newest = find_snapshot(conn)
        assert newest.votes_read == on_record, point
        assert reproduce(database, str(newest.id)).same_votes, point
