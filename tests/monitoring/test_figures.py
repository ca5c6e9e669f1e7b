"""The service's figures: read once for many scrapes, which never wait for long."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection, event, text

from app.database.engine import Database
from app.monitoring.cache import FiguresCache
from app.monitoring.checks import Check, check_service
from app.monitoring.service import ServiceFigures, read_figures
from app.refits.schemas import Refit
from app.refits.service import cancel_refit, request_refit


@pytest.fixture
def count_reads(database: Database) -> Iterator[Callable[[], int]]:
    """Count the transactions."""
    began: list[Connection] = []

    def note(conn: Connection) -> None:
        began.append(conn)

    event.listen(database.engine, "begin", note)
    yield lambda: len(began)
    event.remove(database.engine, "begin", note)


def test_scrapes_at_the_same_time_share_one_look(database: Database, count_reads: Callable[[], int]) -> None:
    async def ask() -> list[ServiceFigures | None]:
        reader = FiguresCache(database, keep_seconds=60)
        answers = [*await asyncio.gather(*[reader.read() for _ in range(10)]), await reader.read()]
        reader.close()
        return answers

    answers = asyncio.run(ask())
    assert answers[0] is not None
    assert all(answer is answers[0] for answer in answers)
    assert count_reads() == 1


def test_a_scrape_does_not_wait_for_a_database_that_does_not_answer(database: Database) -> None:
    async def ask() -> tuple[ServiceFigures | None, ServiceFigures | None]:
        reader = FiguresCache(database, keep_seconds=0, patience_seconds=0.2)
        with database.begin() as conn:
            conn.execute(text("LOCK TABLE snapshots IN ACCESS EXCLUSIVE MODE"))
            during = await reader.read()
        patient = FiguresCache(database, patience_seconds=20)
        after = await patient.read()
        reader.close()
        patient.close()
        return during, after

    during, after = asyncio.run(ask())
    assert during is None
    assert after is not None


@pytest.mark.own_database
def test_a_schema_of_another_version_is_no_failure_of_the_scrape(database: Database) -> None:
    async def ask() -> ServiceFigures | None:
        reader = FiguresCache(database, patience_seconds=20)
        try:
            return await reader.read()
        finally:
            reader.close()

    with database.begin() as conn:
        conn.execute(text("ALTER TABLE imports RENAME COLUMN counts TO figures"))
    assert asyncio.run(ask()) is None


def test_ended_refits_are_summed_again_when_another_ends(
    database: Database, stored_crowd: None, run_refit: Callable[..., Refit]
) -> None:
    cache = FiguresCache(database, keep_seconds=0, patience_seconds=20)

    def figures() -> ServiceFigures:
        found = asyncio.run(cache.read())
        assert found is not None
        return found

    assert figures().refits == {}
    run_refit()
    first = figures()
    assert first.refits["done"][0] == first.stages["publish"][0] == 1
    with database.begin() as conn:
        waiting = request_refit(conn, trigger="request", requested_by="a test")
    assert figures().refits_waiting == 1
    assert figures().refits is first.refits
    with database.begin() as conn:
        cancel_refit(conn, waiting)
    assert figures().refits["cancelled"][0] == 1
    assert figures().last_refit is not None
    assert figures().last_refit[0] == "cancelled"
    cache.close()


def test_kernels_that_refits_had_to_compile_are_pointed_out(
    database: Database, stored_crowd: None, run_refit: Callable[..., Refit]
) -> None:
    def kernels() -> Check:
        with database.read() as conn:
            return {check.name: check for check in check_service(read_figures(conn))}["Kernels"]

    for _ in range(2):
        run_refit()
    with database.begin() as conn:
        conn.execute(text("UPDATE refits SET seconds = seconds - 'compile'"))
    assert kernels().tone == "good"
    with database.begin() as conn:
        conn.execute(text("UPDATE refits SET seconds = seconds || '{\"compile\": 40.0}'"))
    assert (kernels().tone, kernels().words.split(",")[0]) == ("warn", "2 refits of the last 20 compiled kernels")
