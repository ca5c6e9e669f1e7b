import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import pytest
from sqlalchemy import delete, func, select, text, update
from structlog.testing import capture_logs

from app.database.engine import Database
from app.database.leases import acquire_lease, lease_is_free, renew_lease
from app.database.tables import leases, refits, snapshot_annotators, snapshot_models, snapshots, votes
from app.errors import UnavailableError
from app.rating.errors import NoCommonRankingError
from app.refits.fit import fit as fit_room
from app.refits.fit.fit import fit_snapshot
from app.refits.fit.interface import FitOutput
from app.refits.fit.process import FitProcess, FitProcessLostError
from app.refits.load import load_fit_input
from app.refits.runner import RefitRunner
from app.refits.schemas import Refit
from app.refits.service import find_refit, list_refits, request_refit
from app.snapshots.service import find_snapshot
from tests.fixtures.refits import Around

DoRefit = Callable[..., Refit]
T = TypeVar("T")


def count_snapshots(database: Database) -> int:
    with database.read() as conn:
        return conn.execute(select(func.count()).select_from(snapshots)).scalar_one()


@pytest.mark.comparisons
def test_a_refit_publishes_everything_at_once(database: Database, stored_crowd: None, run_refit: DoRefit) -> None:
    done = run_refit()
    assert (done.state, done.detail, done.snapshot_number) == ("done", None, 1)
    assert done.seconds.keys() - {"compile"} == {
        *("read", "aggregate", "fit", "intervals", "evidence", "other_boards", "pair_weights"),
        *("confidence", "publish"),
    }
    with database.read() as conn:
        snapshot = find_snapshot(conn)
        boards = select(snapshot_models.c.method, func.count()).group_by(snapshot_models.c.method)
        assert dict(conn.execute(boards).all()) == {"am-elo": 6, "m-elo": 6, "m-elo-all": 6, "elo": 6}
        assert conn.execute(select(func.count()).select_from(snapshot_annotators)).scalar_one() == 14
        assert lease_is_free(conn, "refit")
    assert (snapshot.id, snapshot.refit_id) == (done.snapshot_id, done.id)
    assert (snapshot.votes_read, snapshot.votes_used, snapshot.policy_version) == (1680, 1680, 1)


def test_the_same_votes_give_the_same_snapshot(database: Database, stored_crowd: None, run_refit: DoRefit) -> None:
    first, second = run_refit(), run_refit()
    c = snapshot_models.c
    with database.read() as conn:
        assert find_snapshot(conn, "1").votes_hash == find_snapshot(conn, "2").votes_hash
        boards = [
            conn.execute(
                select(c.method, c.model_id, c.score, c.se, c.rank)
                .where(c.snapshot_id == done.snapshot_id)
                .order_by(c.method, c.model_id)
            ).all()
            for done in (first, second)
        ]
    assert boards[0] == boards[1]


def test_nothing_to_run_takes_no_lease(database: Database, runner: RefitRunner) -> None:
    assert runner.run_next(scheduled=False) is None
    with database.read() as conn:
        assert lease_is_free(conn, "refit")


def test_no_votes_past_the_minimum_is_one_line(run_refit: DoRefit) -> None:
    ended = run_refit()
    assert ended.state == "failed"
    assert ended.detail is not None
    assert "\n" not in ended.detail
    assert "Traceback" not in ended.detail


def test_a_publication_without_the_lease_writes_nothing(
    database: Database, stored_crowd: None, run_refit: DoRefit, around_fits: Around
) -> None:
    def lose_the_lease_meanwhile(fit: Callable[[], FitOutput]) -> FitOutput:
        with database.begin() as conn:
            conn.execute(update(leases).values(expires_at=func.clock_timestamp()))
            assert acquire_lease(conn, "refit", "another worker", 60) == 2
        return fit()

    around_fits(lose_the_lease_meanwhile)
    ended = run_refit()
    assert ended.state == "superseded"
    assert count_snapshots(database) == 0
    with database.begin() as conn:
        assert not lease_is_free(conn, "refit"), "the loser released the winner's lease"
        assert renew_lease(conn, "refit", 2, 60)


def test_what_a_lost_worker_left_is_marked_by_the_next(
    database: Database, stored_crowd: None, runner: RefitRunner
) -> None:
    with database.begin() as conn:
        lost = request_refit(conn, trigger="request", requested_by="a test")
        acquire_lease(conn, "refit", "a worker that dies", 60)
        conn.execute(update(refits).values(state="fitting", epoch=1))
        conn.execute(update(leases).values(expires_at=func.clock_timestamp()))
        following = request_refit(conn, trigger="request", requested_by="a test")
    assert following != lost
    assert runner.run_next(scheduled=False) == following
    with database.read() as conn:
        assert (find_refit(conn, lost).state, find_refit(conn, lost).detail) == ("failed", "worker lost")
        assert find_refit(conn, following).state == "done"


def test_a_lost_worker_that_wakes_does_not_end_its_refit_again(
    database: Database, stored_crowd: None, runner: RefitRunner, run_refit: DoRefit, around_fits: Around
) -> None:
    def freeze(_: Callable[[], FitOutput]) -> FitOutput:
        with database.begin() as conn:
            conn.execute(update(leases).values(expires_at=func.clock_timestamp()))
        assert RefitRunner(database, lease_seconds=30).run_next(scheduled=False) is None
        raise NoCommonRankingError("a reason to ask an admin")

    around_fits(freeze)
    ended = run_refit()
    assert (ended.state, ended.detail) == ("failed", "worker lost")


def test_runners_that_race_publish_each_request_once(
    database: Database, stored_crowd: None, fit_process: FitProcess
) -> None:
    racers = [RefitRunner(database, lease_seconds=30, process=fit_process) for _ in range(3)]
    for _ in range(5):
        with database.begin() as conn:
            wanted = request_refit(conn, trigger="request", requested_by="a test")
        start = threading.Barrier(len(racers))

        def race(runner: RefitRunner, start: threading.Barrier = start) -> list[object]:
            start.wait()
            return [runner.run_next(scheduled=True) for _ in range(4)]

        with ThreadPoolExecutor(len(racers)) as threads:
            ran = [refit_id for result in threads.map(race, racers) for refit_id in result if refit_id is not None]
        assert ran == [wanted]
    assert count_snapshots(database) == 5
    with database.read() as conn:
        assert {one.state for one in list_refits(conn, limit=10)} == {"done"}


def test_a_waiting_refit_serves_everyone_who_asks(database: Database) -> None:
    with database.begin() as conn:
        first = request_refit(conn, trigger="request", requested_by="one")
        second = request_refit(conn, trigger="request", requested_by="two", accept_exclusions=True)
        third = request_refit(conn, trigger="request", requested_by="three")
        assert first == second == third
        assert find_refit(conn, first).accept_exclusions


def test_a_large_exclusion_waits_for_an_admin(
    database: Database, stored_crowd: None, run_refit: DoRefit, store_policy: Callable[..., None]
) -> None:
    store_policy(on_low_ability="exclude")
    ended = run_refit()
    assert (ended.state, count_snapshots(database)) == ("needs_review", 0)
    assert ended.detail is not None
    assert "14.3% of the votes (240 of 1,680)" in ended.detail
    assert ended.detail.endswith("publish it by: stable-arena refit --accept-exclusions --reason TEXT")
    accepted = run_refit(accept_exclusions=True)
    assert accepted.state == "done"
    with database.read() as conn:
        assert find_snapshot(conn).votes_used == 12 * 120


def test_two_camps_wait_for_an_admin(database: Database, stored_crowd: None, run_refit: DoRefit) -> None:
    """6 of 14 vote against the rest: which side is right, votes do not tell."""
    with database.begin() as conn:
        conn.execute(text("ALTER TABLE votes DISABLE TRIGGER USER"))
        turned = update(votes).where(votes.c.annotator_id <= 4, votes.c.outcome < 2)
        conn.execute(turned.values(outcome=1 - votes.c.outcome))
        conn.execute(text("ALTER TABLE votes ENABLE TRIGGER USER"))
    ended = run_refit()
    assert (ended.state, count_snapshots(database)) == ("needs_review", 0)
    assert ended.detail is not None
    assert ended.detail.startswith("6 of 14 annotators vote against the ranking")
    assert run_refit(accept_exclusions=True).state == "done"


@pytest.mark.parametrize(
    ("error", "state", "detail"),
    [
        (NoCommonRankingError("the crowd has no common ranking"), "needs_review", "the crowd has no common ranking"),
        (ZeroDivisionError("secret words"), "failed", "unexpected ZeroDivisionError"),
    ],
)
@pytest.mark.usefixtures("stored_crowd")
def test_how_a_fit_fails_is_on_record(
    run_refit: DoRefit, around_fits: Around, error: Exception, state: str, detail: str
) -> None:
    def fail(_fit: object) -> FitOutput:
        raise error

    around_fits(fail)
    ended = run_refit()
    assert (ended.state, ended.detail) == (state, detail)


class DatabaseLostProcess(FitProcess):
    def run(self, *_: object, **__: object) -> Any:
        raise UnavailableError("the server closed the connection")


def test_a_database_lost_in_mid_refit_is_the_callers_to_know(
    database: Database, stored_crowd: None, runner: RefitRunner
) -> None:
    with database.begin() as conn:
        request_refit(conn, trigger="request", requested_by="a test")
    with pytest.raises(UnavailableError):
        RefitRunner(database, lease_seconds=30, process=DatabaseLostProcess()).run_next(scheduled=False)
    with database.begin() as conn:
        [refit] = list_refits(conn, limit=1)
        assert (refit.state, refit.detail) == ("failed", "the server closed the connection")
        request_refit(conn, trigger="request", requested_by="a test")
    assert runner.run_next(scheduled=False) is not None
    with database.read() as conn:
        assert [one.state for one in list_refits(conn, limit=2)] == ["done", "failed"]


class KilledFitProcess(FitProcess):
    """Its child is killed as soon as it has its first work."""

    killed = False

    def submit(self, work: Callable[[], T]) -> Future[T]:
        future = super().submit(work)
        if not self.killed and self.child_pid is not None:
            os.kill(self.child_pid, signal.SIGKILL)
            self.killed = True
        return future


@pytest.mark.campaign
@pytest.mark.own_child
def test_a_killed_fit_fails_its_refit_and_the_next_one_works(database: Database, stored_crowd: None) -> None:
    process = KilledFitProcess()
    runner = RefitRunner(database, lease_seconds=30, process=process)
    with database.begin() as conn:
        first = request_refit(conn, trigger="request", requested_by="a test")
    assert runner.run_next(scheduled=False) == first
    assert process.killed
    with database.begin() as conn:
        assert (find_refit(conn, first).state, find_refit(conn, first).detail) == (
            "failed",
            "the fit's process was killed",
        )
        second = request_refit(conn, trigger="request", requested_by="a test")
    assert runner.run_next(scheduled=False) == second
    with database.begin() as conn:
        assert find_refit(conn, second).state == "done"
        third = request_refit(conn, trigger="request", requested_by="a test")
    runner.stop()
    assert runner.run_next(scheduled=False) == third
    with database.read() as conn:
        assert (find_refit(conn, third).state, find_refit(conn, third).detail) == ("failed", "the worker was stopped")


@pytest.mark.own_child
def test_a_stopped_process_starts_no_other() -> None:
    process = FitProcess()
    process.stop()
    with pytest.raises(FitProcessLostError):
        process.run(dict)


def test_the_lease_is_renewed_while_a_fit_runs(
    database: Database, stored_crowd: None, fit_process: FitProcess, around_fits: Around
) -> None:
    runner = RefitRunner(database, lease_seconds=2, process=fit_process)
    expiry = select(leases.c.expires_at)

    def fit_for_longer_than_the_lease(fit: Callable[[], FitOutput]) -> FitOutput:
        with database.read() as conn:
            first = conn.execute(expiry).scalar_one()
        past_first = select(func.clock_timestamp() > first)
        while True:
            with database.read() as conn:
                if conn.execute(past_first).scalar_one():
                    return fit()

    with database.begin() as conn:
        wanted = request_refit(conn, trigger="request", requested_by="a test")
    around_fits(fit_for_longer_than_the_lease)
    assert runner.run_next(scheduled=False) == wanted
    with database.read() as conn:
        assert find_refit(conn, wanted).state == "done"


def test_the_hash_names_the_votes_whatever_their_order(
    database: Database, stored_crowd: None, run_refit: DoRefit
) -> None:
    run_refit()
    with database.begin() as conn:
        rows = conn.execute(select(votes)).mappings().all()
        conn.execute(delete(votes))
        swapped = [
            {k: v for k, v in row.items() if k != "recorded_in"}
            | {"model_a_id": row["model_b_id"], "model_b_id": row["model_a_id"]}
            | {"outcome": {0: 1, 1: 0}.get(row["outcome"], row["outcome"])}
            for row in reversed(rows)
        ]
        conn.execute(votes.insert(), swapped)
    run_refit()
    with database.read() as conn:
        assert find_snapshot(conn, "1").votes_hash == find_snapshot(conn, "2").votes_hash
    with database.begin() as conn:
        conn.execute(update(votes).where(votes.c.id == rows[0]["id"]).values(outcome=3))
    run_refit()
    with database.read() as conn:
        assert find_snapshot(conn, "3").votes_hash != find_snapshot(conn, "2").votes_hash


@pytest.mark.own_child
def test_fitting_here_and_in_the_child_is_the_same(
    database: Database, stored_crowd: None, fit_process: FitProcess
) -> None:
    with database.read() as conn:
        task = load_fit_input(conn)
    here, there = fit_snapshot(task), fit_process.run(partial(fit_snapshot, task))
    assert here.votes_hash == there.votes_hash
    assert here.models.score.tolist() == there.models.score.tolist()


def test_compiling_kernels_is_timed_and_logged(
    stored_crowd: None, fits_anew: None, run_refit: DoRefit, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def forty_seconds(callback: Callable[[float], None]) -> Iterator[None]:
        yield
        callback(40.0)

    monkeypatch.setattr(fit_room, "timing_compilation", forty_seconds)
    with capture_logs() as logs:
        assert run_refit().seconds["compile"] == 40
    assert [entry["seconds"] for entry in logs if entry["event"] == "kernels_compiled"] == [40]
