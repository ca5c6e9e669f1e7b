"""A lease: a right that one process holds for a while. Time is the database's; the epoch is the fencing token.

A holder may freeze (a stopped process, a paused machine) with a transaction open. It would lock the lease's row beyond
its time, and every process that wants to take over would wait. So the server ends a transaction that touches the row
and is silent for as long as the lease runs.

The database's clock may have been ahead and set right. So a lease that was given back ends long ago, and one that ends
later than its holder can have meant runs only for its length from when another process wants it.
"""

import contextlib
import os
import secrets
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import structlog
from sqlalchemy import ColumnElement, Connection, Interval, and_, delete, func, literal, select, update
from sqlalchemy.dialects.postgresql import insert

from app.database.engine import Database
from app.database.notices import notify
from app.database.tables import leases
from app.errors import UnavailableError

MOMENT_SECONDS = 3.0
"""How long a transaction of a single statement may be silent before its commit."""
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def acquire_lease(conn: Connection, name: str, holder: str, seconds: float) -> int | None:
    """Take the lease if it is free; return its new epoch, or None while another holder's time runs.

    Every taking raises the epoch, even by the same holder, so an epoch names one holding for ever.
    """
    end_when_silent(conn, seconds)
    values = {"holder": holder, "expires_at": _now_plus(seconds), "seconds": seconds}
    taken = insert(leases).values(name=name, epoch=1, **values)
    statement = taken.on_conflict_do_update(
        index_elements=[leases.c.name],
        set_={**values, "epoch": leases.c.epoch + 1},
        where=leases.c.expires_at <= func.clock_timestamp(),
    ).returning(leases.c.epoch)
    epoch: int | None = conn.execute(statement).scalar_one_or_none()
    if epoch is None:  # a holder that lives renews what is cut here
        too_late = and_(leases.c.name == name, leases.c.expires_at > _latest_end())
        conn.execute(update(leases).where(too_late).values(expires_at=_latest_end()))
    return epoch


def renew_lease(conn: Connection, name: str, epoch: int, seconds: float) -> bool:
    """Let the lease run `seconds` from now; False if it has run out or was taken over, which is final."""
    end_when_silent(conn, seconds)
    statement = update(leases).where(_held(name, epoch)).values(expires_at=_now_plus(seconds), seconds=seconds)
    return conn.execute(statement).rowcount == 1


def release_lease(conn: Connection, name: str, epoch: int, *, drop: bool = False) -> None:
    """Give the lease back at once; nothing happens if it is no longer held.

    `drop`: delete it: its job is done once and for all.
    """
    end_when_silent(conn, MOMENT_SECONDS)
    ended = delete(leases) if drop else update(leases).values(expires_at=_LONG_AGO)
    conn.execute(ended.where(_held(name, epoch)))


def lock_lease(conn: Connection, name: str, epoch: int) -> bool:
    """Hold the lease's row until this transaction ends, if the lease is held in this epoch.

    True is the fence: no other process can take the lease before the commit, so the only holder wrote what the
    transaction writes. The transaction may be silent for as long as the lease would still have run.
    """
    until = func.least(leases.c.expires_at, _latest_end())
    left = func.extract("epoch", until - func.clock_timestamp())
    statement = select(left).where(_held(name, epoch)).with_for_update()
    seconds = conn.execute(statement).scalar_one_or_none()
    if seconds is None:
        return False
    end_when_silent(conn, float(seconds))
    return True


def lease_is_free(conn: Connection, name: str) -> bool:
    """Whether an attempt to take the lease is worth it: it is free, or it ends too late, which an attempt mends."""
    return seconds_until_free(conn, name) == 0


def seconds_until_free(conn: Connection, name: str) -> float:
    """Return in how many seconds an attempt to take the lease is worth it, if it is not renewed; 0 is now."""
    held = leases.c.expires_at.between(func.clock_timestamp(), _latest_end())
    left = func.extract("epoch", leases.c.expires_at - func.clock_timestamp())
    return max(float(conn.execute(select(left).where(leases.c.name == name, held)).scalar_one_or_none() or 0), 0.0)


def end_when_silent(conn: Connection, seconds: float) -> None:
    """Let the server roll this transaction back, and close its connection, once it is silent for so long."""
    milliseconds = max(round(seconds * 1000), 1)  # 0 means no limit
    conn.execute(select(func.set_config("idle_in_transaction_session_timeout", str(milliseconds), True)))


def _held(name: str, epoch: int) -> ColumnElement[bool]:
    return and_(leases.c.name == name, leases.c.epoch == epoch, leases.c.expires_at > func.clock_timestamp())


def _latest_end() -> ColumnElement[Any]:
    """Return the latest time that the lease's holder can have meant."""
    return func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, leases.c.seconds)


def _now_plus(seconds: float) -> ColumnElement[object]:
    return func.clock_timestamp() + literal(timedelta(seconds=seconds), Interval)


log = structlog.get_logger()

Begun = TypeVar("Begun")


class LeasedJob:
    """A job that one process at a time does, by a lease; if that process dies, another takes the job on.

    Claim the job, then do it in a `with` block. A thread renews the lease during the block, and the lease is given
    back at its end::

        job = LeasedJob(database, "export:17", 30.0)
        row = job.claim(lambda conn: begin_export(conn, 17))
        if row is not None:
            with job:
                ...

    A process that froze may lose the lease without knowing. So what must happen once is written in a transaction for
    which `lock` says that the lease is still held.

    `one_off`: the job has a lease of its own, which is deleted when the job has ended without an error.
    """

    def __init__(self, database: Database, name: str, seconds: float, *, one_off: bool = False) -> None:
        self._database = database
        self._name = name
        self._one_off = one_off
        self._seconds = seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_ended, name="lease-renewal", daemon=True)
        self.epoch = 0
        """The fencing token of this holding, once claimed; see `app.database.leases`."""

    def claim(self, begin: Callable[[Connection], Begun | None]) -> Begun | None:
        """Take the lease and begin the job, in one transaction.

        Return what `begin` returns; None if another process holds the lease, or if `begin` finds nothing to do.
        """
        with self._database.begin() as conn:
            epoch = acquire_lease(conn, self._name, _holder_name(), self._seconds)
            if epoch is None:
                return None
            self.epoch = epoch
            begun = begin(conn)
            if begun is None:
                release_lease(conn, self._name, epoch, drop=self._one_off)
            return begun

    @property
    def lock(self) -> Callable[[Connection], bool]:
        """Whether the lease is still held; if so, no other process can take it before this transaction ends.

        Another process can be given it, unlike the job itself.
        """
        return partial(lock_lease, name=self._name, epoch=self.epoch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        # If the database does not answer, the lease runs out by itself.
        with contextlib.suppress(UnavailableError), self._database.begin() as conn:
            release_lease(conn, self._name, self.epoch, drop=self._one_off and error is None)
            if error is None:  # what failed may fail again at once
                notify(conn, "everything")  # others may have waited for the lease

    def _renew_until_ended(self) -> None:
        while not self._ended.wait(self._seconds / 3):
            try:
                with self._database.begin() as conn:
                    if not renew_lease(conn, self._name, self.epoch, self._seconds):
                        log.warning("lease_lost", lease=self._name, epoch=self.epoch)
                        return
            except UnavailableError as error:
                log.warning("lease_not_renewed", lease=self._name, detail=error.detail)


def _holder_name() -> str:
    """Name this process for the lease's row: its host, its process id, and a random word."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
