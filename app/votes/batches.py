"""Batches of votes: one transaction, and a result for each vote."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import to_json
from sqlalchemy import Connection

from app.api.problems import field_errors, invalid_input
from app.auth.callers import Caller
from app.database.engine import Database
from app.errors import FieldError, UnavailableError
from app.guard.bodies import SMALL
from app.guard.errors import MalformedBodyError
from app.guard.process_metrics import Gauges, highest_gauge
from app.naming.known_names import KnownNames
from app.settings import Settings
from app.state import ProcessState
from app.votes.rules import MAX_METADATA_VALUES, MAX_TAGS, MAX_VOTE_BYTES
from app.votes.schemas import (
    MAX_BATCH,
    RankedVote,
    Vote,
    VoteBatch,
    VoteCounts,
    VoteReceipt,
    errors_of,
    parse_as,
    parse_named,
)
from app.votes.service import look_up_names, record_votes

Answer = TypeVar("Answer")

MAX_EXPLAINED = 100
"""Invalid votes of a batch that say what is wrong with them."""
MAX_PLACES = 100
"""Wrong places of such a vote that are named one by one."""
_MAX_PARTS = 2 * MAX_METADATA_VALUES + MAX_TAGS + 100  # a value has a comma and an opening bracket at most
_TOO_LONG = (
    FieldError("", f"is longer than any vote: {MAX_VOTE_BYTES:,} bytes, with {MAX_METADATA_VALUES} values in metadata"),
)
_UNEXPLAINED = (FieldError("", f"is invalid; only the first {MAX_EXPLAINED} invalid votes of a batch say why"),)
_LEAST_BYTES = 16 * 1024  # memory that even the smallest batch needs: a task, a thread
_BYTES = highest_gauge("stable_arena_batch_bytes", "Bytes of batches in work")
_LIMIT = highest_gauge("stable_arena_batch_limit_bytes", "Bytes of batches that may be in work; more get 503")
_FOREIGN_ANNOTATOR = (FieldError("/annotator", "is not the annotator that the token may vote for"),)


class TooManyBatchesError(UnavailableError):
    """The batches in work have as many bytes as the settings allow."""

    code = "too-many-batches"
    title = "Too many batches at once"


class Batches:
    """The batches of a process: `bytes` of them are being received or recorded now."""

    def __init__(self, database: Database, names: KnownNames, settings: Settings) -> None:
        self.bytes = 0
        self._database = database
        self._names = names
        self._settings = settings

    @contextmanager
    def reserve_memory(self, content_length: str | None) -> Iterator[None]:
        """Reserve the memory of a batch, from before its body is received until it is answered.

        A batch without a `Content-Length` may be as long as any body.

        Raises TooManyBatchesError: other batches are in work, and this one would exceed the limit. A single batch never
        does.
        """
        settings = self._settings
        size = settings.server.max_body_bytes if content_length is None else max(int(content_length), _LEAST_BYTES)
        if self.bytes and self.bytes + size > settings.ingest.batch_bytes:
            raise TooManyBatchesError(f"batches of {self.bytes:,} bytes are under way already")
        self.bytes += size
        try:
            yield
        finally:
            self.bytes -= size

    def record(
        self,
        body: bytes,
        caller: Caller,
        *,
        once: Callable[[Connection, Callable[[], bytes]], Answer],
        count: Callable[[Counter[str]], None],
    ) -> tuple[Answer, Counter[str]]:
        """Record the votes of a request's body. Return the answer, and how many votes have each status.

        `once`: called in the transaction with what records the votes and returns the answer as JSON; a repeated request
        gets its first answer, which counts no votes.
        `count`: called with the number of valid votes of each annotator, before anything is stored; it may refuse the
        batch.
        """
        votes: dict[int, Vote | RankedVote] = {}
        receipts: dict[int, VoteReceipt] = {}
        for i, item in enumerate(parse_batch(body)):
            if isinstance(item, tuple):
                receipts[i] = VoteReceipt.invalid(item)
            elif caller.binding and not caller.may_vote_as(item.annotator):
                receipts[i] = VoteReceipt.invalid(_FOREIGN_ANNOTATOR)
            else:
                votes[i] = item
        count(Counter(vote.annotator for vote in votes.values()))
        known = look_up_names(self._names, list(votes.values()))
        counts: Counter[str] = Counter()

        def store(conn: Connection) -> bytes:
            recorded = record_votes(conn, [(vote, caller) for vote in votes.values()], known)
            receipts.update(zip(votes, recorded, strict=True))
            counts.update(receipt.status for receipt in receipts.values())
            results = [{"index": i, **receipts[i].shown()} for i in range(len(receipts))]
            return to_json({"results": results, "counts": VoteCounts.model_validate(counts)})

        with self._database.begin() as conn:
            return once(conn, lambda: store(conn)), counts


def parse_batch(body: bytes) -> list[Vote | RankedVote | tuple[FieldError, ...]]:
    """Return the votes of a batch, and the errors in the place of each invalid one.

    The first invalid votes name their errors, the others only say that they are invalid. Every vote is parsed once and
    by itself: other threads can run in between.

    Raises MalformedBodyError or BadInputError: the body as a whole is not a batch.
    """
    from app.votes.batch_items import BatchItems  # noqa: PLC0415  it loads numba, and servers start without it

    items = BatchItems(body, most=MAX_BATCH)
    if items.count > MAX_BATCH:
        raise invalid_input((FieldError("/votes", f"must be at most {MAX_BATCH:,}"),))
    if not items.count:
        if len(body) > SMALL:  # saying more precisely what is wrong takes seconds
            raise MalformedBodyError('the body is not {"votes": […]} in JSON, with at least one vote and nothing else')
        return list(parse_as(VoteBatch, body).votes)
    votes: list[Vote | RankedVote | tuple[FieldError, ...]] = []
    invalid = 0
    for i, (item, parts) in enumerate(items):
        if len(item) > MAX_VOTE_BYTES or parts > _MAX_PARTS:  # no vote: parsing it would hold up other threads
            votes.append(_TOO_LONG)
            continue
        try:
            votes.append(parse_named(item))
        except ValidationError as error:
            votes.append(_item_errors(i, error, explained=invalid < MAX_EXPLAINED))
            invalid += 1
    return votes


def _item_errors(index: int, error: ValidationError, *, explained: bool) -> tuple[FieldError, ...]:
    """Return what is wrong with one vote of a batch, at a cost that does not grow with its length."""
    count = error.error_count()
    if count > MAX_PLACES:
        return (FieldError("", f"is wrong in {count:,} places"),)
    if not explained and count > 1:
        return _UNEXPLAINED
    errors = errors_of(error)
    if errors[0]["type"] == "json_invalid":
        raise MalformedBodyError(f"vote {index} is not valid JSON: {errors[0]['ctx']['error']}")
    return field_errors(errors) if explained else _UNEXPLAINED


def provide_batches(state: ProcessState) -> None:
    """Hold the batches in work."""
    settings = state[Settings]
    state[Batches] = batches = Batches(state[Database], state[KnownNames], settings)
    state[Gauges].watch(_BYTES, lambda: batches.bytes)
    state[Gauges].watch(_LIMIT, lambda: settings.ingest.batch_bytes)
