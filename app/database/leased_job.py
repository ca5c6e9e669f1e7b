import contextlib
import os
import secrets
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

import structlog
from sqlalchemy import Connection

from app.database.engine import Database
from app.database.leases import acquire_lease, drop_lease, lock_lease, release_lease, renew_lease
from app.errors import UnavailableError

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

    Parameters
    ----------
    one_off : the job has a lease of its own, which is deleted when the job has ended without an error
    """

    def __init__(self, database: Database, name: str, seconds: float, *, one_off: bool = False) -> None:
        self._database = database
        self._name = name
        self._give_back = drop_lease if one_off else release_lease
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
                self._give_back(conn, self._name, epoch)
            return begun

    def lock(self, conn: Connection) -> bool:
        """Whether the lease is still held; if so, no other process can take it before this transaction ends."""
        return lock_lease(conn, self._name, self.epoch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        give_back = release_lease if error else self._give_back
        # If the database does not answer, the lease runs out by itself.
        with contextlib.suppress(UnavailableError), self._database.begin() as conn:
            give_back(conn, self._name, self.epoch)

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
