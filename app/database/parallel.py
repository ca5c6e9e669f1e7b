"""Reads parts of a table on several connections at the same time, which all see what one transaction sees."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

import psycopg
import structlog
from psycopg import sql
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from app.database.engine import driver_of
from app.rating.threads import available_threads

Part = TypeVar("Part")
Result = TypeVar("Result")
Cursor = psycopg.Cursor[Any]

log = structlog.get_logger()

WORTH_A_CONNECTION = 2
"""Parts for each connection beyond the first, at least."""
_EXPORT = "SELECT CASE WHEN pg_current_xact_id_if_assigned() IS NULL THEN pg_export_snapshot() END"


def read_parts(conn: Connection, parts: Sequence[Part], read: Callable[[Cursor, Part], Result]) -> list[Result]:
    """Return what `read` returns for each part, in the order of the parts.

    A connection for each processor takes the next part as it is done with one. One that cannot be had is done without.

    Parameters
    ----------
    conn : in a REPEATABLE READ transaction. One that has written reads alone: others do not see its rows
    read : called with a binary cursor, by several threads at once
    """
    found, waiting, taking = dict[int, Result](), deque(enumerate(parts)), Lock()
    others = min(available_threads(), len(parts) // WORTH_A_CONNECTION) - 1
    snapshot = conn.exec_driver_sql(_EXPORT).scalar_one() if others > 0 else None
    others = 0 if snapshot is None else others

    def take() -> tuple[int, Part] | None:
        with taking:
            return waiting.popleft() if waiting else None

    def work(connection: psycopg.Connection[Any]) -> None:
        try:
            with connection.cursor(binary=True) as cursor:
                while (taken := take()) is not None:
                    number, part = taken
                    found[number] = read(cursor, part)
        except BaseException:
            waiting.clear()  # what the others would read is not wanted any more
            raise

    def help_out() -> None:
        try:
            other = conn.engine.connect()
        except (DBAPIError, PoolTimeoutError) as error:
            log.info("read_with_fewer_connections", reason=str(error).partition("\n")[0])
            return
        with other:
            view = other.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with view.begin():
                connection = driver_of(view)
                connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
                work(connection)

    with ThreadPoolExecutor(max(others, 1), thread_name_prefix="reading") as pool:
        helping = [pool.submit(help_out) for _ in range(others)]
        work(driver_of(conn))
        for each in helping:
            each.result()
    return [found[number] for number in range(len(parts))]
