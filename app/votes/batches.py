"""Batches of votes: one transaction, and a result for each vote."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pydantic_core import to_json
from sqlalchemy import Connection

from app.api.idempotency.service import IdempotencyClaim, StoredResponse, run_once
from app.auth.callers import Caller
from app.database.engine import Database
from app.errors import FieldError, UnavailableError
from app.guard.process_metrics import Gauges
from app.naming.known_names import KnownNames
from app.settings import Settings
from app.state import ProcessState
from app.votes.metrics import BATCH_BYTES, BATCH_LIMIT
from app.votes.receipts import VoteReceipt, invalid_receipt
from app.votes.schemas import Vote, VoteCounts, parse_batch
from app.votes.service import Submission, look_up_names, record_votes

_LEAST_BYTES = 16 * 1024  # memory that even the smallest batch needs: a task, a thread
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

        Raises
        ------
        TooManyBatchesError
            Other batches are in work, and this one would exceed the limit. A single batch never does.
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
        claim: IdempotencyClaim | None,
        *,
        count: Callable[[Counter[str]], None] = lambda _: None,
    ) -> tuple[StoredResponse, Counter[str]]:
        """Record the votes of a request's body. Return the response, and how many votes have each status.

        A replayed response counts no votes. `count` is called with the number of valid votes of each annotator, before
        anything is stored; it may refuse the batch.
        """
        votes: dict[int, Vote] = {}
        receipts: dict[int, VoteReceipt] = {}
        for i, item in enumerate(parse_batch(body)):
            if isinstance(item, tuple):
                receipts[i] = invalid_receipt(item)
            elif caller.binding and not caller.may_vote_as(item.annotator):
                receipts[i] = invalid_receipt(_FOREIGN_ANNOTATOR)
            else:
                votes[i] = item
        count(Counter(vote.annotator for vote in votes.values()))
        known = look_up_names(self._names, list(votes.values()))
        counts: Counter[str] = Counter()

        def store(conn: Connection) -> StoredResponse:
            by_token = caller.token_id is not None
            recorded = record_votes(conn, [Submission(vote, caller.key_id, by_token) for vote in votes.values()], known)
            receipts.update(zip(votes, recorded, strict=True))
            counts.update(receipt.status for receipt in receipts.values())
            results = [_result(i, receipts[i]) for i in range(len(receipts))]
            return StoredResponse(200, to_json({"results": results, "counts": VoteCounts.model_validate(counts)}))

        with self._database.begin() as conn:
            return run_once(conn, claim, lambda: store(conn)), counts


def provide_batches(state: ProcessState) -> None:
    """Hold the batches in work."""
    settings = state[Settings]
    state[Batches] = batches = Batches(state[Database], state[KnownNames], settings)
    state[Gauges].watch(BATCH_BYTES, lambda: batches.bytes)
    state[Gauges].watch(BATCH_LIMIT, lambda: settings.ingest.batch_bytes)


def _result(index: int, receipt: VoteReceipt) -> dict[str, object]:
    """Return what `VoteResult` describes. Ten thousand of its instances would take as long as everything else."""
    result: dict[str, object] = {"index": index, "status": receipt.status}
    if receipt.id is not None:
        result["id"] = receipt.id
    if receipt.replaces is not None:
        result["replaces"] = receipt.replaces
    if receipt.detail is not None:
        result["detail"] = receipt.detail
    if receipt.errors:
        result["errors"] = [{"pointer": error.pointer, "detail": error.detail} for error in receipt.errors]
    return result
