import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import cast
from uuid import UUID

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DataError

from app.database.engine import Database
from app.database.errors import DatabaseContendedError
from app.errors import FieldError, StableArenaError, UnavailableError
from app.http.idempotency.service import IdempotencyClaim, Resolved, StoredResponse, resolve_claims, store_responses
from app.naming.known_names import Known, KnownNames
from app.votes.receipts import VoteReceipt, invalid_receipt
from app.votes.schemas import Vote
from app.votes.service import look_up_names, record_votes

log = structlog.get_logger()

# Each key takes one of PostgreSQL's locks. It has a few thousand for all connections together.
_MOST_CLAIMS = 250

# Turns of the event loop before a group is closed: answers are written, arrived requests are read, their votes are
# queued. An idle loop has nothing to do in these turns. In a busy one they make larger, hence fewer, groups.
_TURNS_TO_QUEUE = 3

Outcome = VoteReceipt | StoredResponse | Exception


class QueueFullError(UnavailableError):
    """More votes are waiting than the settings allow."""

    code = "queue-full"
    title = "Too many votes are waiting"


class ShuttingDownError(UnavailableError):
    """The process no longer takes votes."""

    code = "shutting-down"
    title = "The service is shutting down"


@dataclass(frozen=True)
class IdempotentSubmission:
    """The idempotency claim that came with a vote, and how the vote's receipt becomes a response."""

    claim: IdempotencyClaim
    render: Callable[[VoteReceipt], StoredResponse]


@dataclass(frozen=True, slots=True)
class _QueuedVote:
    vote: Vote
    api_key_id: UUID | None
    idempotent: IdempotentSubmission | None
    outcome: asyncio.Future[VoteReceipt | StoredResponse]


class VoteQueue:
    """Group commit: votes that arrive during one write share the next one.

    An idle queue writes a vote at once. A busy one spends one commit on many votes. A vote is answered after the commit
    that holds it, never before. A queue belongs to one event loop, and writes in a thread of its own.
    """

    def __init__(
        self,
        database: Database,
        *,
        queue_size: int,
        commit_size: int,
        names: KnownNames | None = None,
        idempotency_hours: int = 24,
    ) -> None:
        self._database = database
        self._names = names or KnownNames(database)
        self._queue_size = queue_size
        self._commit_size = commit_size
        self._idempotency_hours = idempotency_hours
        self._waiting: deque[_QueuedVote] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="votes")
        self._closed = False

    async def submit(self, vote: Vote, api_key_id: UUID | None) -> VoteReceipt:
        """Record a vote and return its receipt once it is durable.

        If the caller disconnects meanwhile, the vote may or may not be recorded.

        Raises
        ------
        UnavailableError
            The queue is full or closed, or the database failed. The vote may be sent again. After a lost connection it
            may be recorded already; with a `battle_id`, sending it again is harmless.
        """
        return cast("VoteReceipt", await self._enqueue(vote, api_key_id, None))

    async def submit_once(
        self, vote: Vote, api_key_id: UUID | None, idempotent: IdempotentSubmission
    ) -> StoredResponse:
        """Record a vote and return its response, or the response to an earlier request with the same key.

        The response is stored in the transaction that holds the vote. The response to an invalid vote is not stored.

        Raises
        ------
        IdempotencyKeyReusedError, IdempotencyInFlightError, UnavailableError
            After a lost connection too, it is harmless to send the request again with its key.
        """
        outcome = await self._enqueue(vote, api_key_id, idempotent)
        return outcome if isinstance(outcome, StoredResponse) else idempotent.render(outcome)

    @property
    def waiting(self) -> int:
        """How many votes wait for the next commit."""
        return len(self._waiting)

    async def close(self) -> None:
        """Refuse new votes, write those that wait, and stop."""
        self._closed = True
        if self._writer is not None:
            await self._writer
        self._thread.shutdown()

    async def _enqueue(
        self, vote: Vote, api_key_id: UUID | None, idempotent: IdempotentSubmission | None
    ) -> VoteReceipt | StoredResponse:
        if self._closed:
            raise ShuttingDownError("the service is shutting down")
        if len(self._waiting) >= self._queue_size:
            raise QueueFullError(f"{self._queue_size} votes are waiting already")
        outcome: asyncio.Future[VoteReceipt | StoredResponse] = asyncio.get_running_loop().create_future()
        self._waiting.append(_QueuedVote(vote, api_key_id, idempotent, outcome))
        if self._writer is None:
            self._writer = asyncio.create_task(self._flush())
        return await outcome

    async def _flush(self) -> None:
        """Write group after group until no vote waits."""
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

    async def _next_group(self) -> list[_QueuedVote]:
        """Let requests that have arrived come as far as the queue, then take votes from it."""
        for _ in range(_TURNS_TO_QUEUE):
            await asyncio.sleep(0)
        group: list[_QueuedVote] = []
        claims = 0
        while self._waiting and len(group) < self._commit_size and claims < _MOST_CLAIMS:
            queued = self._waiting.popleft()
            if not queued.outcome.done():  # its caller disconnected before the write began
                group.append(queued)
                claims += queued.idempotent is not None
        return group

    def _write(self, group: Sequence[_QueuedVote]) -> list[Outcome]:
        """Write votes in one transaction. If it fails because of a vote, write smaller groups: only that vote fails."""
        try:
            known = look_up_names(self._names, [queued.vote for queued in group])
            with self._database.begin() as conn:
                return self._record(conn, group, known)
        except DatabaseContendedError as error:
            # A deadlock says nothing about a vote. Smaller transactions are less likely to meet the next one.
            return self._write_halves(group, error)
        except UnavailableError as error:
            return [error] * len(group)
        except Exception as error:  # noqa: BLE001  whatever it is, the other votes of the group must not share it
            return self._write_halves(group, error)

    def _record(self, conn: Connection, group: Sequence[_QueuedVote], known: Known) -> list[Outcome]:
        resolved = _resolve_claims(conn, group)
        new = [(place, queued) for place, queued in enumerate(group) if place not in resolved]
        receipts = record_votes(conn, [(queued.vote, queued.api_key_id) for _, queued in new], known)
        outcomes: dict[int, Outcome] = {**resolved}
        responses: list[tuple[IdempotencyClaim, StoredResponse]] = []
        for (place, queued), receipt in zip(new, receipts, strict=True):
            outcomes[place] = receipt
            if queued.idempotent and receipt.status != "invalid":
                outcomes[place] = response = queued.idempotent.render(receipt)
                responses.append((queued.idempotent.claim, response))
        if responses:
            store_responses(conn, responses, keep_hours=self._idempotency_hours)
        return [outcomes[place] for place in range(len(group))]

    def _write_halves(self, group: Sequence[_QueuedVote], error: Exception) -> list[Outcome]:
        if len(group) == 1:
            return [_failure(error)]
        half = len(group) // 2
        return self._write(group[:half]) + self._write(group[half:])


def _resolve_claims(conn: Connection, group: Sequence[_QueuedVote]) -> dict[int, Resolved]:
    """Return, by place, the votes that must not be recorded, because of their idempotency keys."""
    idempotent = [(place, queued.idempotent.claim) for place, queued in enumerate(group) if queued.idempotent]
    if not idempotent:
        return {}
    resolved = resolve_claims(conn, [claim for _, claim in idempotent])
    return {idempotent[i][0]: response for i, response in resolved.items()}


def _failure(error: Exception) -> Outcome:
    if isinstance(error, DataError):
        return invalid_receipt((FieldError("", "holds a value that cannot be stored"),))
    if not isinstance(error, StableArenaError):
        log.error("vote_failed", exc_info=error)
    return error


def _stopped(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else ShuttingDownError("the service is shutting down")


def _resolve(group: Sequence[_QueuedVote], outcomes: Sequence[Outcome]) -> None:
    for queued, outcome in zip(group, outcomes, strict=True):
        if queued.outcome.done():
            continue
        if isinstance(outcome, Exception):
            queued.outcome.set_exception(outcome)
        else:
            queued.outcome.set_result(outcome)
