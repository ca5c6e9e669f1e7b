"""Letting requests go first where the embedded server works for minutes on something else."""

import contextlib
import os
from pathlib import Path
from typing import cast

import psycopg
import structlog
from sqlalchemy import Connection, text

from app.database.engine import USED_ONCE

log = structlog.get_logger()

_NICENESS = 19


def stand_back(conn: Connection) -> None:
    """Make the embedded server's process behind a connection the nicest there is, on no processor but our own.

    It may send a million rows at once, and nothing else keeps it from taking a processor for that. What was made nice
    stays so without privileges: the connection is closed when it is given back.
    """
    driver = conn.connection.driver_connection
    pid = cast("psycopg.Connection", driver).info.backend_pid
    conn.info[USED_ONCE] = True
    conn.execute(text("SET LOCAL max_parallel_workers_per_gather = 0"))  # helpers would not be nice
    try:
        os.setpriority(os.PRIO_PROCESS, pid, _NICENESS)
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(pid, os.sched_getaffinity(0))
        # Servers' processes have sessions of their own; where the kernel shares processors out among those, only
        # this counts. Other kernels have no such file.
        with contextlib.suppress(FileNotFoundError):
            Path(f"/proc/{pid}/autogroup").write_text(str(_NICENESS))
    except OSError as error:  # a server that another user started
        log.debug("server_not_made_nice", detail=str(error))
