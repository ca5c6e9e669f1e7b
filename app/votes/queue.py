from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection

from app.api.group_commit import COMMIT_SIZE, GroupCommit
from app.api.problems import invalid_input
from app.database.engine import Database
from app.errors import StableArenaError
from app.guard.process_metrics import Gauges
from app.naming.known_names import Known, KnownNames
from app.settings import Settings
from app.state import ProcessState
from app.votes.metrics import QUEUE_LIMIT, QUEUED_VOTES
from app.votes.receipts import VoteReceipt
from app.votes.sealed.service import SealedVote, cast_sealed_votes
from app.votes.service import Submission, look_up_names, record_votes

Queued = Submission | SealedVote
"""A vote that names its models, or a vote by a battle's token."""


class VoteQueue(GroupCommit[Queued, VoteReceipt]):
    """Single votes, which share commits."""

    def __init__(
        self,
        database: Database,
        *,
        queue_size: int,
        commit_size: int = COMMIT_SIZE,
        names: KnownNames | None = None,
    ) -> None:
        self._names = names or KnownNames(database)
        super().__init__(
            database,
            self._look_up,
            what="votes",
            queue_size=queue_size,
            commit_size=commit_size,
        )

    def _look_up(self, group: Sequence[Queued]) -> "partial[Sequence[VoteReceipt | StableArenaError]]":
        votes = [queued.vote for queued in group if not isinstance(queued, SealedVote)]
        named = {queued.annotator for queued in group if isinstance(queued, SealedVote) and queued.annotator}
        return partial(_record, known=look_up_names(self._names, votes, named))


def _record(conn: Connection, group: Sequence[Queued], known: Known) -> Sequence[VoteReceipt | StableArenaError]:
    sealed = [(place, queued) for place, queued in enumerate(group) if isinstance(queued, SealedVote)]
    plain = [(place, queued) for place, queued in enumerate(group) if not isinstance(queued, SealedVote)]
    outcomes: dict[int, VoteReceipt | StableArenaError] = {}
    if plain:
        receipts = record_votes(conn, [submission for _, submission in plain], known)
        for (place, _), receipt in zip(plain, receipts, strict=True):
            outcomes[place] = receipt if receipt.status != "invalid" else invalid_input(receipt.errors)
    if sealed:
        cast = cast_sealed_votes(conn, [vote for _, vote in sealed], known.annotators)
        outcomes.update(zip((place for place, _ in sealed), cast, strict=True))
    return [outcomes[place] for place in range(len(group))]


def provide_vote_queue(state: ProcessState) -> None:
    """Hold the queue, which records the votes that wait before the process ends."""
    size = state[Settings].ingest.queue_size
    state[VoteQueue] = queue = VoteQueue(state[Database], queue_size=size, names=state[KnownNames])
    state[Gauges].watch(QUEUED_VOTES, lambda: queue.waiting)
    state[Gauges].watch(QUEUE_LIMIT, lambda: size)
    state.closing.push_async_callback(queue.close)
