import pytest

from app.rating.votes.cells import aggregate
from app.rating.votes.graph import VoteSpread, spread_votes


def test_votes_are_counted_by_annotator_model_and_pair() -> None:
    """Annotator 1 and model 3 have no vote, and count for nothing."""
    cells = aggregate([0, 0, 0, 2], [0, 1, 0, 1], [1, 0, 2, 2], [1.0, 0.5, 0.0, 1.0], n_annotators=3, n_models=4)
    assert spread_votes(cells) == {
        "annotator": VoteSpread(2.0, 2.0, 1.0, 3.0),
        "model": VoteSpread(pytest.approx(8 / 3), 3.0, 2.0, 3.0),
        "pair": VoteSpread(pytest.approx(4 / 3), 1.0, 1.0, 2.0),
    }
