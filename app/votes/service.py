"""Checked votes become rows: names become numbers, then one statement adds all of them."""

import json
from collections import ChainMap
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.database.ids import new_id
from app.naming.known_names import Known, KnownNames
from app.naming.service import resolve_annotators, resolve_models
from app.votes.queries import VoteRow, insert_votes
from app.votes.receipts import VoteReceipt, invalid_receipt
from app.votes.repeats import receive_repeated
from app.votes.rules import OUTCOMES, model_errors
from app.votes.schemas import Vote


class Submission(NamedTuple):
    """A vote and the API key that sent it. One that a token of the key sent adds no models."""

    vote: Vote
    api_key_id: UUID | None = None
    by_token: bool = False


def look_up_names(names: KnownNames, votes: Sequence[Vote], annotators: AbstractSet[str] = frozenset()) -> Known:
    """Return the numbers of the names in these votes and of further annotators, as far as they are on record."""
    models = {name for vote in votes for name in (vote.model_a, vote.model_b)}
    return names.look_up(models, {*annotators, *(vote.annotator for vote in votes)})


def record_votes(conn: Connection, submissions: Sequence[Submission], known: Known) -> list[VoteReceipt]:
    """Record votes and return what became of each, in order.

    An annotator votes once on a battle. The same verdict again, sides swapped or not, is a duplicate. Another verdict
    is a conflict, or it replaces the vote on record if the policy says so.

    Needs a READ COMMITTED transaction. A name that is not in `known` is read here, and added if it is new.
    """
    pairs, receipts = _number_models(conn, submissions, known)
    if not pairs:
        return [receipts[i] for i in range(len(submissions))]
    annotators: Mapping[str, int] = known.annotators
    if unknown := {submissions[i].vote.annotator for i in pairs if submissions[i].vote.annotator not in annotators}:
        annotators = ChainMap(resolve_annotators(conn, unknown), known.annotators)
    rows = [_row(submissions[i], pair, annotators) for i, pair in pairs.items()]
    # Writers that insert the same battles in the same order wait for each other instead of deadlocking.
    left_out = insert_votes(conn, sorted(rows, key=lambda row: (row.battle_id or "", row.annotator_id)))
    repeated = receive_repeated(conn, [row for row in rows if row.id in left_out]) if left_out else {}
    for i, row in zip(pairs, rows, strict=True):
        receipts[i] = repeated.get(row.id) or VoteReceipt("created", row.id)
    return [receipts[i] for i in range(len(submissions))]


def _number_models(
    conn: Connection, submissions: Sequence[Submission], known: Known
) -> tuple[dict[int, tuple[int, int]], dict[int, VoteReceipt]]:
    """Return the two models of each vote by its place, and the receipts of votes whose models cannot be recorded."""
    pairs: dict[int, tuple[int, int]] = {}
    invalid: dict[int, VoteReceipt] = {}
    unknown = []
    for i, (vote, _, by_token) in enumerate(submissions):
        a, b = known.models.get(vote.model_a), known.models.get(vote.model_b)
        if a is None or b is None:
            unknown.append((i, vote, by_token))
        else:
            pairs[i] = a, b
    if not unknown:
        return pairs, invalid
    named = {
        of_token: {(name, vote.voted_at) for _, vote, by_token in unknown if by_token == of_token
                   for name in (vote.model_a, vote.model_b)}
        for of_token in (False, True)
    }  # fmt: skip
    found = resolve_models(conn, named[False], only_known=named[True])
    for i, vote, by_token in unknown:
        a, b = found.number(vote.model_a, vote.voted_at), found.number(vote.model_b, vote.voted_at)
        if a is None or b is None or a == b:
            errors = model_errors(found, vote.model_a, vote.model_b, vote.voted_at, by_token=by_token)
            invalid[i] = invalid_receipt(errors)
        else:
            pairs[i] = a, b
    return dict(sorted(pairs.items())), invalid


def _row(submission: Submission, models: tuple[int, int], annotators: Mapping[str, int]) -> VoteRow:
    vote = submission.vote
    return VoteRow(
        new_id(),
        annotators[vote.annotator],
        *models,
        OUTCOMES[vote.winner],
        vote.battle_id,
        vote.voted_at,
        vote.tags,
        json.dumps(vote.metadata, ensure_ascii=False) if vote.metadata else None,
        submission.api_key_id,
    )
