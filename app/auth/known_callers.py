import asyncio
import time

from app.auth.key_secrets import digest
from app.auth.service import Caller, authenticate
from app.auth.tokens.service import authenticate_token, is_token
from app.database.engine import Database


class KnownCallers:
    """Who was authenticated in the last few seconds, so that a stream of votes asks once, not once a vote.

    A revoked or expired key therefore works for at most `seconds` more, and so do its tokens. Keys are remembered by
    their hash alone, refusals not at all. Belongs to one event loop.
    """

    def __init__(self, database: Database, *, seconds: float = 5.0, size: int = 10_000) -> None:
        self._database = database
        self._seconds = seconds
        self._size = size
        self._known: dict[bytes, tuple[float, Caller]] = {}
        self._asking: dict[bytes, asyncio.Task[Caller]] = {}

    async def identify(self, secret: str) -> Caller:
        """Return who holds this key, from memory or from the database.

        Raises
        ------
        NotAuthenticatedError
        """
        key = digest(secret)
        known = self._known.get(key)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        # Everyone who comes with the same key meanwhile waits for the one question.
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._ask(key, secret))
        return await asyncio.shield(asking)

    async def _ask(self, key: bytes, secret: str) -> Caller:
        # The time of asking counts, not of the answer: a revocation in between must not gain time.
        asked = time.monotonic()
        try:
            caller = await asyncio.to_thread(self._look_up, secret)
        finally:
            del self._asking[key]
        if len(self._known) >= self._size:
            self._known.clear()
        self._known[key] = (asked + self._seconds, caller)
        return caller

    def _look_up(self, secret: str) -> Caller:
        with self._database.read() as conn:
            return authenticate_token(conn, secret) if is_token(secret) else authenticate(conn, secret)
