from datetime import datetime
from uuid import UUID

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.annotators.schemas import FoundAnnotator
from app.review.evidence.own_votes import OwnVotes, own_votes
from app.review.evidence.published import Published, expect, published_board
from app.review.queries import list_votes
from app.snapshots.queries import newest_snapshot
from app.votes.rules import WINNERS, Winner

SURPRISING = 0.1
"""A verdict that a typical annotator would give less often than this is surprising."""


class Chance(BaseModel):
    """How likely a verdict was by the newest board, the annotator's own votes having had their part in it."""

    model_config = ConfigDict(frozen=True)

    probability: float = Field(description="That this annotator, of the ability estimated, gives this verdict.")
    typical_probability: float = Field(description="That a typical annotator, of ability 1, does.")
    surprising: bool = Field(description="Whether a typical annotator would give it in fewer than one of ten cases.")


class ListedVote(BaseModel):
    """One vote of an annotator, without its metadata, under the names that the models have today."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    battle_id: str | None
    model_a: str
    model_b: str
    winner: Winner
    voted_at: datetime | None
    received_at: datetime
    retracted: bool = Field(description="Whether it was taken back; `GET /votes/{id}` says by whom and why.")
    replaced: bool = Field(description="Whether the annotator gave another verdict on the battle later.")
    chance: Chance | None = Field(description="Null where a model has no score on the newest board.")


def list_own_votes(
    conn: Connection, annotator: FoundAnnotator, *, limit: int, before: UUID | None = None
) -> list[ListedVote]:
    """Return the annotator's votes, the one recorded last first, those recorded before the one with the id `before`."""
    rows = list_votes(conn, annotator.annotator_id, limit=limit, before=before)
    newest = newest_snapshot(conn)
    chances: list[Chance | None] = [None] * len(rows)
    if newest is not None and rows:
        board = published_board(conn, newest["id"])
        pairs = np.array([(row["model_a_id"], row["model_b_id"], row["outcome"]) for row in rows], dtype=np.int64)
        chances = _chances(board, own_votes(conn, annotator, board), pairs)
    return [
        ListedVote.model_validate({**row, "winner": WINNERS[row["outcome"]], "chance": chance})
        for row, chance in zip(rows, chances, strict=True)
    ]


def _chances(
    board: Published, votes: OwnVotes, pairs: np.ndarray[tuple[int, int], np.dtype[np.int64]]
) -> list[Chance | None]:
    gap = board.gap(pairs[:, 0], pairs[:, 1])
    known = np.isfinite(gap)
    outcome = pairs[known, 2]
    own = expect(gap[known], votes.ability, votes.tie_weight).of(outcome)
    typical = expect(gap[known], 1.0, votes.tie_weight).of(outcome)
    told = iter(zip(own.tolist(), typical.tolist(), strict=True))
    return [chance(*next(told)) if here else None for here in known]


def chance(own: float, typical: float) -> Chance:
    """Return how likely a verdict was."""
    return Chance(probability=own, typical_probability=typical, surprising=typical < SURPRISING)
