import random
import threading
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import httpx
import structlog
from sqlalchemy import RowMapping
from standardwebhooks import Webhook

from app.database.engine import Database
from app.errors import BadInputError
from app.webhooks import queries as store
from app.webhooks.addresses import resolve

log = structlog.get_logger()

MAX_ATTEMPTS = 10
FIRST_PAUSE_SECONDS = 5.0  # then four times as long each time, at most a day: about three days in all
LONGEST_PAUSE_SECONDS = 86_400.0
TIMEOUT_SECONDS = 10.0
_AT_A_TIME = 20
_GONE = 410


class Deliverer:
    """Sends messages to webhooks, each at least once. Several deliverers may share one database."""

    def __init__(self, database: Database, *, allow_private: bool) -> None:
        self._database = database
        self._allow_private = allow_private
        self._stopped = threading.Event()

    def deliver_due(self) -> int:
        """Send what is due, some at a time; return how many messages were tried. No transaction is open meanwhile."""
        tried = 0
        while tried < _AT_A_TIME and not self._stopped.is_set():
            with self._database.begin() as conn:
                # Claimed for longer than an attempt takes. If this process dies, another one takes it after that.
                message = store.claim_due(conn, seconds=4 * TIMEOUT_SECONDS)
            if message is None:
                break
            with structlog.contextvars.bound_contextvars(message=str(message["id"])):
                self._record(message["id"], message["attempts"], *self._send(message))
            tried += 1
        return tried

    def stop(self) -> None:
        """Send no further message; called from another thread."""
        self._stopped.set()

    def _send(self, message: RowMapping) -> tuple[int | None, str]:
        """Make one attempt; return the status (None without an answer) and the result in words."""
        try:
            target = resolve(message["url"], allow_private=self._allow_private)
            now, key = datetime.now(UTC), str(message["id"])
            headers = {
                "Host": target.host_header,
                "Content-Type": "application/json",
                "User-Agent": "stable-arena",
                "webhook-id": key,
                "webhook-timestamp": str(int(now.timestamp())),
                "webhook-signature": Webhook(message["secret"]).sign(key, now, message["payload"]),
            }
            # The certificate must be the name's, although the connection goes to the address that was checked.
            extensions: dict[str, Any] = {"sni_hostname": target.host}
            with (
                httpx.Client(timeout=TIMEOUT_SECONDS, follow_redirects=False, trust_env=False) as client,
                client.stream(
                    "POST", target.url, content=message["payload"].encode(), headers=headers, extensions=extensions
                ) as answer,
            ):
                return answer.status_code, f"answered {answer.status_code}"
        except BadInputError as error:
            return None, error.detail
        except Exception as error:  # one receiver's address or answer must not keep the messages from the others
            if not isinstance(error, (OSError, httpx.HTTPError)):
                log.exception("webhook_broke")
            return None, f"{type(error).__name__}: {error}"[:500]

    def _record(self, message: UUID, attempts: int, status: int | None, detail: str) -> None:
        with self._database.begin() as conn:
            if status is not None and httpx.codes.is_success(status):
                store.end_delivery(conn, message, "delivered", detail)
            elif status == _GONE or attempts >= MAX_ATTEMPTS:
                store.end_delivery(conn, message, "given_up", detail)
                log.warning("webhook_given_up", attempts=attempts, detail=detail)
            else:
                store.postpone_delivery(conn, message, pause_after(attempts), detail)


def pause_after(attempts: int) -> float:
    """Return the seconds to wait after so many attempts: fourfold each time, up to a day, plus up to a tenth."""
    pause = min(FIRST_PAUSE_SECONDS * 4.0 ** (attempts - 1), LONGEST_PAUSE_SECONDS)
    return pause * (1.0 + random.random() / 10)  # noqa: S311  keeps no secret
