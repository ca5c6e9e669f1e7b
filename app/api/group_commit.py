import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DataError

from app.api.idempotency.service import IdempotencyClaim, Resolved, StoredResponse, resolve_claims, store_responses
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


@dataclass(frozen=True)
class IdempotentSubmission(Generic[Receipt]):
    """The idempotency claim that came with an item, and how the item's receipt becomes a response."""

    claim: IdempotencyClaim
    render: Callable[[Receipt], StoredResponse]


@dataclass(frozen=True, slots=True)
class _Queued(Generic[Item, Receipt]):
    item: Item
    idempotent: IdempotentSubmission[Receipt] | None
    outcome: asyncio.Future[Receipt | StoredResponse]


class GroupCommit(Generic[Item, Receipt]):
    """A queue whose items, if they arrive during one write, share the next one.

    An idle queue writes an item at once. A busy one spends one commit on many. An item is answered after the commit
    that holds it, never before. A queue belongs to one event loop, and writes in a thread of its own.

    Parameters
    ----------
    prepare : called with a group before its transaction begins; returns what records it. A refused item is not stored
        under its idempotency key, so it may be sent again.
    what : the items' name in messages, such as "votes"
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
        self._waiting: deque[_Queued[Item, Receipt]] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=what)
        self._closed = False

    async def submit(self, item: Item) -> Receipt:
        """Record an item and return its receipt once it is durable.

        If the caller disconnects meanwhile, the item may or may not be recorded.

        Raises
        ------
        StableArenaError
            The item was refused.
        UnavailableError
            The queue is full or closed, or the database failed. The item may be sent again. After a lost connection it
            may be recorded already.
        """
        return cast("Receipt", await self._enqueue(item, None))

    async def submit_once(self, item: Item, idempotent: IdempotentSubmission[Receipt]) -> StoredResponse:
        """Record an item and return its response, or the response to an earlier request with the same key.

        The response is stored in the transaction that holds the item.

        Raises
        ------
        StableArenaError
            The item was refused, or the key belongs to another request or to one that is under way.
        UnavailableError
            After a lost connection too, it is harmless to send the request again with its key.
        """
        return cast("StoredResponse", await self._enqueue(item, idempotent))

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

    async def _enqueue(self, item: Item, idempotent: IdempotentSubmission[Receipt] | None) -> Receipt | StoredResponse:
        if self._closed:
            raise ShuttingDownError("the service is shutting down")
        if len(self._waiting) >= self._queue_size:
            raise QueueFullError(f"{self._queue_size} {self._what} are waiting already")
        outcome: asyncio.Future[Receipt | StoredResponse] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Queued(item, idempotent, outcome))
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

    async def _next_group(self) -> list[_Queued[Item, Receipt]]:
        """Let requests that have arrived come as far as the queue, then take items from it."""
        for _ in range(_TURNS_TO_QUEUE):
            await asyncio.sleep(0)
        group: list[_Queued[Item, Receipt]] = []
        claims = 0
        while self._waiting and len(group) < self._commit_size and claims < _MOST_CLAIMS:
            queued = self._waiting.popleft()
            if not queued.outcome.done():  # its caller disconnected before the write began
                group.append(queued)
                claims += queued.idempotent is not None
        return group

    def _write(self, group: Sequence[_Queued[Item, Receipt]]) -> list[Receipt | StoredResponse | Exception]:
        """Write items in one transaction. If an item makes it fail, write smaller groups: only that item fails."""
        try:
            record = self._prepare([queued.item for queued in group])
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
        self, conn: Connection, group: Sequence[_Queued[Item, Receipt]], record: Record[Item, Receipt]
    ) -> list[Receipt | StoredResponse | Exception]:
        resolved = _resolve_claims(conn, group)
        new = [(place, queued) for place, queued in enumerate(group) if place not in resolved]
        receipts = record(conn, [queued.item for _, queued in new])
        outcomes: dict[int, Receipt | StoredResponse | Exception] = {**resolved}
        responses: list[tuple[IdempotencyClaim, StoredResponse]] = []
        for (place, queued), receipt in zip(new, receipts, strict=True):
            outcomes[place] = receipt
            if queued.idempotent and not isinstance(receipt, StableArenaError):
                outcomes[place] = response = queued.idempotent.render(receipt)
                responses.append((queued.idempotent.claim, response))
        if responses:
            store_responses(conn, responses)
        return [outcomes[place] for place in range(len(group))]

    def _write_halves(
        self, group: Sequence[_Queued[Item, Receipt]], error: Exception
    ) -> list[Receipt | StoredResponse | Exception]:
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


def _resolve_claims(conn: Connection, group: Sequence[_Queued[Item, Receipt]]) -> dict[int, Resolved]:
    """Return, by place, the items that must not be recorded, because of their idempotency keys."""
    idempotent = [(place, queued.idempotent.claim) for place, queued in enumerate(group) if queued.idempotent]
    if not idempotent:
        return {}
    resolved = resolve_claims(conn, [claim for _, claim in idempotent])
    return {idempotent[i][0]: response for i, response in resolved.items()}


def _stopped(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else ShuttingDownError("the service is shutting down")


def _resolve(group: Sequence[_Queued[Item, Receipt]], outcomes: Sequence[Receipt | StoredResponse | Exception]) -> None:
    for queued, outcome in zip(group, outcomes, strict=True):
        if queued.outcome.done():
            continue
        if isinstance(outcome, Exception):
            queued.outcome.set_exception(outcome)
        else:
            queued.outcome.set_result(outcome)
