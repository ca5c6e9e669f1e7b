import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar, cast

import structlog
from fastapi import Response
from sqlalchemy import Connection
from sqlalchemy.exc import DataError

from app.api.idempotency import IdempotencyClaim, resolve_claims, store_responses
from app.api.problems import invalid_input
from app.database.engine import Database
from app.database.errors import DatabaseContendedError
from app.errors import FieldError, StableArenaError, UnavailableError

log = structlog.get_logger()

Item = TypeVar("Item")
Receipt = TypeVar("Receipt")

Record = Callable[[Connection, Sequence[Item]], Sequence[Receipt | StableArenaError]]
"""Records items in a transaction and returns, in order, what became of each: a receipt, or why it was refused."""

COMMIT_SIZE = 1_000
"""Most items that share one commit."""

# Each key takes one of PostgreSQL's locks. It has a few thousand for all connections together.
_MOST_CLAIMS = 250

# Turns of the event loop before a group is closed: answers are written, arrived requests are read, their items are
# queued. An idle loop has nothing to do in these turns. In a busy one they make larger, hence fewer, groups.
_TURNS_TO_QUEUE = 3


class QueueFullError(UnavailableError):
    """More votes or battles are waiting than the settings allow."""

    code = "queue-full"
    title = "Too many requests are waiting"


class ShuttingDownError(UnavailableError):
    """The process no longer takes votes or battles."""

    code = "shutting-down"
    title = "The service is shutting down"


Idempotent = tuple[IdempotencyClaim, Callable[[Receipt], Response]]
"""The idempotency claim that came with an item, and how the item's receipt becomes a response."""
Waiting = tuple[Item, Idempotent[Receipt] | None, asyncio.Future[Receipt | Response]]
"""An item in the queue, and what its caller waits for."""


class GroupCommit(Generic[Item, Receipt]):
    """A queue whose items, if they arrive during one write, share the next one.

    An idle queue writes an item at once. A busy one spends one commit on many. An item is answered after the commit
    that holds it, never before. A queue belongs to one event loop, and writes in a thread of its own.

    `prepare`: called with a group before its transaction begins; returns what records it. A refused item is not stored
    under its idempotency key, so it may be sent again.
    `what`: the items' name in messages, such as "votes".
    """

    def __init__(
        self,
        database: Database,
        prepare: Callable[[Sequence[Item]], Record[Item, Receipt]],
        *,
        what: str,
        queue_size: int,
        commit_size: int,
    ) -> None:
        self._database = database
        self._prepare = prepare
        self._what = what
        self._queue_size = queue_size
        self._commit_size = commit_size
        self._waiting: deque[Waiting[Item, Receipt]] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=what)
        self._closed = False

    async def submit(self, item: Item) -> Receipt:
        """Record an item and return its receipt once it is durable.

        If the caller disconnects meanwhile, the item may or may not be recorded.

        Raises StableArenaError: the item was refused.
        Raises UnavailableError: the queue is full or closed, or the database failed. The item may be sent again. After
        a lost connection it may be recorded already.
        """
        return cast("Receipt", await self._enqueue(item, None))

    async def submit_once(self, item: Item, claim: IdempotencyClaim, render: Callable[[Receipt], Response]) -> Response:
        """Record an item and return its response, or the response to an earlier request with the same key.

        The response is stored in the transaction that holds the item.

        Raises StableArenaError: the item was refused, or the key belongs to another request or to one that is under
        way.
        Raises UnavailableError: after a lost connection too, it is harmless to send the request again with its key.
        """
        return cast("Response", await self._enqueue(item, (claim, render)))

    @property
    def waiting(self) -> int:
        """How many items wait for the next commit."""
        return len(self._waiting)

    async def close(self) -> None:
        """Refuse new items, write those that wait, and stop."""
        self._closed = True
        if self._writer is not None:
            await self._writer
        self._thread.shutdown()

    async def _enqueue(self, item: Item, idempotent: Idempotent[Receipt] | None) -> Receipt | Response:
        if self._closed:
            raise ShuttingDownError("the service is shutting down")
        if len(self._waiting) >= self._queue_size:
            raise QueueFullError(f"{self._queue_size} {self._what} are waiting already")
        outcome: asyncio.Future[Receipt | Response] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, idempotent, outcome))
        if self._writer is None:
            self._writer = asyncio.create_task(self._flush())
        return await outcome

    async def _flush(self) -> None:
        """Write group after group until no item waits."""
        loop = asyncio.get_running_loop()
        try:
            while group := await self._next_group():
                try:
                    outcomes = await loop.run_in_executor(self._thread, self._write, group)
                except BaseException as error:
                    _resolve(group, [_stopped(error)] * len(group))
                    raise
                _resolve(group, outcomes)
        finally:
            self._writer = None

    async def _next_group(self) -> list[Waiting[Item, Receipt]]:
        """Let requests that have arrived come as far as the queue, then take items from it."""
        for _ in range(_TURNS_TO_QUEUE):
            await asyncio.sleep(0)
        group: list[Waiting[Item, Receipt]] = []
        claims = 0
        while self._waiting and len(group) < self._commit_size and claims < _MOST_CLAIMS:
            waiting = self._waiting.popleft()
            _, idempotent, outcome = waiting
            if not outcome.done():  # its caller disconnected before the write began
                group.append(waiting)
                claims += idempotent is not None
        return group

    def _write(self, group: Sequence[Waiting[Item, Receipt]]) -> list[Receipt | Response | Exception]:
        """Write items in one transaction. If an item makes it fail, write smaller groups: only that item fails."""
        try:
            record = self._prepare([item for item, _, _ in group])
            with self._database.begin() as conn:
                return self._record(conn, group, record)
        except DatabaseContendedError as error:
            # A deadlock says nothing about an item. Smaller transactions are less likely to meet the next one.
            return self._write_halves(group, error)
        except UnavailableError as error:
            return [error] * len(group)
        except Exception as error:  # noqa: BLE001  whatever it is, the other items of the group must not share it
            return self._write_halves(group, error)

    def _record(
        self, conn: Connection, group: Sequence[Waiting[Item, Receipt]], record: Record[Item, Receipt]
    ) -> list[Receipt | Response | Exception]:
        claims = [(place, idempotent[0]) for place, (_, idempotent, _) in enumerate(group) if idempotent]
        outcomes: dict[int, Receipt | Response | Exception] = {}
        if claims:
            resolved = resolve_claims(conn, [claim for _, claim in claims])
            outcomes.update((claims[i][0], response) for i, response in resolved.items())
        new = [place for place in range(len(group)) if place not in outcomes]
        responses: list[tuple[IdempotencyClaim, Response]] = []
        for place, receipt in zip(new, record(conn, [group[place][0] for place in new]), strict=True):
            outcomes[place] = receipt
            idempotent = group[place][1]
            if idempotent and not isinstance(receipt, StableArenaError):
                claim, render = idempotent
                outcomes[place] = response = render(receipt)
                responses.append((claim, response))
        if responses:
            store_responses(conn, responses)
        return [outcomes[place] for place in range(len(group))]

    def _write_halves(
        self, group: Sequence[Waiting[Item, Receipt]], error: Exception
    ) -> list[Receipt | Response | Exception]:
        if len(group) == 1:
            return [self._failure(error)]
        half = len(group) // 2
        return self._write(group[:half]) + self._write(group[half:])

    def _failure(self, error: Exception) -> Exception:
        if isinstance(error, DataError):
            return invalid_input((FieldError("", "holds a value that cannot be stored"),))
        if not isinstance(error, StableArenaError):
            log.error("write_failed", what=self._what, exc_info=error)
        return error


def _stopped(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else ShuttingDownError("the service is shutting down")


def _resolve(group: Sequence[Waiting[Item, Receipt]], outcomes: Sequence[Receipt | Response | Exception]) -> None:
    for (_, _, future), outcome in zip(group, outcomes, strict=True):
        if future.done():
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
