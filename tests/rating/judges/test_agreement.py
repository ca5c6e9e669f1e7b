"""How often annotators agree."""

import numpy as np
import pytest

from app.rating.judges.ballots import Ballots, agree, agree_with_swapped
from app.rating.votes.indexed import IndexedVotes

PEOPLE = np.array([True, True, False])
VOTES = [  # annotator, left, right, outcome, battle: people are 0 and 1, the judge 2
    (0, 0, 1, 1.0, 0), (1, 1, 0, 0.0, 0), (2, 0, 1, 1.0, 0), (2, 1, 0, 1.0, 0),
    (0, 0, 1, 1.0, 1), (1, 0, 1, 0.5, 1), (2, 0, 1, 0.5, 1),
    (0, 0, 2, 0.0, 2), (2, 0, 2, 1.0, 2), (2, 2, 0, 0.0, 2),
    (2, 1, 2, 1.0, 3),
]  # fmt: skip
EVERY = np.ones(len(VOTES), dtype=bool)


@pytest.fixture
def ballots() -> Ballots:
    annotator, left, right, outcome, battle = map(np.array, zip(*VOTES, strict=True))
    votes = IndexedVotes(["p", "q", "j"], ["a", "b", "c"], annotator, left, right, outcome.astype(float))
    return Ballots.of(votes, battle.astype(np.int64))


def test_agreement_on_the_same_battles(ballots: Ballots) -> None:
    found = agree(ballots, PEOPLE, EVERY, by_battle=True)
    # the judge: battle 0 half its copies with both people, battle 1 one of two people, battle 2 never
    assert found.share == pytest.approx([0.5, 0.5, (0.5 + 0.5 + 0.0) / 3])
    assert found.compared == pytest.approx([2.0, 2.0, 3.0])
    assert found.decided == pytest.approx([1.0, 1.0, (0.5 + 0.0) / 2])


def test_agreement_on_the_same_pairs(ballots: Ballots) -> None:
    found = agree(ballots, PEOPLE, ballots.pair == ballots.pair[0], by_battle=False)
    assert found.share[2] == pytest.approx((0.5 * 3 / 4 + 1 / 4) / 2)
    assert found.share[0] == pytest.approx(2 / 3), "both votes of the other person, and its own on the other battle"


def test_an_annotator_is_not_compared_with_itself(ballots: Ballots) -> None:
    alone = agree(ballots, np.array([True, False, False]), EVERY, by_battle=True)
    assert np.isnan(alone.share[0])
    assert alone.compared[0] == 0.0


def test_swapped_copies_are_one_observation(ballots: Ballots) -> None:
    share, battles = agree_with_swapped(ballots)
    assert battles == pytest.approx([0.0, 0.0, 2.0])
    assert share[2] == pytest.approx(0.5), "battle 0 for the left both times, battle 2 for the same model"
    assert ballots.left_share()[2] == pytest.approx((1.0 + 0.5 + 0.5 + 1.0) / 4)
