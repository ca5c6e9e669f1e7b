import asyncio
import random
import threading
from collections.abc import Collection

import httpx
import structlog
from sqlalchemy import RowMapping

from app.database.engine import Database
from app.webhooks import queries as store
from app.webhooks.attempt import attempt_delivery

log = structlog.get_logger()

MAX_ATTEMPTS = 10
ATTEMPT_SECONDS = 15.0
_AT_ONCE = 20
_LOOK_SECONDS = 0.25
_STOP_SECONDS = 1.0
_GONE = 410


class Deliverer:
    """Sends messages to webhooks, each at least once. Several deliverers may share one database.

    It makes several attempts at once, to each receiver one: a slow receiver keeps no message from the others. An
    attempt may take `attempt_seconds` in all.
    """

    def __init__(self, database: Database, *, allow_private: bool, attempt_seconds: float = ATTEMPT_SECONDS) -> None:
        self._database = database
        self._allow_private = allow_private
        self._attempt_seconds = attempt_seconds
        self._tls = httpx.create_ssl_context(trust_env=False)
        self._stopped = threading.Event()

    def deliver_due(self) -> int:
        """Send what is due until nothing is, and nothing is under way; return how many attempts were made.

        No transaction is open during an attempt.
        """
        return asyncio.run(self._deliver())

    def stop(self) -> None:
        """Begin no further attempt, and give those under way a second; called from another thread."""
        self._stopped.set()

    async def _deliver(self) -> int:
        tried, running = 0, dict[asyncio.Task[None], str]()
        while not self._stopped.is_set():
            while len(running) < _AT_ONCE and (message := self._claim(running.values())) is not None:
                running[asyncio.create_task(self._try(message))] = message["receiver"]
                tried += 1
            if not running:
                break
            # It also looks for new messages, and whether it is to stop.
            done, _ = await asyncio.wait(running, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                del running[task]
            await asyncio.gather(*done)  # raises the first of their errors
        if running:  # those that do not end now are cancelled with the event loop, and another deliverer makes them
            done, _ = await asyncio.wait(running, timeout=_STOP_SECONDS)
            await asyncio.gather(*done)
        return tried

    def _claim(self, busy: Collection[str]) -> RowMapping | None:
        with self._database.begin() as conn:
            # Claimed for longer than an attempt takes. If this process dies, another one takes it after that.
            return store.claim_due(conn, seconds=2 * self._attempt_seconds, except_receivers=busy)

    async def _try(self, message: RowMapping) -> None:
        with structlog.contextvars.bound_contextvars(message=str(message["id"])):
            status, detail = await attempt_delivery(
                message, seconds=self._attempt_seconds, tls=self._tls, allow_private=self._allow_private
            )
            self._record(message, status, detail)

    def _record(self, message: RowMapping, status: int | None, detail: str) -> None:
        key, attempts = message["id"], message["attempts"]
        with self._database.begin() as conn:
            if status is not None and httpx.codes.is_success(status):
                store.end_delivery(conn, key, "delivered", detail)
            elif status == _GONE or attempts >= MAX_ATTEMPTS:
                store.end_delivery(conn, key, "given_up", detail)
                log.warning("webhook_given_up", attempts=attempts, detail=detail)
            else:
                store.postpone_delivery(conn, key, pause_after(attempts), detail)


def pause_after(attempts: int) -> float:
    """Return the seconds to wait after so many attempts: fourfold each time, up to a day, plus up to a tenth."""
    pause = min(store.FIRST_PAUSE_SECONDS * 4.0 ** (attempts - 1), store.LONGEST_PAUSE_SECONDS)
    return pause * random.uniform(1.0, store.MOST_STRETCHED)  # noqa: S311  keeps no secret
