import numpy as np
import pytest

from app.rating.errors import VotesError
from app.rating.estimators.tables import VoteTable
from app.rating.votes.indexed import IndexedVotes
from stable_arena import Elo


def test_the_anchor_of_elo_needs_a_counted_vote() -> None:
    """Model z has one vote only, by an annotator with too few."""
    annotator, model_a, model_b = (np.array(x, dtype=np.int32) for x in ([0, 0, 0, 1], [0, 1, 0, 2], [1, 0, 1, 0]))
    votes = IndexedVotes(["k", "l"], ["x", "y", "z"], annotator, model_a, model_b, np.array([1.0, 0.5, 0.0, 1.0]))

    def rated(anchor: str) -> list[float]:
        board = Elo(min_votes=1, anchor=(anchor, 1200.0), shuffles=4).fit(VoteTable(votes)).leaderboard
        return [row["score"] for row in board.to_dicts() if row["model"] == anchor]

    assert rated("y") == pytest.approx([1200.0])
    with pytest.raises(VotesError, match="the anchor model has no counted votes"):
        rated("z")
