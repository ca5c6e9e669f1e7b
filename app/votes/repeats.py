"""Votes on battles that their annotators have voted on before."""

import json
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection

from app.policy.service import current_policy
from app.votes.queries import RecordedVote, VoteRow, find_votes, insert_votes, lock_keys, retract_replaced
from app.votes.rules import pairs_of
from app.votes.schemas import VoteReceipt

MAX_REPLACEMENTS = 1_000
"""How often an annotator may change the verdict on a battle."""
TOO_MANY_VERSIONS = "the vote on record is retracted, and the annotator has changed the verdict too often"


def receive_repeated(
    conn: Connection, rows: Sequence[VoteRow], *, import_id: UUID | None = None
) -> dict[UUID, VoteReceipt]:
    """Return the receipts, by id, of votes on battles that their annotators have voted on before.

    The same verdict is a duplicate. Another verdict is a conflict and changes nothing. If the policy says `replace`, it
    is added instead, and the vote on record is retracted. Where no earlier vote counts, because all were retracted, the
    vote is added. The rows, at least one, are handled in order. `import_id` names the file that all rows come from.
    """
    keys = {row.key for row in rows}
    on_record = find_votes(conn, keys)
    receipts = {row.id: _compare(row, on_record[row.key]) for row in rows}
    open_to = {row.key for row in rows if receipts[row.id].status == "conflict"}
    if open_to:
        replacing = current_policy(conn).settings.on_conflict == "replace"
        open_to = open_to if replacing else {key for key in open_to if on_record[key].retracted}
        later = [row for row in rows if row.key in open_to]
        receipts |= _add_versions(conn, later, import_id, replacing=replacing)
    return receipts


def _add_versions(
    conn: Connection, rows: Sequence[VoteRow], import_id: UUID | None, *, replacing: bool
) -> dict[UUID, VoteReceipt]:
    """Add votes beside the earlier ones, where those are retracted or `replacing` allows it."""
    if not rows:
        return {}
    keys = {row.key for row in rows}
    lock_keys(conn, keys)
    # Read again after locking: another transaction may have added a vote in the meantime.
    latest = find_votes(conn, keys)
    receipts: dict[UUID, VoteReceipt] = {}
    added: list[VoteRow] = []
    replaced: list[tuple[UUID, UUID]] = []
    for row in rows:
        earlier = latest[row.key]
        receipt = _compare(row, earlier)
        allowed = (replacing or earlier.retracted) and earlier.last_version < MAX_REPLACEMENTS
        if receipt.status == "conflict" and allowed:
            later = row._replace(version=earlier.last_version + 1)
            added.append(later)
            if not earlier.retracted:
                replaced.append((earlier.id, row.id))
            latest[row.key] = RecordedVote(
                row.id, row.model_a_id, row.model_b_id, row.outcome, row.ranking, later.version
            )
            receipt = VoteReceipt("created", row.id, replaces=None if earlier.retracted else earlier.id)
        receipts[row.id] = receipt
    if added:
        insert_votes(conn, added, import_id=import_id)
    if replaced:
        retract_replaced(conn, replaced)
    return receipts


def _compare(row: VoteRow, earlier: RecordedVote) -> VoteReceipt:
    if earlier.retracted:
        return VoteReceipt("conflict", earlier.id, TOO_MANY_VERSIONS)
    (models, verdict), (models_before, verdict_before) = _canonical(row), _canonical(earlier)
    if (models, verdict) == (models_before, verdict_before):
        return VoteReceipt("duplicate", earlier.id)
    if models != models_before:
        detail = "the annotator has voted in this battle already, on other models"
    else:
        detail = "the annotator has voted in this battle already, with another verdict"
    return VoteReceipt("conflict", earlier.id, detail)


def _canonical(vote: VoteRow | RecordedVote) -> tuple[list[int], list[int]]:
    """Return the models in order, and the outcomes of their pairs, so that swapped sides compare as equal."""
    if vote.ranking is not None:
        groups = json.loads(vote.ranking)
        return sorted(model for group in groups for model in group), [outcome for *_, outcome in pairs_of(groups)]
    if vote.model_a_id < vote.model_b_id:
        return [vote.model_a_id, vote.model_b_id], [vote.outcome]
    return [vote.model_b_id, vote.model_a_id], [{0: 1, 1: 0}.get(vote.outcome, vote.outcome)]
