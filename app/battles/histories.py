"""What annotators have seen: their last pairs, and whether they have votes enough not to be calibrated."""

from collections.abc import Collection
from dataclasses import dataclass, field

from sqlalchemy import Connection

from app.battles.queries import read_histories
from app.policy.schemas import Policy

Pair = tuple[int, int]

_MOST_REMEMBERED = 1_000_000


@dataclass(slots=True)
class History:
    """The models of an annotator's last battles, the latest first, and whether the annotator has δ votes or fewer."""

    pairs: list[Pair] = field(default_factory=list)
    new: bool = True

    def add(self, pair: Pair, gap: int) -> None:
        """Add the pair of the next battle, and forget pairs that may come again."""
        self.pairs = [pair, *self.pairs][:gap]


class Histories:
    """Reads histories, and remembers which annotators have more than δ votes: they keep them, so they are not counted.

    Belongs to one thread.
    """

    def __init__(self) -> None:
        self._min_votes = -1
        self._past: set[int] = set()

    def read(self, conn: Connection, annotator_ids: Collection[int], policy: Policy) -> dict[int, History]:
        """Return the histories of annotators on record, by number."""
        if policy.min_votes != self._min_votes or len(self._past) > _MOST_REMEMBERED:
            self._min_votes, self._past = policy.min_votes, set()
        counted = [policy.calibration_share > 0 and number not in self._past for number in annotator_ids]
        rows = read_histories(
            conn, list(annotator_ids), counted, gap=policy.battle_repeat_gap, most_votes=policy.min_votes + 1
        )
        found = {}
        for row in rows:
            if row.votes > policy.min_votes:
                self._past.add(row.annotator_id)
            pairs = list(zip(row.left_ids or (), row.right_ids or (), strict=True))
            found[row.annotator_id] = History(pairs, row.annotator_id not in self._past)
        return found
