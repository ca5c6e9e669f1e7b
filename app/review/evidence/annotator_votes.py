"""One annotator's votes, and how likely a published leaderboard makes each of them."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from app.annotators.schemas import FoundAnnotator
from app.models.contestants import AS_RECORDED
from app.rating.arrays import Floats, Indices
from app.review.evidence.expectations import Expected, PublishedScores, expect, find_tie_weight, read_scores
from app.review.evidence.schemas import MOST_VOTES, Chance, ListedVote
from app.review.queries import list_votes, read_votes
from app.snapshots.queries import newest_snapshot
from app.votes.rules import WINNERS

SURPRISING = 0.1
"""A verdict is surprising if a typical annotator gives it with a probability below this."""


@dataclass(frozen=True)
class AnnotatorVotes:
    """One annotator's votes that are not retracted, with their probabilities by a published leaderboard.

    Attributes
    ----------
    id : of each vote, newest first
    model_a, model_b : numbers of the models for which the votes count, shape (n_votes,)
    outcome : code: 0 the left model won, 1 the right, 2 and 3 ties
    voted, received : seconds since 1970, NaN where unknown; `received` only for live votes
    ranked : whether the vote is a pair of a ranking, which share an id and have no sides
    gap : score of the left model minus score of the right, natural units; NaN where one has no score
    tie_share : share of ties among all annotators on the two models; NaN where there is none
    ability : of the annotator; 1, the mean ability, where unknown
    tie_weight : of all annotators, as `expect` takes it
    own, typical : probabilities under the annotator's ability and under ability 1, of the votes with a gap (`scored`)
    """

    id: list[UUID]
    model_a: Indices
    model_b: Indices
    outcome: Indices
    voted: Floats
    received: Floats
    ranked: NDArray[np.bool_]
    gap: Floats
    tie_share: Floats
    ability: float
    tie_weight: float
    own: Expected
    typical: Expected

    @property
    def once(self) -> list[int]:
        """Places of the votes, the first pair of a ranking alone."""
        return list({vote_id: place for place, vote_id in reversed(list(enumerate(self.id)))}.values())

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Votes between two models with a score."""
        return np.isfinite(self.gap)

    @property
    def decided(self) -> NDArray[np.bool_]:
        """Of the scored votes, those that are not a tie."""
        decided: NDArray[np.bool_] = self.outcome[self.scored] < 2  # noqa: PLR2004  the codes above are ties
        return decided

    @property
    def left_won(self) -> NDArray[np.bool_]:
        """Of the scored votes, those that the left model won."""
        won: NDArray[np.bool_] = self.outcome[self.scored] == 0
        return won


def ability_of(annotator: FoundAnnotator) -> float | None:
    """Return the ability in the newest snapshot or, outside its fit, the shadow ability."""
    return annotator.shadow_ability if annotator.ability is None else annotator.ability


def read_annotator_votes(conn: Connection, annotator: FoundAnnotator, scores: PublishedScores) -> AnnotatorVotes:
    """Read an annotator's votes and compute their probabilities by a leaderboard."""
    rows = read_votes(conn, annotator.annotator_id, most=MOST_VOTES, contestants=scores.contestants)
    columns: list[Any] = list(zip(*rows, strict=True)) or [()] * 7
    model_a, model_b, outcome = (np.array(column, dtype=np.int64) for column in columns[1:4])
    voted, received = (np.array(column, dtype=np.float64) for column in columns[4:6])
    gap, tie_share = scores.gap(model_a, model_b), scores.tie_share(model_a, model_b)
    scored = np.isfinite(gap)
    weight = find_tie_weight(gap[scored], tie_share[scored])
    known = ability_of(annotator)
    ability = 1.0 if known is None else known
    return AnnotatorVotes(
        list(columns[0]),
        model_a,
        model_b,
        outcome,
        voted,
        received,
        ranked=np.array(columns[6], np.bool_),
        gap=gap,
        tie_share=tie_share,
        ability=ability,
        tie_weight=weight,
        own=expect(gap[scored], ability, weight),
        typical=expect(gap[scored], 1.0, weight),
    )


def list_annotator_votes(
    conn: Connection, annotator: FoundAnnotator, *, limit: int, before: UUID | None = None
) -> list[ListedVote]:
    """Return the annotator's votes, the one recorded last first, those recorded before the vote `before`."""
    newest = newest_snapshot(conn)
    scores = None if newest is None else read_scores(conn, newest["id"], newest["vote_set"])
    contestants = AS_RECORDED if scores is None else scores.contestants
    rows = list_votes(conn, annotator.annotator_id, limit=limit, before=before, contestants=contestants)
    chances: list[Chance | None] = [None] * len(rows)
    if scores is not None and rows:
        pairs = np.array([(row["model_a_id"], row["model_b_id"], row["outcome"]) for row in rows], dtype=np.int64)
        chances = _chances(scores, read_annotator_votes(conn, annotator, scores), pairs)
    return [
        ListedVote.model_validate(
            {**row, "winner": WINNERS[row["outcome"]], "chance": None if row["criterion"] or row["ranking"] else chance}
        )
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
    """Return how likely a verdict was, from its probabilities under the own and the mean ability."""
    return Chance(probability=own, typical_probability=typical, surprising=typical < SURPRISING)
