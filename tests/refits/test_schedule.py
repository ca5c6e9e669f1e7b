from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import func, insert, select, update

from app.annotators.service import decide
from app.database.engine import Database
from app.database.ids import new_id
from app.database.leases import acquire_lease
from app.database.tables import imports, leases, refits, votes
from app.refits.runner import RefitRunner
from app.refits.schedule import due_trigger, seconds_until_work
from app.refits.schemas import Refit
from app.refits.service import find_refit, request_refit

DoRefit = Callable[..., Refit]
ChangePolicy = Callable[..., None]

ENDS = ("started_at", "finished_at")


def add_votes(database: Database, count: int) -> None:
    rows = [{"id": new_id(), "annotator_id": 1, "model_a_id": 1, "model_b_id": 2, "outcome": 0} for _ in range(count)]
    with database.begin() as conn:
        conn.execute(insert(votes), rows)


def is_due(database: Database) -> bool:
    with database.read() as conn:
        return due_trigger(conn) is not None


def waits(database: Database) -> bool:
    with database.read() as conn:
        return seconds_until_work(conn) == 0


def let_the_interval_pass(database: Database) -> None:
    with database.begin() as conn:
        conn.execute(update(refits).values(finished_at=refits.c.finished_at - timedelta(seconds=601)))


def test_the_first_refit_waits_until_somebody_has_votes_enough(database: Database, stored_crowd: None) -> None:
    assert is_due(database)


def test_an_empty_service_has_nothing_to_do(database: Database) -> None:
    assert not is_due(database)
    assert not waits(database)


def test_too_few_votes_are_not_worth_a_refit(
    database: Database, stored_crowd: None, store_policy: ChangePolicy
) -> None:
    store_policy(min_votes=120)
    assert not is_due(database)
    store_policy(min_votes=119)
    assert is_due(database)


def test_nothing_new_nothing_to_do(database: Database, stored_crowd: None, run_refit: DoRefit) -> None:
    run_refit()
    let_the_interval_pass(database)
    assert not is_due(database)
    with database.read() as conn:
        assert seconds_until_work(conn) is None


@pytest.mark.parametrize("news", ["votes", "decision", "policy"])
def test_news_wait_for_the_interval(
    database: Database, stored_crowd: None, run_refit: DoRefit, store_policy: ChangePolicy, news: str
) -> None:
    run_refit()
    if news == "votes":
        add_votes(database, 1)
    elif news == "policy":
        store_policy(min_votes=40)
    else:
        with database.begin() as conn:
            decide(conn, "honest 0", "exclude", reason="a test", decided_by="a test")
    assert not is_due(database)
    with database.read() as conn:
        assert 500 < (seconds_until_work(conn) or 0) <= 600
    let_the_interval_pass(database)
    assert is_due(database)


def test_so_many_votes_do_not_wait(
    database: Database, stored_crowd: None, run_refit: DoRefit, store_policy: ChangePolicy
) -> None:
    store_policy(refit_after_votes=3)
    run_refit()
    add_votes(database, 2)
    assert not is_due(database)
    add_votes(database, 1)
    assert is_due(database)


def test_what_wanted_a_refit_is_on_record(
    database: Database, stored_crowd: None, store_policy: ChangePolicy, runner: RefitRunner
) -> None:
    store_policy(refit_after_votes=3)
    triggers = []
    for new_votes, rested in ((1, True), (4, False), (1, True)):
        add_votes(database, new_votes)
        if rested:
            let_the_interval_pass(database)
        refit_id = runner.run_next(scheduled=True)
        assert refit_id is not None
        with database.read() as conn:
            triggers.append(find_refit(conn, refit_id).trigger)
    assert triggers == ["schedule", "votes", "schedule"]


@pytest.mark.parametrize("state", ["failed", "needs_review"])
def test_a_refit_that_did_not_publish_is_tried_again_after_the_interval(
    database: Database, stored_crowd: None, run_refit: DoRefit, store_policy: ChangePolicy, state: str
) -> None:
    store_policy(refit_after_votes=3)
    run_refit()
    add_votes(database, 5)
    with database.begin() as conn:
        conn.execute(update(refits).values(state=state, finished_at=func.clock_timestamp()))
    assert not is_due(database)
    let_the_interval_pass(database)
    assert is_due(database)


def test_a_request_does_not_wait_for_anything(database: Database, stored_crowd: None, run_refit: DoRefit) -> None:
    run_refit()
    assert not waits(database)
    with database.begin() as conn:
        request_refit(conn, trigger="request", requested_by="a test")
    assert waits(database)


def test_what_a_dead_worker_left_waits_for_a_living_one(
    database: Database, stored_crowd: None, run_refit: DoRefit
) -> None:
    run_refit()
    with database.begin() as conn:
        epoch = acquire_lease(conn, "refit", "a worker that dies", 60)
        conn.execute(update(refits).values(state="fitting", epoch=epoch, finished_at=func.clock_timestamp()))
    assert not waits(database)
    with database.begin() as conn:
        conn.execute(update(leases).values(expires_at=func.clock_timestamp()))
        assert conn.execute(select(func.count()).select_from(refits)).scalar_one() == 1
    assert waits(database)


@pytest.fixture
def add_import(database: Database) -> Callable[..., None]:
    """Put an import on record, by default one that runs, began a minute ago, and has recorded a vote."""

    def add(**values: object) -> None:
        began = func.clock_timestamp() - timedelta(minutes=1)
        row = {"id": new_id(), "state": "running", "started_at": began, "rows_done": 1, **values}
        with database.begin() as conn:
            acquire_lease(conn, "imports", "an importing process", 60)
            conn.execute(insert(imports).values(file_name="votes.csv", sha256=b"", counts={}, requested_by="", **row))
        add_votes(database, 1)

    return add


def test_a_scheduled_refit_waits_for_an_import_and_one_on_demand_does_not(
    database: Database, stored_crowd: None, run_refit: DoRefit, add_import: Callable[..., None]
) -> None:
    add_import()
    assert not is_due(database)  # not the first one either
    assert run_refit().state == "done"
    add_votes(database, 1)
    let_the_interval_pass(database)
    assert not is_due(database)
    with database.begin() as conn:
        conn.execute(update(imports).values(state="done", finished_at=func.clock_timestamp()))
    assert is_due(database)


@pytest.mark.parametrize("over", ["limit", "process", "dry run"])
def test_what_no_scheduled_refit_waits_for(
    database: Database, stored_crowd: None, run_refit: DoRefit, add_import: Callable[..., None], over: str
) -> None:
    run_refit()
    add_import(options={"dry_run": over == "dry run"})
    let_the_interval_pass(database)
    with database.begin() as conn:
        if over == "process":
            conn.execute(update(leases).values(expires_at=func.clock_timestamp()))
        elif over == "limit":
            conn.execute(update(imports).values(started_at=imports.c.started_at - timedelta(minutes=30)))
    assert is_due(database)


def test_the_wait_for_one_import_after_the_other_ends_too(
    database: Database, stored_crowd: None, run_refit: DoRefit, add_import: Callable[..., None]
) -> None:
    run_refit()
    with database.begin() as conn:
        conn.execute(update(refits).values({name: refits.c[name] - timedelta(hours=1) for name in ENDS}))
    long_ago = func.clock_timestamp() - timedelta(minutes=31)
    add_import(state="done", started_at=long_ago, finished_at=func.clock_timestamp())
    add_import()
    assert is_due(database)


def test_the_end_of_an_import_makes_a_refit_due(
    database: Database, stored_crowd: None, run_refit: DoRefit, add_import: Callable[..., None], runner: RefitRunner
) -> None:
    run_refit()
    add_import()
    assert not is_due(database)
    with database.begin() as conn:
        conn.execute(update(imports).values(state="done", finished_at=func.clock_timestamp()))
    refit_id = runner.run_next(scheduled=True)
    assert refit_id is not None
    with database.read() as conn:
        assert find_refit(conn, refit_id).trigger == "import"
    add_votes(database, 1)
    assert not is_due(database)
