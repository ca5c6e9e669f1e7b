from uuid import UUID

import numpy as np
from sqlalchemy import Connection

from app.annotators.schemas import FoundAnnotator
from app.review.evidence.annotator_votes import AnnotatorVotes, read_annotator_votes
from app.review.evidence.expectations import PublishedScores, expect, read_scores
from app.review.evidence.schemas import Chance, ListedVote
from app.review.queries import list_votes
from app.snapshots.queries import newest_snapshot
from app.votes.rules import WINNERS

SURPRISING = 0.1
"""A verdict is surprising if a typical annotator gives it with a probability below this."""


def list_annotator_votes(
    conn: Connection, annotator: FoundAnnotator, *, limit: int, before: UUID | None = None
) -> list[ListedVote]:
    """Return the annotator's votes, the one recorded last first, those recorded before the vote `before`."""
    rows = list_votes(conn, annotator.annotator_id, limit=limit, before=before)
    newest = newest_snapshot(conn)
    chances: list[Chance | None] = [None] * len(rows)
    if newest is not None and rows:
        scores = read_scores(conn, newest["id"])
        pairs = np.array([(row["model_a_id"], row["model_b_id"], row["outcome"]) for row in rows], dtype=np.int64)
        chances = _chances(scores, read_annotator_votes(conn, annotator, scores), pairs)
    return [
        ListedVote.model_validate({**row, "winner": WINNERS[row["outcome"]], "chance": chance})
        for row, chance in zip(rows, chances, strict=True)
    ]


def _chances(
    scores: PublishedScores, votes: AnnotatorVotes, pairs: np.ndarray[tuple[int, int], np.dtype[np.int64]]
) -> list[Chance | None]:
    gap = scores.gap(pairs[:, 0], pairs[:, 1])
    scored = np.isfinite(gap)
    outcome = pairs[scored, 2]
    own = expect(gap[scored], votes.ability, votes.tie_weight).of(outcome)
    typical = expect(gap[scored], 1.0, votes.tie_weight).of(outcome)
    chances = iter(zip(own.tolist(), typical.tolist(), strict=True))
    return [chance_of(*next(chances)) if known else None for known in scored]


def chance_of(own: float, typical: float) -> Chance:
    """Return how likely a verdict was, from its probabilities under the own and the typical ability."""
    return Chance(probability=own, typical_probability=typical, surprising=typical < SURPRISING)
