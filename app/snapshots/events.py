"""Tells readers who listen, on pages and in programs, about each new snapshot."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

from app.database.engine import Database
from app.database.notices import TICK_SECONDS, Notices
from app.errors import UnavailableError
from app.guard.stopping import OpenAnswers
from app.snapshots.queries import newest_number
from app.state import ProcessState

RECONNECT_MILLISECONDS = 5000
"""After which a listener whose connection was lost asks again."""

MOST_LISTENERS = 1000
"""Pages and programs that may wait for news in one process."""


class TooManyListenersError(UnavailableError):
    """As many readers listen to this process as it allows."""

    code = "too-many-listeners"
    title = "Too many readers wait for news"


class SnapshotEvents:
    """The number of the newest snapshot, for as many listeners as there may be. Belongs to one event loop.

    While there are listeners, the database is asked at notices, and every `seconds`, for all of them together. A
    listener that comes later learns the present number first.
    """

    def __init__(
        self, database: Database, notices: Notices, *, most: int = MOST_LISTENERS, seconds: float = TICK_SECONDS
    ) -> None:
        self._database = database
        self._notices = notices
        self._most = most
        self._seconds = seconds
        self._listeners = 0
        self._newest = 0
        self._changed = asyncio.Event()
        self._stopped = False
        self._asking: asyncio.Task[None] | None = None
        self._noticed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        notices.call("snapshots", self._look)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take the place of one listener. Raises TooManyListenersError."""
        if self._listeners >= self._most:
            raise TooManyListenersError(
                "too many readers wait for news here; ask for the leaderboard again now and then"
            )
        self._listeners += 1
        if self._asking is None:
            self._loop = asyncio.get_running_loop()
            self._notices.start()
            self._asking = asyncio.create_task(self._ask())
        try:
            yield
        finally:
            self._listeners -= 1

    async def numbers(self, seen: int = 0) -> AsyncIterator[int]:
        """Yield the number of the newest snapshot, if it is above `seen`, and of each that follows, until the end."""
        while not self._stopped:
            if self._newest > seen:
                seen = self._newest
                yield seen
            else:
                await self._changed.wait()

    def stop(self) -> None:
        """End every listener's events: a server that stops waits for the answers it has begun."""
        self._stopped = True
        self._noticed.set()
        self._wake()

    async def _ask(self) -> None:
        try:
            while self._listeners and not self._stopped:
                self._noticed.clear()
                with suppress(UnavailableError):  # the next look may succeed
                    newest = await asyncio.to_thread(self.read_newest)
                    if newest > self._newest:
                        self._newest = newest
                        self._wake()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._noticed.wait(), self._seconds)
        finally:
            self._asking = None

    def read_newest(self) -> int:
        """Return the newest snapshot's number on record."""
        with self._database.read() as conn:
            return newest_number(conn)

    def _look(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._noticed.set)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def provide_events(state: ProcessState) -> None:
    """Hold the events, which end when the process is asked to stop."""
    state[SnapshotEvents] = events = SnapshotEvents(state[Database], state[Notices])
    state[OpenAnswers].end_by(events.stop)
