import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args
from uuid import UUID

from sqlalchemy import Connection

from app.arena.names import name_fault
from app.errors import ConflictError, Fault
from app.store.ids import new_id
from app.store.names import resolve_annotators, resolve_models
from app.store.votes import RecordedVote, VoteRow, find_votes, insert_votes

Winner = Literal["model_a", "model_b", "tie", "tie (bothbad)"]
WINNERS: tuple[Winner, ...] = get_args(Winner)
"""The outcome words; a word's place is the number that stands for it in the votes table."""

MAX_TAGS = 50
MAX_METADATA_LENGTH = 16_000
MAX_METADATA_DEPTH = 20

Status = Literal["created", "duplicate", "conflict", "invalid"]


class VoteConflictError(ConflictError):
    """The annotator has judged this battle already, otherwise; `vote_id` is the vote on record."""

    code = "vote-conflict"
    title = "The annotator has judged this battle otherwise"

    def __init__(self, detail: str, vote_id: UUID) -> None:
        super().__init__(detail)
        self.vote_id = vote_id


@dataclass(frozen=True)
class NewVote:
    """One annotator's verdict on one pair of models, as it was sent."""

    model_a: str
    model_b: str
    winner: str
    annotator: str
    battle_id: str | None = None
    voted_at: datetime | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class VoteReceipt:
    """What became of a vote.

    `id` is that of the vote on record: this one's when it was created, the earlier one's when it is a duplicate
    of it or contradicts it, None when it is invalid.
    """

    status: Status
    id: UUID | None = None
    detail: str | None = None
    faults: tuple[Fault, ...] = ()


def check_vote(vote: NewVote) -> tuple[Fault, ...]:
    """Return everything that keeps a vote from being recorded."""
    names = {"model_a": vote.model_a, "model_b": vote.model_b, "annotator": vote.annotator}
    if vote.battle_id is not None:
        names["battle_id"] = vote.battle_id
    faults = [Fault(f"/{name}", fault) for name, value in names.items() if (fault := name_fault(value))]
    if vote.model_a == vote.model_b:
        faults.append(Fault("/model_b", "must differ from model_a"))
    if vote.winner not in WINNERS:
        faults.append(Fault("/winner", f"must be one of {', '.join(WINNERS)}"))
    if vote.voted_at is not None and not _storable_moment(vote.voted_at):
        faults.append(Fault("/voted_at", "must have a time zone and lie between the years 1970 and 9999"))
    if len(vote.tags) > MAX_TAGS:
        faults.append(Fault("/tags", f"must be at most {MAX_TAGS}"))
    faults += [Fault(f"/tags/{i}", fault) for i, tag in enumerate(vote.tags[:MAX_TAGS]) if (fault := name_fault(tag))]
    if vote.metadata and (fault := _metadata_fault(vote.metadata)):
        faults.append(Fault("/metadata", fault))
    return tuple(faults)


def record_votes(conn: Connection, votes: Sequence[NewVote], *, api_key_id: UUID | None) -> list[VoteReceipt]:
    """Record votes and return what became of each, in order; an invalid one does not touch its neighbours.

    (battle, annotator) may vote once: the same verdict again, sides swapped or not, is a duplicate, another one
    a conflict, and neither changes the record. Needs a READ COMMITTED transaction.
    """
    return record_submissions(conn, [(vote, api_key_id) for vote in votes])


def record_submissions(conn: Connection, submissions: Sequence[tuple[NewVote, UUID | None]]) -> list[VoteReceipt]:
    """Do what `record_votes` does for votes that came with different keys."""
    receipts: dict[int, VoteReceipt] = {}
    valid: list[int] = []
    for i, (vote, _) in enumerate(submissions):
        if faults := check_vote(vote):
            receipts[i] = invalid_receipt(faults)
        else:
            valid.append(i)
    if valid:
        rows = _rows(conn, [submissions[i] for i in valid])
        not_added = write_rows(conn, rows)
        for i, row in zip(valid, rows, strict=True):
            receipts[i] = not_added.get(row.id) or VoteReceipt("created", row.id)
    return [receipts[i] for i in range(len(submissions))]


def invalid_receipt(faults: tuple[Fault, ...]) -> VoteReceipt:
    """Return the receipt of a vote with these faults."""
    return VoteReceipt("invalid", detail="the vote is not valid", faults=faults)


def write_rows(conn: Connection, rows: Sequence[VoteRow], *, import_id: UUID | None = None) -> dict[UUID, VoteReceipt]:
    """Add checked rows; return, by the row's id, the receipts of those that were not added."""
    # Writers that insert the same battles in the same order wait for each other instead of deadlocking.
    ordered = sorted(rows, key=lambda row: (row.battle_id or "", row.annotator_id))
    added = insert_votes(conn, ordered, import_id=import_id)
    left = [(row, (row.battle_id, row.annotator_id)) for row in rows if row.id not in added and row.battle_id]
    if not left:
        return {}
    on_record = find_votes(conn, [(battle, annotator) for _, (battle, annotator) in left if battle])
    return {row.id: _compare(row, on_record[row.battle_id or "", row.annotator_id]) for row, _ in left}


def _compare(row: VoteRow, earlier: RecordedVote) -> VoteReceipt:
    if _canonical(row) == _canonical(earlier):
        return VoteReceipt("duplicate", earlier.id)
    if {row.model_a_id, row.model_b_id} != {earlier.model_a_id, earlier.model_b_id}:
        detail = "the annotator has voted in this battle already, on other models"
    else:
        detail = "the annotator has voted in this battle already, with another verdict"
    return VoteReceipt("conflict", earlier.id, detail)


def _canonical(vote: VoteRow | RecordedVote) -> tuple[int, int, int]:
    """Return the vote with the lower-numbered model first: a battle's two sides may come swapped."""
    if vote.model_a_id < vote.model_b_id:
        return vote.model_a_id, vote.model_b_id, vote.outcome
    swapped = {0: 1, 1: 0}.get(vote.outcome, vote.outcome)
    return vote.model_b_id, vote.model_a_id, swapped


def _rows(conn: Connection, submissions: Sequence[tuple[NewVote, UUID | None]]) -> list[VoteRow]:
    model = resolve_models(conn, {name for vote, _ in submissions for name in (vote.model_a, vote.model_b)})
    annotator = resolve_annotators(conn, {vote.annotator for vote, _ in submissions})
    return [
        VoteRow(
            id=new_id(),
            annotator_id=annotator[vote.annotator],
            model_a_id=model[vote.model_a],
            model_b_id=model[vote.model_b],
            outcome=WINNERS.index(vote.winner),
            battle_id=vote.battle_id,
            voted_at=vote.voted_at,
            tags=vote.tags,
            metadata=json.dumps(vote.metadata, ensure_ascii=False) if vote.metadata else None,
            api_key_id=api_key_id,
        )
        for vote, api_key_id in submissions
    ]


def _storable_moment(moment: datetime) -> bool:
    if moment.tzinfo is None:
        return False
    earliest, latest = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
    return earliest <= moment <= latest


def _metadata_fault(metadata: dict[str, Any]) -> str | None:
    """Return what PostgreSQL's jsonb, or who reads it back, could not take."""
    waiting: list[tuple[Any, int]] = [(metadata, 1)]
    while waiting:
        value, depth = waiting.pop()
        if depth > MAX_METADATA_DEPTH:
            return f"must not nest deeper than {MAX_METADATA_DEPTH} levels"
        if isinstance(value, dict):
            waiting += [(part, depth + 1) for pair in value.items() for part in pair]
        elif isinstance(value, list):
            waiting += [(part, depth + 1) for part in value]
        elif isinstance(value, float) and not math.isfinite(value):
            return "must not contain NaN or Infinity"
        elif isinstance(value, str) and not _storable_text(value):
            return "must not contain the character U+0000 or half of a surrogate pair"
    length = len(json.dumps(metadata, ensure_ascii=False))
    return f"must have at most {MAX_METADATA_LENGTH} characters as JSON" if length > MAX_METADATA_LENGTH else None


def _storable_text(value: str) -> bool:
    return "\x00" not in value and not any("\ud800" <= c <= "\udfff" for c in value)
