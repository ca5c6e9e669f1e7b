import numpy as np
import pytest

from app.rating.errors import VotesError
from app.rating.verdict.rows import rate_by_order
from app.rating.votes.indexed import IndexedVotes


def test_the_anchor_of_elo_needs_a_counted_vote() -> None:
    """Model 2 has one vote only, by an annotator with too few."""
    annotator, model_a, model_b = (np.array(x, dtype=np.int32) for x in ([0, 0, 0, 1], [0, 1, 0, 2], [1, 0, 1, 0]))
    votes = IndexedVotes(["k", "l"], ["x", "y", "z"], annotator, model_a, model_b, np.array([1.0, 0.5, 0.0, 1.0]))

    def rated(anchor: int) -> list[float]:
        board = rate_by_order(
            votes, votes.aggregate(), min_votes=1, base=1000.0, anchor=(anchor, 1200.0), shuffles=4, seed=0
        )
        return [row["score"] for row in board.models if row["model"] == votes.models[anchor]]

    assert rated(1) == pytest.approx([1200.0])
    with pytest.raises(VotesError, match="the anchor model has no counted votes"):
        rated(2)
