"""Handles votes of a file on battles that have a vote of the same annotator, by the rules for sent votes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from app.votes.bulk import LeftOut, read_left_out
from app.votes.repeats import receive_repeated, replaces_conflicts

RecordFault = tuple[int, str]
"""A record's number and the error in it."""


@dataclass(frozen=True)
class Repeats:
    """The votes that were left out because their annotator has a vote on their battle.

    Attributes
    ----------
    replaced : stored, in place of an earlier vote
    anew : stored, because the earlier vote is retracted
    duplicates : stored already
    conflicts : votes that contradict a stored vote and do not replace it
    """

    replaced: int
    anew: int
    duplicates: int
    conflicts: list[RecordFault]


def receive_left_out(conn: Connection, left_out: Sequence[LeftOut], *, import_id: UUID) -> Repeats:
    """Resolve the votes that `load_votes` left out in this transaction.

    A retracted vote does not keep its battle. Where the policy says so, earlier votes are replaced.
    """
    disputed = {(one.battle_id, one.annotator_id) for one in left_out if one.retracted}
    contradicted = {(one.battle_id, one.annotator_id) for one in left_out if one.contradicts}
    if contradicted - disputed and replaces_conflicts(conn):
        disputed |= contradicted
    others = _as_on_record([one for one in left_out if (one.battle_id, one.annotator_id) not in disputed])
    if not disputed:
        return others
    # a later vote is compared with the one that this file has added
    records = [one.record for one in left_out if (one.battle_id, one.annotator_id) in disputed]
    rows = read_left_out(conn, records)
    receipts = receive_repeated(conn, [row for _, row in rows], import_id=import_id)
    statuses = Counter(receipt.status for receipt in receipts.values())
    replaced = sum(receipt.replaces is not None for receipt in receipts.values())
    return Repeats(
        replaced=replaced,
        anew=statuses["created"] - replaced,
        duplicates=others.duplicates + statuses["duplicate"],
        conflicts=others.conflicts
        + [
            (record, f"{receipts[row.id].detail}: vote {receipts[row.id].id}")
            for record, row in rows
            if receipts[row.id].status == "conflict"
        ],
    )


def _as_on_record(left_out: Sequence[LeftOut]) -> Repeats:
    duplicates = [one for one in left_out if not one.contradicts]
    conflicts = [(one.record, _contradiction(one)) for one in left_out if one.contradicts]
    return Repeats(0, 0, len(duplicates), conflicts)


def _contradiction(one: LeftOut) -> str:
    how = "with another verdict" if one.same_models else "on other models"
    return f"the annotator has voted in this battle already, {how}: vote {one.vote_id}"
