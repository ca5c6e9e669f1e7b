"""One attempt to deliver a message: the address is looked up, and the message posted there."""

import asyncio
import ssl
import threading
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

import httpx
import structlog
from sqlalchemy import RowMapping
from standardwebhooks import Webhook

from app.errors import BadInputError
from app.webhooks.addresses import Target, resolve

log = structlog.get_logger()


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

    Raises
    ------
    BadInputError, ForbiddenAddressError, OSError
        As `resolve` does.
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
