import os
import secrets
import socket
import threading
from types import TracebackType
from typing import Self

import structlog

from app.database.engine import Database
from app.database.leases import renew_lease
from app.errors import UnavailableError

log = structlog.get_logger()


def holder_name() -> str:
    """Name this process for the lease's row: where it runs and a word that no other process has."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


class LeaseRenewal:
    """Renews a lease from a thread of its own for as long as the `with` block lasts.

    If the lease is lost the block is not disturbed: the fence at publication decides.
    """

    def __init__(self, database: Database, name: str, epoch: int, seconds: float) -> None:
        self._database = database
        self._lease = (name, epoch, seconds)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_ended, name="lease-renewal", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _renew_until_ended(self) -> None:
        name, epoch, seconds = self._lease
        while not self._ended.wait(seconds / 3):
            try:
                with self._database.begin() as conn:
                    if not renew_lease(conn, name, epoch, seconds):
                        log.warning("lease_lost", lease=name, epoch=epoch)
                        return
            except UnavailableError as error:
                log.warning("lease_not_renewed", lease=name, detail=error.detail)
