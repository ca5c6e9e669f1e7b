from collections.abc import Sequence

import numpy as np
import pytest

from app.leaderboard.schemas import LeaderboardRow
from app.leaderboard.verdict import describe_verdict
from app.snapshots.differences import Differences

Model = tuple[str, float | None, int | None]


def row(place: int, name: str, score: float | None, class_rank: int | None) -> LeaderboardRow:
    return LeaderboardRow(
        model=name, score=score, se=None, lower=None, upper=None, rank=place, best_rank=None, worst_rank=None,
        rank_set_best=None, rank_set_worst=None, class_rank=class_rank, votes=10,
        wins=5, ties=0, losses=5, component=0, identified=score is not None, organization=None, license=None,
        link=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("models", "votes", "headline", "sentence"),
    [
        ([("a", 1100, 1), ("b", 1000, 2)], 1234, "a likely leads all others",
         "a is likely better than b at these 1,234 votes."),
        ([("a", 1100, 1), ("b", 1070, 1)], 1, "a leads, level with b",
         "a leads; b cannot be told apart from it at this one vote."),
        ([("a", None, 1), ("b", 1060, 1)], 9, "a leads, level with b",
         "a leads; b cannot be told apart from it at these 9 votes."),
        ([("a", 1100, 1), ("b", 1059, 2), ("c", 1058, 1)], 9, "a leads, level with c",
         "a leads; c cannot be told apart from it at these 9 votes."),
        ([("a", 1100, 1), ("b", 1090, 1), ("c", 1080, 1)], 9, "a leads, level with two others",
         "a leads; b and c cannot be told apart from it at these 9 votes."),
        ([("a", 1100, 1), ("b", 1090, 1), ("c", 1080, 1), ("d", 1070, 1)], 9, "a leads, level with three others",
         "a leads; b and two others cannot be told apart from it at these 9 votes."),
        ([("a", 1100, 1), *((f"b{i}", 1090 - i, 1) for i in range(11))], 9, "a leads, level with 11 others",
         "a leads; b0 and 10 others cannot be told apart from it at these 9 votes."),
        ([("a", 1100, None), ("b", 1000, None)], 9, "a has the best score",
         "a has the best score at these 9 votes; nothing says how sure that is."),
        ([("a", None, None), ("b", 1000, None)], 9, "a is first",
         "a is first at these 9 votes; nothing says how sure that is."),
        ([("a", 1100, 1)], 9, "a is the only model with a rank", "a is the only model with a rank at these 9 votes."),
        ([], 0, "No model has a score", "No model has a score at these 0 votes."),
    ],
)  # fmt: skip
def test_the_verdict_is_a_headline_and_a_sentence(
    models: list[Model], votes: int, headline: str, sentence: str
) -> None:
    said = describe_verdict([row(place, *model) for place, model in enumerate(models, 1)], votes, None)
    assert (said.headline, said.sentence) == (headline, sentence)


@pytest.mark.parametrize(
    ("sure", "headline", "sentence"),
    [
        ([2, 2, 2], "a leads all others", "a is better than every other model at these 9 votes."),
        ([1, 2, 2], "a likely leads all others",
         "a is better than two others and likely better than b at these 9 votes."),
        ([1, 1, 2], "a likely leads all others",
         "a is better than one other and likely better than b and c at these 9 votes."),
        ([1, 0, 2], "a leads, level with c", "a leads; c cannot be told apart from it at these 9 votes."),
    ],
)  # fmt: skip
def test_differences_say_how_sure_it_is(sure: Sequence[int], headline: str, sentence: str) -> None:
    names = "abcd"
    rows = [row(place, name, 1200.0 - place, 1) for place, name in enumerate(names, 1)]
    sureness = np.zeros((4, 4), dtype=np.int8)
    sureness[0, 1:] = sure
    said = describe_verdict(rows, 9, Differences(names, [0] * 4, [False] * 4, sureness))
    assert (said.headline, said.sentence) == (headline, sentence)
