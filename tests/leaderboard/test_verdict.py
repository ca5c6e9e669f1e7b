import pytest

from app.leaderboard.schemas import LeaderboardRow
from app.leaderboard.verdict import describe_verdict

Model = tuple[str, float | None, float | None]


def row(place: int, name: str, score: float | None, half: float | None) -> LeaderboardRow:
    known = score is not None and half is not None
    return LeaderboardRow(
        model=name, score=score, se=None, lower=score - half if known else None, upper=score + half if known else None,
        rank=place, best_rank=None, worst_rank=None, rank_set_best=None, rank_set_worst=None, class_rank=None, votes=10,
        wins=5, ties=0, losses=5, component=0, identified=score is not None, organization=None, license=None,
        link=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("models", "votes", "headline", "sentence"),
    [
        ([("a", 1100, 20), ("b", 1000, 20)], 1234, "a leads all others",
         "a leads; every other model can be told apart from it at these 1,234 votes."),
        ([("a", 1100, 20), ("b", 1070, 20)], 1, "a leads, level with b",
         "a leads; b cannot be told apart from it at this one vote."),
        ([("a", 1100, 20), ("b", 1060, 20)], 9, "a leads, level with b",
         "a leads; b cannot be told apart from it at these 9 votes."),
        ([("a", 1100, 20), ("b", 1059, 20), ("c", 1058, 22)], 9, "a leads, level with c",
         "a leads; c cannot be told apart from it at these 9 votes."),
        ([("a", 1100, 50), ("b", 1090, 50), ("c", 1080, 50)], 9, "a leads, level with two others",
         "a leads; b and c cannot be told apart from it at these 9 votes."),
        ([("a", 1100, 50), ("b", 1090, 50), ("c", 1080, 50), ("d", 1070, 50)], 9, "a leads, level with three others",
         "a leads; b and two others cannot be told apart from it at these 9 votes."),
        ([("a", 1100, 90), *((f"b{i}", 1090 - i, 90) for i in range(11))], 9, "a leads, level with 11 others",
         "a leads; b0 and 10 others cannot be told apart from it at these 9 votes."),
        ([("a", 1100, None), ("b", 1000, None)], 9, "a has the best score",
         "a has the best score at these 9 votes; without intervals nothing says how sure that is."),
        ([("a", 1100, 20), ("b", None, None)], 9, "a is the only model with a score",
         "a is the only model with a score at these 9 votes."),
        ([("a", None, None)], 9, "No model has a score", "No model has a score at these 9 votes."),
        ([], 0, "No model has a score", "No model has a score at these 0 votes."),
    ],
)  # fmt: skip
def test_the_verdict_is_a_headline_and_a_sentence(
    models: list[Model], votes: int, headline: str, sentence: str
) -> None:
    said = describe_verdict([row(place, *model) for place, model in enumerate(models, 1)], votes)
    assert (said.headline, said.sentence) == (headline, sentence)
