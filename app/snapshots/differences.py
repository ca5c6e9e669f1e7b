"""Which of two models is better, and how sure that is: one test for every page, table and answer."""

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from app.database.tables import models, snapshot_models
from app.snapshots.queries import is_archived

Word = Literal["better", "likely-better", "level", "likely-worse", "worse"]
WORDS: tuple[Word, ...] = ("worse", "likely-worse", "level", "likely-better", "better")
"""Of how sure it is that the first of two models is better, less how sure that the second is, from −2 to 2."""
_LEVEL, _NONE = 2, -1
_BESIDE: dict[Word, str] = {
    "better": "better than",
    "likely-better": "likely better than",
    "level": "level with",
    "likely-worse": "likely worse than",
    "worse": "worse than",
}

MEANING = (
    "better: the difference is sure with 95 % confidence in all pairs of models together. likely-better: the 95 % "
    "interval of this one difference is above 0. level: they cannot be told apart. worse, likely-worse: the other way "
    "round. Null where one has no rank, without intervals, and in snapshots from before."
)

Sureness = NDArray[np.int8]


def pack(sureness: Sureness) -> list[bytes]:
    """Return each row as bits: which models it is at least likely better than, then which it is surely better than."""
    return [np.packbits([row > 0, row > 1], axis=1).tobytes() for row in sureness]


def unpack(rows: Sequence[bytes]) -> Sureness:
    """Return what `pack` packed, shape (n, n)."""
    bits = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), 2, -1)
    sureness: Sureness = np.unpackbits(bits, axis=2, count=len(rows)).sum(axis=1, dtype=np.int8)
    return sureness


class Differences:
    """The differences between the models of a leaderboard."""

    def __init__(
        self, names: Sequence[str], group: Sequence[int | None], archived: Sequence[bool], sureness: Sureness
    ) -> None:
        """Take the models as they are stored.

        `names`, `group`, `archived`: of the models, archived ones too; no group without a rank.
        `sureness`: that the row's model is better than the column's: 0 not at all, 1 likely, 2 sure, shape (n, n).
        """
        self._place = {name: place for place, name in enumerate(names)}
        self._shown = ~np.array(archived, dtype=np.bool_)
        of = np.array([-1 if one is None else one for one in group])
        compared = (of[:, None] == of) & (of >= 0) & ~np.eye(len(of), dtype=np.bool_)
        self._word = np.where(compared, _LEVEL + sureness - sureness.T, _NONE)  # places in `WORDS`

    def between(self, a: str, b: str) -> Word | None:
        """Say what the first model is beside the second; None where the two are not compared."""
        if a not in self._place or b not in self._place:
            return None
        word = int(self._word[self._place[a], self._place[b]])
        return None if word == _NONE else WORDS[word]

    def digits(self, model: str, others: Sequence[str]) -> str:
        """Return what a model is beside each of others of the leaderboard, as places in `WORDS`; - for no word."""
        row = self._word[self._place[model], [self._place[other] for other in others]]
        return "".join("-" if word == _NONE else str(word) for word in row.tolist())

    def describe(self, model: str) -> str:
        """Say what a model is beside the others that are not archived: better than 3, level with 2."""
        row = self._word[self._place[model], self._shown]
        number = np.bincount(row[row != _NONE], minlength=len(WORDS)).tolist()
        counted = dict(zip(WORDS, number, strict=True))
        return ", ".join(f"{words} {counted[word]:,}" for word, words in _BESIDE.items() if counted[word])


def read_differences(conn: Connection, snapshot_id: UUID, method: str = "am-elo", tag: str = "") -> Differences | None:
    """Return the differences between the models of a leaderboard; None where they are not stored."""
    c = snapshot_models.c
    columns = models.c.name, c.component, c.class_rank, is_archived(snapshot_id).label("archived"), c.above
    statement = (
        select(*columns)
        .join_from(snapshot_models, models)
        .where(c.snapshot_id == snapshot_id, c.method == method, c.tag == tag)
        .order_by(c.model_id)
    )
    rows = conn.execute(statement).all()
    if not rows or any(row.above is None for row in rows):
        return None
    return Differences(
        names=[row.name for row in rows],
        group=[None if row.class_rank is None else row.component for row in rows],
        archived=[row.archived for row in rows],
        sureness=unpack([row.above for row in rows]),
    )
