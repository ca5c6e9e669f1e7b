"""The database restarted, its backends cut, its connections gone, its transactions in each other's way: under traffic.

Every vote that was answered 2xx is on record once; reads are served or refused with 503 and Retry-After; and once the
database is back, so is everything else.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from app.database import engine as store_database
from app.database.embedded.folder import ServerFolder
from app.database.embedded.postmaster import find_postmaster
from app.database.embedded.server import EmbeddedServer
from app.database.schema import upgrade
from app.settings import DatabaseSettings, Settings, WorkerSettings
from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.campaign

OTHERS_CUT = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()"
    " AND backend_type = 'client backend' AND application_name = 'stable-arena'"
)


@pytest.fixture(scope="module")
def server(cluster_folder: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(cluster_folder / "data")
    upgrade(server.start())
    yield server
    server.release()


@pytest.fixture(scope="module")
def service(server: EmbeddedServer, cluster_folder: Path, start_service: Callable[..., Any]) -> Iterator[Any]:
    settings = Settings(
        database_url=SecretStr(server.url),
        data_dir=cluster_folder,
        database=DatabaseSettings(pool_size=4, connect_timeout_seconds=1),
        worker=WorkerSettings(lease_seconds=2),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(store_database.SESSION_SETTINGS, "lock_timeout", "1s")
        with start_service(server.url, settings) as service:
            yield service


def test_backends_are_terminated_again_and_again(service: Any) -> None:
    with service.traffic(), service.admin() as operator:
        for _ in range(4):
            service.wait_for_votes(5)
            assert operator.execute(OTHERS_CUT).fetchone() != (0,)
        service.wait_for_votes(5)
    service.check("terminated")


@pytest.mark.parametrize("request_to_stop", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
def test_the_server_is_restarted(
    service: Any, server: EmbeddedServer, cluster_folder: Path, request_to_stop: signal.Signals
) -> None:
    # What `pg_ctl restart` does, apart from where the server's own lock on its folder goes.
    with service.traffic():
        service.wait_for_votes(5)
        postmaster = find_postmaster(ServerFolder((cluster_folder / "data").absolute()).cluster)
        assert postmaster is not None
        os.kill(postmaster.pid, request_to_stop)
        wait_until(lambda: not postmaster.is_running())
        service.wait_for_answer("GET", 503)
        server.start()
        service.wait_for_votes(5)
    service.check(request_to_stop.name)


def test_no_connection_is_left(service: Any) -> None:
    with service.traffic(), ExitStack() as crowd:
        service.wait_for_votes(5)
        operator = crowd.enter_context(service.admin())

        def taken() -> bool:
            operator.execute(OTHERS_CUT)  # the service's own are what is left
            try:
                crowd.enter_context(service.admin())
            except psycopg.OperationalError:
                return True
            return False

        wait_until(taken)
        operator.execute(OTHERS_CUT)
        service.wait_for_answer("GET", 503)
        crowd.close()
        service.wait_for_votes(5)
    service.check("no connection")


def test_somebody_s_transaction_idles_on_a_lock(service: Any) -> None:
    with service.traffic(), service.admin() as operator:
        service.wait_for_votes(5)
        with operator.transaction():
            operator.execute("LOCK TABLE votes IN SHARE ROW EXCLUSIVE MODE")
            service.wait_for_answer("POST", 503)
            service.wait_for_answer("GET", 200, more=20)
        service.wait_for_votes(5)
    service.check("idle in transaction")


def test_transactions_are_cut_while_they_idle(service: Any) -> None:
    # Between two of their statements, as a pooler's or an operator's broom does.
    idling = f"{OTHERS_CUT} AND state = 'idle in transaction'"
    with service.traffic(), service.admin() as operator:
        service.wait_for_votes(5)
        for _ in range(5):
            wait_until(lambda: operator.execute(idling).fetchone() != (0,))
        service.wait_for_votes(5)
    service.check("cut while idle")


def test_votes_in_a_deadlock(service: Any) -> None:
    """What the writer of votes holds and what it waits for, held and asked for the other way round by somebody else."""
    waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'votes'::regclass AND NOT granted"
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    with service.admin(user="postgres") as operator, service.admin() as watcher:
        # Whoever looks for a deadlock first has to give in: the service, before it tires of waiting for the lock.
        operator.execute("ALTER ROLE stable_arena SET deadlock_timeout = '500ms'")
        operator.execute("SET deadlock_timeout = '1h'")
        watcher.execute(OTHERS_CUT)
        before = watcher.execute(deadlocks).fetchone()[0]
        with service.traffic():
            for _ in range(3):
                service.wait_for_votes(5)
                with operator.transaction():
                    operator.execute("LOCK TABLE votes IN SHARE ROW EXCLUSIVE MODE")
                    wait_until(lambda: watcher.execute(waiting).fetchone() != (0,))
                    operator.execute("LOCK TABLE idempotency_keys, annotators IN ACCESS EXCLUSIVE MODE")
            service.wait_for_votes(5)
        wait_until(lambda: watcher.execute(deadlocks).fetchone()[0] >= before + 3)
        operator.execute("ALTER ROLE stable_arena RESET deadlock_timeout")
    service.check("deadlocks")


def test_transactions_that_have_to_give_in(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    execute, turns = PGDialect_psycopg.do_execute, list[int]()
    give_in = "DO $$ BEGIN RAISE EXCEPTION 'in the way' USING ERRCODE = '{}'; END $$"

    def give_in_sometimes(self: Any, cursor: Any, *rest: Any) -> Any:
        turn = len(turns)
        turns.append(turn)
        if turn % 11 == 0:  # the server itself ends the transaction, at any statement of any
            cursor.execute(give_in.format(("40001", "40P01")[turn % 2]))
        return execute(self, cursor, *rest)

    with service.traffic(), monkeypatch.context() as patch:
        patch.setattr(PGDialect_psycopg, "do_execute", give_in_sometimes)
        service.wait_for_votes(20)
        wait_until(lambda: len(turns) > 100)  # reads whose answers are kept need few statements
    service.check("contended")
