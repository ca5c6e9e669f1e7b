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

from app.database.engine import Database, DatabaseContendedError
from app.errors import FieldError, StableArenaError, UnavailableError
from app.http.idempotency.service import Answer, Claim, Settled, keep_answers, settle_claims
from app.naming.known_names import Known, KnownNames
from app.votes.service import look_up_names, record_submissions
from app.votes.vote import NewVote, VoteReceipt, check_vote, invalid_receipt

log = structlog.get_logger()

# Each key takes a lock of PostgreSQL's table of them, which holds a few thousand for all connections together.
_MOST_CLAIMS = 250

# Of the event loop: one in which those who were answered are written to, one that reads what has arrived, one in which
# its votes are queued. An idle loop has nothing to do in them; in a busy one groups are larger, hence fewer.
_TURNS_TO_QUEUE = 3

Result = VoteReceipt | Answer | Exception


class QueueFullError(UnavailableError):
    """More votes are waiting than the service means to hold."""

    code = "queue-full"
    title = "Too many votes are waiting"


class ShuttingDownError(UnavailableError):
    """The process no longer takes votes."""

    code = "shutting-down"
    title = "The service is shutting down"


@dataclass(frozen=True)
class Keyed:
    """What a submission brings that came with an idempotency key: the claim, and how its receipt is answered."""

    claim: Claim
    render: Callable[[VoteReceipt], Answer]


@dataclass(frozen=True)
class _Waiting:
    vote: NewVote
    api_key_id: UUID | None
    keyed: Keyed | None
    answer: asyncio.Future[VoteReceipt | Answer]


class VoteQueue:
    """Group commit: the votes that arrive while one write is under way share the next one.

    An idle queue writes a vote at once; a busy one spends one commit on many. A vote is answered after the
    commit that holds it, never before. Belongs to one event loop; writes run in a thread of their own.
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
        return cast("VoteReceipt", await self._submit(vote, api_key_id, None))

    async def submit_once(self, vote: NewVote, api_key_id: UUID | None, keyed: Keyed) -> Answer:
        """Do what `submit` does, unless an earlier request with the same key was answered: then answer as then.

        The answer is kept in the transaction that holds the vote; that to an invalid vote is not, as nothing was done.

        Raises
        ------
        IdempotencyKeyReusedError, IdempotencyInFlightError, UnavailableError
            After a lost connection too, sending the request again with its key is harmless.
        """
        answer = await self._submit(vote, api_key_id, keyed)
        return answer if isinstance(answer, Answer) else keyed.render(answer)

    async def _submit(self, vote: NewVote, api_key_id: UUID | None, keyed: Keyed | None) -> VoteReceipt | Answer:
        if self._closed:
            raise ShuttingDownError("the service is shutting down")
        if errors := check_vote(vote):
            return invalid_receipt(errors)
        if len(self._waiting) >= self._queue_size:
            raise QueueFullError(f"{self._queue_size} votes are waiting already")
        answer: asyncio.Future[VoteReceipt | Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(vote, api_key_id, keyed, answer))
        if self._writer is None:
            self._writer = asyncio.create_task(self._drain())
        return await answer

    @property
    def waiting(self) -> int:
        """How many votes wait for a commit to share."""
        return len(self._waiting)

    async def close(self) -> None:
        """Take no more votes, write those that were taken, and stop."""
        self._closed = True
        if self._writer is not None:
            await self._writer
        self._thread.shutdown()

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while await self._gather() and (group := self._next_group()):
                try:
                    results = await loop.run_in_executor(self._thread, self._write, group)
                except BaseException as error:
                    _answer(group, [_stopped(error)] * len(group))
                    raise
                _answer(group, results)
        finally:
            self._writer = None

    async def _gather(self) -> bool:
        """Let requests that have arrived already come as far as the queue, and say whether any vote waits."""
        for _ in range(_TURNS_TO_QUEUE):
            await asyncio.sleep(0)
        return bool(self._waiting)

    def _next_group(self) -> list[_Waiting]:
        group: list[_Waiting] = []
        claims = 0
        while self._waiting and len(group) < self._commit_size and claims < _MOST_CLAIMS:
            one = self._waiting.popleft()
            if not one.answer.done():  # its caller went away before the write began
                group.append(one)
                claims += one.keyed is not None
        return group

    def _write(self, group: Sequence[_Waiting]) -> list[Result]:
        """Write votes in one transaction; if one of them makes it fail, in smaller ones, so that only it fails."""
        try:
            known = look_up_names(self._names, [one.vote for one in group])
            with self._database.begin() as conn:
                results = self._record(conn, group, known)
        except DatabaseContendedError as error:
            # A deadlock says nothing about a vote; smaller transactions are less likely to meet the next one.
            return self._write_halves(group, error)
        except UnavailableError as error:
            return [error] * len(group)
        except Exception as error:  # noqa: BLE001  whatever it is, the neighbours must not share it
            return self._write_halves(group, error)
        return results

    def _record(self, conn: Connection, group: Sequence[_Waiting], known: Known) -> list[Result]:
        keyed = [(place, one.keyed) for place, one in enumerate(group) if one.keyed]
        settled: dict[int, Settled] = {}
        if keyed:
            claims = settle_claims(conn, [each.claim for _, each in keyed])
            settled = {keyed[i][0]: answer for i, answer in claims.items()}
        new = [(place, one) for place, one in enumerate(group) if place not in settled]
        receipts = record_submissions(conn, [(one.vote, one.api_key_id) for _, one in new], known)
        results: dict[int, Result] = {**settled}
        answers: list[tuple[Claim, Answer]] = []
        for (place, one), receipt in zip(new, receipts, strict=True):
            results[place] = receipt
            if one.keyed and receipt.status != "invalid":
                results[place] = answer = one.keyed.render(receipt)
                answers.append((one.keyed.claim, answer))
        if answers:
            keep_answers(conn, answers, keep_hours=self._idempotency_hours)
        return [results[place] for place in range(len(group))]

    def _write_halves(self, group: Sequence[_Waiting], error: Exception) -> list[Result]:
        if len(group) == 1:
            return [_refusal(error)]
        half = len(group) // 2
        return self._write(group[:half]) + self._write(group[half:])


def _refusal(error: Exception) -> Result:
    if isinstance(error, DataError):
        return invalid_receipt((FieldError("", "holds a value that cannot be stored"),))
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
