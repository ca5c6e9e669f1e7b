"""What the worker finds of a leaderboard after its publication: how few changes of the votes change its order."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.database.leases import LeasedJob
from app.rating.verdict.fragility import Fewest, Fragility, find_fragility
from app.refits import fragility
from app.refits.fit.process import FitProcess, FitProcessLostError
from app.refits.fragility import FRAGILITY_LEASE, fragility_rows, measure_newest
from app.refits.load import load_fit_input
from app.refits.schemas import Refit
from app.snapshots.service import find_snapshot
from tests.fixtures.fit_inputs import fit_main

DoRefit = Callable[..., Refit]
Ask = Callable[..., Any]


@pytest.fixture
def measure(database: Database, fit_process: FitProcess) -> Callable[[], bool]:
    return lambda: measure_newest(database, fit_process, lease_seconds=30)


def stored(database: Database) -> tuple[Any, Any]:
    with database.read() as conn:
        diagnostics = find_snapshot(conn).diagnostics
    return diagnostics["fragility"], diagnostics["fragility_of_best"]


def test_it_follows_the_publication(
    database: Database,
    stored_crowd: None,
    run_refit: DoRefit,
    store_policy: Callable[..., None],
    measure: Callable[[], bool],
) -> None:
    assert not measure(), "nothing is published"
    store_policy(on_low_ability="exclude", max_excluded_share=1.0)
    run_refit()
    assert stored(database) == (None, None)
    assert measure()
    with database.read() as conn:
        fit_input = load_fit_input(conn)
    fitted = fit_main(fit_input)
    assert fitted.votes_used == 12 * 120, "two annotators are excluded"
    names = [f"model {number}" for number in range(6)]
    pairs, best = fragility_rows(find_fragility(fitted), names)
    found, found_best = stored(database)
    assert [{**pair, "gap": pytest.approx(pair["gap"])} for pair in pairs] == found
    assert best == found_best
    assert [row["k"] for row in best] == [1, 2, 3, 4, 5]
    assert all(pair["votes"] is None or pair["votes"] >= pair["flipped_votes"] >= 1 for pair in found)
    assert not measure(), "once is enough"


def test_readers_see_it_come(ask: Ask, crowd: list[str], refit: Ask, measure: Callable[[], bool]) -> None:
    refit()
    before = ask("GET", "/leaderboard")
    second = before.json()["models"][1]
    assert second["tied"] is None
    assert ask("GET", f"/models/{second['model']}").json()["neighbours_computed"] is False
    assert measure()
    after = ask("GET", "/leaderboard", headers={"If-None-Match": before.headers["etag"]})
    assert after.status_code == 200
    assert after.json()["models"][1]["tied"] is False
    shown = ask("GET", f"/models/{second['model']}").json()
    assert shown["neighbours_computed"] is True
    assert shown["above"]["added_votes"] >= 1


@pytest.mark.usefixtures("fits_anew")
def test_what_is_too_much_work_is_left_out_once(
    database: Database,
    stored_crowd: None,
    run_refit: DoRefit,
    measure: Callable[[], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fragility, "MOST_LOOKS", 0)
    run_refit()
    assert measure()
    assert stored(database) == ([], [])
    assert not measure()


class LostFitProcess(FitProcess):
    def run(self, *_: object, **__: object) -> Any:
        raise FitProcessLostError("it was killed")


def test_a_lost_process_is_not_tried_again_unless_the_worker_stopped(
    database: Database, stored_crowd: None, run_refit: DoRefit
) -> None:
    run_refit()
    stopped = LostFitProcess()
    stopped.stop()
    assert not measure_newest(database, stopped, lease_seconds=30)
    assert stored(database) == (None, None)
    assert measure_newest(database, LostFitProcess(), lease_seconds=30)
    assert stored(database) == ([], [])


def test_one_worker_at_a_time(
    database: Database, stored_crowd: None, run_refit: DoRefit, measure: Callable[[], bool]
) -> None:
    run_refit()
    other = LeasedJob(database, FRAGILITY_LEASE, 30.0)
    assert other.claim(lambda _: True)
    with other:
        assert not measure()
    assert measure()


def test_a_worker_that_lost_its_lease_leaves_the_measurement_to_the_next(
    database: Database, stored_crowd: None, run_refit: DoRefit, measure: Callable[[], bool]
) -> None:
    class Frozen(FitProcess):
        def run(self, *_: object, **__: object) -> Any:
            with database.begin() as conn:
                conn.execute(text("UPDATE leases SET expires_at = clock_timestamp()"))
            raise FitProcessLostError("it was killed")

    run_refit()
    assert not measure_newest(database, Frozen(), lease_seconds=30)
    assert stored(database) == (None, None)
    assert measure()
    assert stored(database) != ([], [])


@pytest.mark.parametrize(("votes", "tied"), [(None, False), (1, True), (5, True), (6, False)])
def test_a_handful_of_votes_is_five(votes: int | None, tied: bool) -> None:
    one, none = np.array([0]), np.array([], dtype=int)
    swap = Fewest(np.array([-1 if votes is None else votes]), one + 2, one - 1, one + 1, one + 3)
    found = Fragility(one, one, one.astype(float), swap, Fewest(none, none, none, none, none))
    assert found.tied.tolist() == [tied]
    pairs, best = fragility_rows(found, ["a"])
    assert best == []
    assert pairs == [
        {
            "above": "a",
            "below": "a",
            "gap": 0.0,
            "votes": votes,
            "flipped_votes": 2,
            "added_votes": None,
            "annotators": 1,
            "prompts": 3,
            "tied": tied,
        }
    ]
