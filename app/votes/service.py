"""Checked votes become rows: names become numbers, then one statement adds all of them."""

import json
import math
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import cast
from uuid import UUID

from sqlalchemy import Connection

from app.annotators.kinds import Kind, record_kinds
from app.api.group_commit import COMMIT_SIZE, GroupCommit
from app.api.problems import invalid_input
from app.auth.callers import Caller
from app.database.engine import Database
from app.database.ids import new_id
from app.errors import FieldError, StableArenaError
from app.guard.process_metrics import Gauges, highest_gauge
from app.naming.known_names import Known, KnownNames
from app.naming.service import resolve_annotators, resolve_models
from app.settings import Settings
from app.state import ProcessState
from app.votes.prompts import prompt_key
from app.votes.queries import VoteRow, insert_votes
from app.votes.repeats import receive_repeated
from app.votes.rules import OUTCOMES, model_errors, pairs_of
from app.votes.schemas import RankedVote, SealedVoteBody, Vote, VoteReceipt
from app.votes.sealed import cast_sealed_votes

Sent = tuple[Vote | RankedVote, Caller]
"""A vote and who sent it. One that a token of a key sent adds no models."""
Numbers = list[int]
"""Of a vote's models, in the order in which it names them."""
NAMED = (Vote, RankedVote)
"""Of votes that name their models. To ask first whether a vote is of another kind takes longer: pydantic's classes are
abstract base classes."""
Queued = Sent | tuple[SealedVoteBody, UUID]
"""A vote that names its models, or a vote by the token of this battle."""

QUEUED_VOTES = highest_gauge("stable_arena_vote_queue_votes", "Single votes that wait for their commit")
_QUEUE_LIMIT = highest_gauge("stable_arena_vote_queue_limit_votes", "Single votes that may wait; more get 503")


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
        super().__init__(database, self._look_up, what="votes", queue_size=queue_size, commit_size=commit_size)

    def _look_up(self, group: Sequence[Queued]) -> "partial[Sequence[VoteReceipt | StableArenaError]]":
        votes = [vote for vote, _ in group if isinstance(vote, NAMED)]
        named = {vote.annotator for vote, _ in group if not isinstance(vote, NAMED) and vote.annotator}
        return partial(_record, known=look_up_names(self._names, votes, named))


def _record(conn: Connection, group: Sequence[Queued], known: Known) -> Sequence[VoteReceipt | StableArenaError]:
    plain, sealed = {}, {}
    for place, (vote, origin) in enumerate(group):
        if isinstance(vote, NAMED) and isinstance(origin, Caller):
            plain[place] = vote, origin
        elif isinstance(vote, SealedVoteBody) and isinstance(origin, UUID):
            sealed[place] = vote, origin
    outcomes: dict[int, VoteReceipt | StableArenaError] = {}
    if plain:
        receipts = record_votes(conn, list(plain.values()), known)
        for place, receipt in zip(plain, receipts, strict=True):
            outcomes[place] = receipt if receipt.status != "invalid" else invalid_input(receipt.errors)
    if sealed:
        outcomes.update(zip(sealed, cast_sealed_votes(conn, list(sealed.values()), known.annotators), strict=True))
    return [outcomes[place] for place in range(len(group))]


def provide_vote_queue(state: ProcessState) -> None:
    """Hold the queue, which records the votes that wait before the process ends."""
    size = state[Settings].ingest.queue_size
    state[VoteQueue] = queue = VoteQueue(state[Database], queue_size=size, names=state[KnownNames])
    state[Gauges].watch(QUEUED_VOTES, lambda: queue.waiting)
    state[Gauges].watch(_QUEUE_LIMIT, lambda: size)
    state.closing.push_async_callback(queue.close)


def look_up_names(
    names: KnownNames, votes: Sequence[Vote | RankedVote], annotators: AbstractSet[str] = frozenset()
) -> Known:
    """Return the numbers of the names in these votes and of further annotators, as far as they are on record."""
    models = {name for vote in votes for name in vote.names}
    return names.look_up(models, {*annotators, *(vote.annotator for vote in votes)})


def record_votes(conn: Connection, sent: Sequence[Sent], known: Known) -> list[VoteReceipt]:
    """Record votes and return what became of each, in order.

    An annotator votes once on a battle by each criterion. The same verdict again, sides swapped or not, is a duplicate.
    Another verdict is a conflict, or it replaces the vote on record if the policy says so.

    Needs a READ COMMITTED transaction. A name that is not in `known` is read here, and added if it is new.
    """
    models, receipts = _number_models(conn, sent, known)
    annotators: Mapping[str, int] = known.annotators
    if unknown := {sent[i][0].annotator for i in models if sent[i][0].annotator not in annotators}:
        annotators = ChainMap(resolve_annotators(conn, unknown), known.annotators)
    _refuse_other_kinds(conn, sent, models, annotators, receipts)
    models = {i: numbers for i, numbers in models.items() if i not in receipts} if receipts else models
    rows = [_row(*sent[i], numbers, annotators) for i, numbers in models.items()]
    # Writers that insert the same battles in the same order wait for each other instead of deadlocking.
    in_order = sorted(rows, key=lambda row: (row.battle_id or "", row.annotator_id, row.criterion or ""))
    left_out = insert_votes(conn, in_order) if rows else set()
    repeated = receive_repeated(conn, [row for row in rows if row.id in left_out]) if left_out else {}
    for i, row in zip(models, rows, strict=True):
        receipt = (repeated and repeated.get(row.id)) or VoteReceipt("created", row.id)
        if row.ranking is not None and receipt.status == "created":
            receipt = receipt._replace(pairs=math.comb(len(models[i]), 2))
        receipts[i] = receipt
    return [receipts[i] for i in range(len(sent))]


def _number_models(
    conn: Connection, sent: Sequence[Sent], known: Known
) -> tuple[dict[int, Numbers], dict[int, VoteReceipt]]:
    """Return the models of each vote by its place, and the receipts of votes whose models cannot be recorded."""
    models: dict[int, Numbers] = {}
    invalid: dict[int, VoteReceipt] = {}
    unknown = []
    for i, (vote, caller) in enumerate(sent):
        numbers = [known.models.get(name) for name in vote.names]
        if None in numbers:
            unknown.append((i, vote, caller.token_id is not None))
        else:
            models[i] = cast("Numbers", numbers)
    if not unknown:
        return models, invalid
    named = {
        of_token: {(name, vote.voted_at) for _, vote, by_token in unknown if by_token == of_token
                   for name in vote.names}
        for of_token in (False, True)
    }  # fmt: skip
    found = resolve_models(conn, named[False], only_known=named[True])
    for i, vote, by_token in unknown:
        if errors := model_errors(found, vote.models, vote.voted_at, by_token=by_token):
            invalid[i] = VoteReceipt.invalid(errors)
        else:
            models[i] = [found.number(name, vote.voted_at) or 0 for name in vote.names]
    return dict(sorted(models.items())), invalid


def _refuse_other_kinds(
    conn: Connection, sent: Sequence[Sent], places: Iterable[int], annotators: Mapping[str, int],
    receipts: dict[int, VoteReceipt],
) -> None:  # fmt: skip
    """Note the kinds of annotators that votes say; add the receipts of votes that may not say it, or say another."""
    said: dict[int, tuple[int, Kind]] = {}
    for i in places:
        vote, caller = sent[i]
        if vote.annotator_kind and caller.token_id is None:
            said[i] = annotators[vote.annotator], vote.annotator_kind
        elif vote.annotator_kind:
            fault = FieldError("/annotator_kind", "cannot be said with a token, which a browser has")
            receipts[i] = VoteReceipt.invalid((fault,))
    if not said:  # nearly always
        return
    first = {number: kind for _, (number, kind) in sorted(said.items(), reverse=True)}
    others = first | record_kinds(conn, first)
    for i, (number, kind) in said.items():
        if kind != others[number]:
            fault = FieldError("/annotator_kind", f"the annotator is on record as {others[number]}")
            receipts[i] = VoteReceipt.invalid((fault,))


def _row(vote: Vote | RankedVote, caller: Caller, models: Numbers, annotators: Mapping[str, int]) -> VoteRow:
    if isinstance(vote, Vote):
        (a, b), outcome, ranking, features = models, OUTCOMES[vote.winner], None, vote.features
    else:
        number = dict(zip(vote.names, models, strict=True))
        groups = [[number[name] for name in group] for group in vote.ranking]
        (a, b, outcome), ranking, features = pairs_of(groups)[0], json.dumps(groups), None
    return VoteRow(
        new_id(),
        annotators[vote.annotator],
        a,
        b,
        outcome,
        vote.battle_id,
        vote.voted_at,
        vote.tags,
        json.dumps(vote.metadata, ensure_ascii=False) if vote.metadata else None,
        json.dumps(features, ensure_ascii=False) if features else None,
        caller.key_id,
        vote.criterion,
        0,
        ranking,
        None if vote.prompt is None else prompt_key(vote.prompt),
    )
