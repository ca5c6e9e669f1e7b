import asyncio
import time
from collections.abc import Callable

from cachetools import TLRUCache

from app.auth.callers import Caller
from app.auth.keys.service import authenticate
from app.auth.secrets import digest
from app.auth.tokens.service import authenticate_token, is_token
from app.database.engine import Database


class KnownCallers:
    """Callers that were authenticated in the last few seconds, so that a stream of votes does not look up each one.

    A revoked or expired key works for at most `seconds` more, and so do its tokens. Keys are remembered by their hash,
    refusals not at all. Belongs to one event loop.
    """

    def __init__(
        self,
        database: Database,
        *,
        seconds: float = 5.0,
        size: int = 10_000,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._timer = timer
        # The time counts from the start of the look-up: a revocation during it must not take longer to have effect.
        self._known: TLRUCache[bytes, tuple[float, Caller]] = TLRUCache(
            size, ttu=lambda _key, known, _now: known[0] + seconds, timer=timer
        )
        self._asking: dict[bytes, asyncio.Task[Caller]] = {}

    async def identify(self, secret: str) -> Caller:
        """Return the holder of this key or token, from memory or from the database.

        Raises
        ------
        NotAuthenticatedError
        """
        key = digest(secret)
        known = self._known.get(key)
        if known is not None:
            return known[1]
        # Requests that show the same key meanwhile wait for the same look-up.
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._ask(key, secret))
        return await asyncio.shield(asking)

    async def _ask(self, key: bytes, secret: str) -> Caller:
        asked = self._timer()
        try:
            caller = await asyncio.to_thread(self._look_up, secret)
        finally:
            del self._asking[key]
        self._known[key] = (asked, caller)
        return caller

    def _look_up(self, secret: str) -> Caller:
        with self._database.read() as conn:
            return authenticate_token(conn, secret) if is_token(secret) else authenticate(conn, secret)
