"""Leaderboards as this process serves them: each rendered once, and few looks at the database for many readers."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from threading import Lock

from cachetools import LRUCache

from app.database.engine import Database
from app.leaderboard.formats import add_freshness, render
from app.leaderboard.new_votes import NewVotes
from app.leaderboard.schemas import LeaderboardFormat
from app.leaderboard.service import LeaderboardVersion, SnapshotState, find_state

_MAX_BYTES = 64 * 1024 * 1024


class LeaderboardCache:
    """Rendered leaderboards, one for each snapshot and format, and the newest snapshot's state.

    A rendered leaderboard is never out of date, because its key names everything in it. Every reader gets the newest
    snapshot's state as of now; readers that come during one look at the database share the next. Belongs to one event
    loop; `remember` may be called from any thread.
    """

    def __init__(self, database: Database, *, max_bytes: int = _MAX_BYTES) -> None:
        self._database = database
        self._lock = Lock()
        self._rendered: LRUCache[object, bytes] = LRUCache(max_bytes, getsizeof=len)
        self._new_votes = NewVotes()
        self._rendering = asyncio.Lock()
        self._looking: asyncio.Task[SnapshotState] | None = None
        self._next_look: asyncio.Task[SnapshotState] | None = None

    async def newest(self) -> SnapshotState:
        """Return the newest snapshot's state, read after this call began.

        Raises
        ------
        NoSnapshotError, UnavailableError
        """
        if self._next_look is None:
            self._next_look = asyncio.create_task(self._look_after(self._looking))
        return await asyncio.shield(self._next_look)  # a reader who leaves does not take the others' look away

    async def past(self, snapshot: str | None, as_of: datetime | None) -> SnapshotState:
        """Return the state of an earlier snapshot, named by id or number or by a moment when it was the newest.

        Raises
        ------
        NotFoundError, NoSnapshotError, UnavailableError
        """
        return await asyncio.to_thread(self._find_state, snapshot, as_of)

    async def read(self, version: LeaderboardVersion, form: LeaderboardFormat) -> tuple[LeaderboardVersion, bytes]:
        """Return a leaderboard in a format, rendered now if it is not in the cache, and the version that it shows.

        The version is another one where a model was changed after the snapshot's state was read.

        Raises
        ------
        NoSuchLeaderboardError, UnavailableError
        """
        kept = self._get(version.key(form))
        if kept is not None:
            content = kept
        else:
            async with self._rendering:  # readers who wait here for the same leaderboard find it in the cache
                version, content = await asyncio.to_thread(self._render, version, form)
        return version, add_freshness(content, version.freshness) if form == "json" else content

    def remember(self, key: object, make: Callable[[], bytes]) -> bytes:
        """Return the cached bytes of a key, making them if they are missing. The key must name everything in them."""
        content = self._get(key)
        if content is None:
            content = make()
            with self._lock, suppress(ValueError):  # larger than the whole cache
                self._rendered[key] = content
        return content

    def _get(self, key: object) -> bytes | None:
        with self._lock:
            return self._rendered.get(key)

    async def _look_after(self, current: asyncio.Task[SnapshotState] | None) -> SnapshotState:
        if current is not None:
            await asyncio.wait([current])
        self._looking, self._next_look = self._next_look, None
        return await asyncio.to_thread(self._find_state)

    def _find_state(self, snapshot: str | None = None, as_of: datetime | None = None) -> SnapshotState:
        with self._database.read() as conn:
            return find_state(conn, snapshot, as_of, count_new_votes=self._new_votes.since)

    def _render(self, version: LeaderboardVersion, form: LeaderboardFormat) -> tuple[LeaderboardVersion, bytes]:
        content = self._get(version.key(form))
        if content is not None:
            return version, content
        with self._database.read() as conn:
            state = find_state(conn, version.snapshot.id, count_new_votes=self._new_votes.since)
            current = replace(version, state=state)  # the key names what this transaction sees
            return current, self.remember(current.key(form), lambda: render(conn, current, form))
