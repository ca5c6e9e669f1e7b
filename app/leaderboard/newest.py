"""The newest snapshot's state, for many readers with few looks at the database."""

import asyncio
from datetime import datetime
from typing import Annotated

from sqlalchemy import Connection

from app.api.dependencies import held
from app.api.kept_answers import KeptAnswers, newest_state
from app.database.engine import Database
from app.database.errors import DatabaseBusyError
from app.leaderboard.service import SnapshotState, find_newest_state, find_state
from app.settings import Settings
from app.snapshots.vote_sets import NewVotes
from app.state import ProcessState


class NewestState:
    """Finds the newest snapshot's state. Every reader gets it as of now; readers that come meanwhile share a look.

    Belongs to one event loop; `read` and `choose` may be called from any thread.

    `patience_seconds`: a look that takes longer is not waited for, and until it ends no other one is.
    """

    def __init__(self, database: Database, *, patience_seconds: float = 5.0) -> None:
        self._database = database
        self._patience_seconds = patience_seconds
        self._hangs = False
        self._new_votes = NewVotes()
        self._looking: asyncio.Task[SnapshotState | None] | None = None
        self._next_look: asyncio.Task[SnapshotState | None] | None = None

    async def look(self) -> SnapshotState | None:
        """Return the newest snapshot's state, read after this call began; None before the first.

        Raises UnavailableError.
        """
        if self._next_look is None:
            self._next_look = asyncio.create_task(self._look_after(self._looking))
        look = self._next_look
        try:
            async with asyncio.timeout(0 if self._hangs else self._patience_seconds):
                return await asyncio.shield(look)  # a reader who leaves does not take the others' look away
        except TimeoutError:
            self._hangs = True
            raise DatabaseBusyError("the database does not answer in time") from None

    def read(self, conn: Connection) -> SnapshotState | None:
        """Return the newest snapshot's state as a transaction sees it; None before the first."""
        return find_newest_state(conn, count_new_votes=self._new_votes.since)

    def choose(
        self, conn: Connection, newest: SnapshotState | None, snapshot: str | None = None, as_of: datetime | None = None
    ) -> SnapshotState:
        """Return the state of a snapshot, by id or number; of the newest at a time; or of the newest, read before.

        Raises NotFoundError or NoSnapshotError.
        """
        if newest is not None and snapshot is None and as_of is None:
            return newest
        return find_state(conn, snapshot, as_of, count_new_votes=self._new_votes.since)

    async def _look_after(self, current: asyncio.Task[SnapshotState | None] | None) -> SnapshotState | None:
        if current is not None:
            await asyncio.wait([current])
        self._looking, self._next_look = self._next_look, None
        try:
            return await asyncio.to_thread(self._look)
        finally:
            self._hangs = False

    def _look(self) -> SnapshotState | None:
        with self._database.read() as conn:
            return self.read(conn)


Newest = Annotated[SnapshotState | None, newest_state]
"""The newest snapshot's state, read in the transaction of the request."""
States = Annotated[NewestState, held(NewestState)]


def provide_newest_state(state: ProcessState) -> None:
    """Hold the newest snapshot's state, and the answers to public reads that were made for it."""
    patience = state[Settings].database.connect_timeout_seconds
    state[NewestState] = newest = NewestState(state[Database], patience_seconds=patience)
    state[KeptAnswers] = KeptAnswers(newest.look, newest.read)
