from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from app.annotators.schemas import FoundAnnotator
from app.review.evidence.published import Expected, Published, expect, find_tie_weight
from app.review.queries import read_own_votes

MOST_VOTES = 100_000
"""Of an annotator with more votes the last so many are judged."""

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class OwnVotes:
    """One annotator's votes that are not retracted, beside what a board expects of them.

    Attributes
    ----------
    id : of each vote, newest first
    model_a, model_b : numbers of the models, shape (n_votes,)
    outcome : code, 0 the left model won, 1 the right, 2 and 3 ties
    voted, received : seconds since 1970, NaN where not known; received of live votes only
    gap : how far the left model is above the right, natural units; NaN where one has no score
    tie_share : the crowd's share of ties on the two models; NaN where there is none
    ability : of the annotator; 1, the typical one, where none is known
    tie_weight : of the crowd, as `expect` takes it
    own, typical : what is expected of the annotator, and of a typical one, of the votes with a gap (`scored`)
    """

    id: list[UUID]
    model_a: Ids
    model_b: Ids
    outcome: Ids
    voted: Floats
    received: Floats
    gap: Floats
    tie_share: Floats
    ability: float
    tie_weight: float
    own: Expected
    typical: Expected

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Votes between two models that have a score."""
        return np.isfinite(self.gap)

    @property
    def decided(self) -> NDArray[np.bool_]:
        """Of the scored votes, those that are no tie."""
        ours: NDArray[np.bool_] = self.outcome[self.scored] < 2  # noqa: PLR2004  the codes above are ties
        return ours

    @property
    def left_won(self) -> NDArray[np.bool_]:
        """Of the scored votes, those that the left model won."""
        ours: NDArray[np.bool_] = self.outcome[self.scored] == 0
        return ours


def ability_of(annotator: FoundAnnotator) -> float | None:
    """Return the ability in the newest snapshot or, outside its fit, the shadow ability."""
    return annotator.shadow_ability if annotator.ability is None else annotator.ability


def own_votes(conn: Connection, annotator: FoundAnnotator, board: Published) -> OwnVotes:
    """Read the annotator's votes, and only theirs, and set them beside a board."""
    rows = read_own_votes(conn, annotator.annotator_id, most=MOST_VOTES)
    columns: list[Any] = list(zip(*rows, strict=True)) or [()] * 6
    model_a, model_b, outcome = (np.array(column, dtype=np.int64) for column in columns[1:4])
    voted, received = (np.array([np.nan if x is None else x for x in column], np.float64) for column in columns[4:6])
    gap, tie_share = board.gap(model_a, model_b), board.tie_share(model_a, model_b)
    scored = np.isfinite(gap)
    weight = find_tie_weight(gap[scored], tie_share[scored])
    known = ability_of(annotator)
    ability = 1.0 if known is None else known
    return OwnVotes(
        list(columns[0]), model_a, model_b, outcome, voted, received, gap, tie_share, ability, weight,
        own=expect(gap[scored], ability, weight), typical=expect(gap[scored], 1.0, weight),
    )  # fmt: skip
