"""Sends messages to webhooks: what is due is posted to the address that was looked up, each attempt within a time."""

import asyncio
import random
import ssl
import threading
from collections.abc import Collection
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

import httpx
import structlog
from sqlalchemy import RowMapping
from standardwebhooks import Webhook

from app.database.engine import Database
from app.errors import BadInputError
from app.webhooks import queries as store
from app.webhooks.addresses import Target, resolve

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

    Attributes
    ----------
    next_in_seconds : when the next attempt is due, from the end of `deliver_due`; None if no message waits
    """

    next_in_seconds: float | None = None

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
            message = store.claim_due(conn, seconds=2 * self._attempt_seconds, except_receivers=busy)
            if message is None:
                self.next_in_seconds = store.seconds_to_next_attempt(conn)
            return message

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
                store.record_delivered(conn, key, detail)
            elif status == _GONE or attempts >= MAX_ATTEMPTS:
                if store.give_up_delivery(conn, key, attempts, detail):
                    log.warning("webhook_given_up", attempts=attempts, detail=detail)
            else:
                store.postpone_delivery(conn, key, attempts, pause_after(attempts), detail)


def pause_after(attempts: int) -> float:
    """Return the seconds to wait after so many attempts: fourfold each time, up to a day, plus up to a tenth."""
    pause = min(store.FIRST_PAUSE_SECONDS * 4.0 ** (attempts - 1), store.LONGEST_PAUSE_SECONDS)
    return pause * random.uniform(1.0, store.MOST_STRETCHED)  # noqa: S311  keeps no secret


async def attempt_delivery(
    message: RowMapping, *, seconds: float, tls: ssl.SSLContext, allow_private: bool
) -> tuple[int | None, str]:
    """Send a message once; return the status (None without an answer in time) and the result in words."""
    try:
        # httpx limits each read. A receiver that sends a byte now and then, or 1xx for ever, needs a limit on it all.
        async with asyncio.timeout(seconds):
            target = await _resolve_in_thread(message["url"], allow_private=allow_private)
            status = await _post(message, target, tls)
    except BadInputError as error:
        return None, error.detail
    except TimeoutError:
        return None, f"no answer within {seconds:g} seconds"
    except Exception as error:  # one receiver's address or answer must not keep the messages from the others
        if not isinstance(error, (OSError, httpx.HTTPError)):
            log.exception("webhook_broke")
        return None, f"{type(error).__name__}: {error}"[:500]
    return status, f"answered {status}"


async def _post(message: RowMapping, target: Target, tls: ssl.SSLContext) -> int:
    now, key = datetime.now(UTC), str(message["id"])
    headers = {
        "Host": target.host_header,
        "Content-Type": "application/json",
        "User-Agent": "stable-arena",
        "webhook-id": key,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(message["secret"]).sign(key, now, message["payload"]),
    }
    # The certificate must be the name's, although the connection goes to the address that was checked. A client of
    # its own, because httpx would use a connection again for another name at the same address.
    extensions: dict[str, Any] = {"sni_hostname": target.host}
    async with (
        httpx.AsyncClient(verify=tls, timeout=None, follow_redirects=False, trust_env=False) as client,  # noqa: S113
        client.stream(
            "POST", target.url, content=message["payload"].encode(), headers=headers, extensions=extensions
        ) as answer,
    ):
        return answer.status_code


async def _resolve_in_thread(url: str, *, allow_private: bool) -> Target:
    """Look the address up. A lookup cannot be stopped: neither a cancellation nor the end of the process waits for it.

    Raises BadInputError, ForbiddenAddressError or OSError: as `resolve` does.
    """
    found: Future[Target] = Future()
    found.set_running_or_notify_cancel()

    def look_up() -> None:
        try:
            found.set_result(resolve(url, allow_private=allow_private))
        except Exception as error:  # noqa: BLE001  raised again where it is awaited
            found.set_exception(error)

    threading.Thread(target=look_up, name="webhook-lookup", daemon=True).start()
    return await asyncio.wrap_future(found)
