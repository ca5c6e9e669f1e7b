"""Checked votes on their way into the record: names to numbers, then one statement for all of them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from sqlalchemy import Connection

from app.database.ids import new_id
from app.naming.aliases import Named
from app.naming.known_names import Known, KnownNames
from app.naming.queries import resolve_annotators, resolve_models
from app.votes.queries import VoteRow, insert_votes
from app.votes.repeats.service import receive_repeated
from app.votes.vote import WINNERS, NewVote, VoteReceipt, check_vote, invalid_receipt, model_errors

Submission = tuple[NewVote, UUID | None]
"""A vote and the API key it came with."""

_OUTCOME: dict[str, int] = {word: number for number, word in enumerate(WINNERS)}


def record_votes(conn: Connection, votes: Sequence[NewVote], *, api_key_id: UUID | None) -> list[VoteReceipt]:
    """Record votes and return what became of each, in order; an invalid one does not touch its neighbours.

    (battle, annotator) may vote once: the same verdict again, sides swapped or not, is a duplicate; another one is a
    conflict, or replaces the one on record where the policy says so. Needs a READ COMMITTED transaction.
    """
    receipts, valid = refuse_invalid(votes)
    recorded = record_submissions(conn, [(votes[i], api_key_id) for i in valid])
    receipts.update(zip(valid, recorded, strict=True))
    return [receipts[i] for i in range(len(votes))]


def refuse_invalid(votes: Sequence[NewVote]) -> tuple[dict[int, VoteReceipt], list[int]]:
    """Return the receipts of invalid votes by their place, and the places of the others."""
    receipts = {i: invalid_receipt(errors) for i, vote in enumerate(votes) if (errors := check_vote(vote))}
    return receipts, [i for i in range(len(votes)) if i not in receipts]


def look_up_names(names: KnownNames, votes: Iterable[NewVote]) -> Known:
    """Return what is known already of the names in these checked votes."""
    votes = list(votes)
    return names.read(_models_named(votes), [vote.annotator for vote in votes])


def record_submissions(
    conn: Connection, submissions: Sequence[Submission], known: Known | None = None
) -> list[VoteReceipt]:
    """Do what `record_votes` does for votes that were checked and came with different keys.

    `known` is what need not be asked for any more; of what is missing in it, new names are added.
    """
    if not submissions:
        return []
    known = known or Known()
    models = resolve_models(conn, _models_named([vote for vote, _ in submissions]), known.models)
    receipts: dict[int, VoteReceipt] = {}
    numbered: dict[int, tuple[int, int]] = {}
    for i, (vote, _) in enumerate(submissions):
        a, b = models.number(vote.model_a, vote.voted_at), models.number(vote.model_b, vote.voted_at)
        if a is None or b is None or a == b:
            receipts[i] = invalid_receipt(model_errors(models, vote.model_a, vote.model_b, vote.voted_at))
        else:
            numbered[i] = a, b
    if numbered:
        annotators = resolve_annotators(conn, {submissions[i][0].annotator for i in numbered}, known.annotators)
        rows = [_row(*submissions[i], pair, annotators) for i, pair in numbered.items()]
        not_added = write_rows(conn, rows)
        for i, row in zip(numbered, rows, strict=True):
            receipts[i] = not_added.get(row.id) or VoteReceipt("created", row.id)
    return [receipts[i] for i in range(len(submissions))]


def write_rows(conn: Connection, rows: Sequence[VoteRow]) -> dict[UUID, VoteReceipt]:
    """Add rows; return, by the row's id, the receipts of those whose battle was judged already."""
    # Writers that insert the same battles in the same order wait for each other instead of deadlocking.
    ordered = sorted(rows, key=lambda row: (row.battle_id or "", row.annotator_id))
    left_out = insert_votes(conn, ordered)
    return receive_repeated(conn, [row for row in rows if row.id in left_out]) if left_out else {}


def _models_named(votes: Iterable[NewVote]) -> set[Named]:
    return {(name, vote.voted_at) for vote in votes for name in (vote.model_a, vote.model_b)}


def _row(vote: NewVote, api_key_id: UUID | None, models: tuple[int, int], annotators: Mapping[str, int]) -> VoteRow:
    return VoteRow(
        new_id(),
        annotators[vote.annotator],
        *models,
        _OUTCOME[vote.winner],
        vote.battle_id,
        vote.voted_at,
        vote.tags,
        json.dumps(vote.metadata, ensure_ascii=False) if vote.metadata else None,
        api_key_id,
    )
