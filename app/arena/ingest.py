import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from uuid import UUID

import structlog
from sqlalchemy.exc import DataError

from app.arena.votes import NewVote, VoteReceipt, record_submissions
from app.errors import Fault, StableArenaError, UnavailableError
from app.store.database import Database, DatabaseContendedError

log = structlog.get_logger()

Result = VoteReceipt | Exception


class QueueFullError(UnavailableError):
    """More votes are waiting than the service means to hold."""

    code = "queue-full"
    title = "Too many votes are waiting"


class ShuttingDownError(UnavailableError):
    """The process no longer takes votes."""

    code = "shutting-down"
    title = "The service is shutting down"


@dataclass(frozen=True)
class _Waiting:
    submission: tuple[NewVote, UUID | None]
    answer: asyncio.Future[VoteReceipt]


class VoteQueue:
    """Group commit: the votes that arrive while one write is under way share the next one.

    An idle queue writes a vote at once; a busy one spends one commit on many. A vote is answered after the
    commit that holds it, never before. Belongs to one event loop; writes run in a thread of their own.
    """

    def __init__(self, database: Database, *, queue_size: int, commit_size: int) -> None:
        self._database = database
        self._queue_size = queue_size
        self._commit_size = commit_size
        self._waiting: deque[_Waiting] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="votes")
        self._closed = False

    async def submit(self, vote: NewVote, api_key_id: UUID | None) -> VoteReceipt:
        """Record a vote and return its receipt once it is durable.

        Who stops waiting (a caller that went away) leaves the vote to its fate: it may have been recorded.

        Raises
        ------
        UnavailableError
            The queue is full or closed, or the database failed: the vote may be sent again. After a lost
            connection it may have been recorded all the same; with a battle_id sending it again is harmless.
        """
        if self._closed:
            raise ShuttingDownError("the service is shutting down")
        if len(self._waiting) >= self._queue_size:
            raise QueueFullError(f"{self._queue_size} votes are waiting already")
        answer: asyncio.Future[VoteReceipt] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting((vote, api_key_id), answer))
        if self._writer is None:
            self._writer = asyncio.create_task(self._drain())
        return await answer

    async def close(self) -> None:
        """Take no more votes, write those that were taken, and stop."""
        self._closed = True
        if self._writer is not None:
            await self._writer
        self._thread.shutdown()

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while group := self._next_group():
                submissions = [one.submission for one in group]
                try:
                    results = await loop.run_in_executor(self._thread, self._write, submissions)
                except BaseException as error:
                    _answer(group, [_stopped(error)] * len(group))
                    raise
                _answer(group, results)
        finally:
            self._writer = None

    def _next_group(self) -> list[_Waiting]:
        group: list[_Waiting] = []
        while self._waiting and len(group) < self._commit_size:
            one = self._waiting.popleft()
            if not one.answer.done():  # its caller went away before the write began
                group.append(one)
        return group

    def _write(self, submissions: Sequence[tuple[NewVote, UUID | None]]) -> list[Result]:
        """Write votes in one transaction; if one of them makes it fail, in smaller ones, so that only it fails."""
        try:
            with self._database.begin() as conn:
                receipts = record_submissions(conn, submissions)
        except DatabaseContendedError as error:
            # A deadlock says nothing about a vote; smaller transactions are less likely to meet the next one.
            return self._write_halves(submissions, error)
        except UnavailableError as error:
            return [error] * len(submissions)
        except Exception as error:  # noqa: BLE001  whatever it is, the neighbours must not share it
            return self._write_halves(submissions, error)
        return list(receipts)

    def _write_halves(self, submissions: Sequence[tuple[NewVote, UUID | None]], error: Exception) -> list[Result]:
        if len(submissions) == 1:
            return [_refusal(error)]
        half = len(submissions) // 2
        return self._write(submissions[:half]) + self._write(submissions[half:])


def _refusal(error: Exception) -> Result:
    if isinstance(error, DataError):
        fault = Fault("", "holds a value that cannot be stored")
        return VoteReceipt("invalid", detail="the vote is not valid", faults=(fault,))
    if not isinstance(error, StableArenaError):
        log.error("vote_failed", exc_info=error)
    return error


def _stopped(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else ShuttingDownError("the service is shutting down")


def _answer(group: Sequence[_Waiting], results: Sequence[Result]) -> None:
    for one, result in zip(group, results, strict=True):
        if one.answer.done():
            continue
        if isinstance(result, Exception):
            one.answer.set_exception(result)
        else:
            one.answer.set_result(result)
