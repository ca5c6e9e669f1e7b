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
    duplicates : stored already
    retracted : duplicates whose stored vote is retracted
    conflicts : votes that contradict a stored vote and do not replace it
    """

    replaced: int
    duplicates: int
    retracted: int
    conflicts: list[RecordFault]


def receive_left_out(conn: Connection, left_out: Sequence[LeftOut], *, import_id: UUID) -> Repeats:
    """Resolve the votes that `load_votes` left out in this transaction; replace earlier votes where the policy says."""
    contradicted = {(one.battle_id, one.annotator_id) for one in left_out if one.contradicts}
    if not (contradicted and replaces_conflicts(conn)):
        return _as_on_record(left_out)
    # a later vote is compared with the one that replaced the stored vote
    disputed = [one for one in left_out if (one.battle_id, one.annotator_id) in contradicted]
    others = _as_on_record([one for one in left_out if (one.battle_id, one.annotator_id) not in contradicted])
    rows = read_left_out(conn, [one.record for one in disputed])
    receipts = receive_repeated(conn, [row for _, row in rows], import_id=import_id)
    statuses = Counter(receipt.status for receipt in receipts.values())
    return Repeats(
        replaced=statuses["created"],
        duplicates=others.duplicates + statuses["duplicate"],
        # the detail of a duplicate says that its stored vote is retracted
        retracted=others.retracted + sum(r.status == "duplicate" and r.detail is not None for r in receipts.values()),
        conflicts=[
            (record, f"{receipts[row.id].detail}: vote {receipts[row.id].id}")
            for record, row in rows
            if receipts[row.id].status == "conflict"
        ],
    )


def _as_on_record(left_out: Sequence[LeftOut]) -> Repeats:
    duplicates = [one for one in left_out if not one.contradicts]
    conflicts = [(one.record, _contradiction(one)) for one in left_out if one.contradicts]
    return Repeats(0, len(duplicates), sum(one.retracted for one in duplicates), conflicts)


def _contradiction(one: LeftOut) -> str:
    how = "with another verdict" if one.same_models else "on other models"
    return f"the annotator has voted in this battle already, {how}: vote {one.vote_id}"
