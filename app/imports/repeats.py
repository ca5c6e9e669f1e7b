"""What becomes of a file's votes on battles that their annotators have judged already: as with votes that are sent."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from app.votes.bulk import LeftOut, read_left_out
from app.votes.repeats.service import receive_repeated, replaces_conflicts

RecordFault = tuple[int, str]
"""A record's number and what is wrong with it."""


@dataclass(frozen=True)
class Repeats:
    """What became of votes that were not added at first.

    Attributes
    ----------
    replaced : recorded all the same, in the place of earlier ones
    duplicates : on record already
    retracted : of these, whose vote on record is retracted
    conflicts : that contradict the record and do not change it
    """

    replaced: int
    duplicates: int
    retracted: int
    conflicts: list[RecordFault]


def receive_left_out(conn: Connection, left_out: Sequence[LeftOut], *, import_id: UUID) -> Repeats:
    """Settle the votes that `load_votes` left out in this transaction: those that may replace others do."""
    contradicted = {(one.battle_id, one.annotator_id) for one in left_out if one.contradicts}
    if not (contradicted and replaces_conflicts(conn)):
        return _as_on_record(left_out)
    # What comes after a vote that replaces another is compared with that one.
    in_dispute = [one for one in left_out if (one.battle_id, one.annotator_id) in contradicted]
    others = _as_on_record([one for one in left_out if (one.battle_id, one.annotator_id) not in contradicted])
    rows = read_left_out(conn, [one.record for one in in_dispute])
    receipts = receive_repeated(conn, [row for _, row in rows], import_id=import_id)
    fates = Counter(receipt.status for receipt in receipts.values())
    return Repeats(
        replaced=fates["created"],
        duplicates=others.duplicates + fates["duplicate"],
        # A duplicate has nothing else to say than that.
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
