import pytest

from app.leaderboard.schemas import LeaderboardRow
from app.leaderboard.verdict import describe_verdict

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
        ([("a", 1100, 1), ("b", 1000, 2)], 1234, "a leads all others",
         "a leads; every other model can be told apart from it at these 1,234 votes."),
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
         "a has the best score at these 9 votes; without intervals nothing says how sure that is."),
        ([("a", None, None), ("b", 1000, None)], 9, "a is first",
         "a is first at these 9 votes; without intervals nothing says how sure that is."),
        ([("a", 1100, 1)], 9, "a is the only model with a rank", "a is the only model with a rank at these 9 votes."),
        ([], 0, "No model has a score", "No model has a score at these 0 votes."),
    ],
)  # fmt: skip
def test_the_verdict_is_a_headline_and_a_sentence(
    models: list[Model], votes: int, headline: str, sentence: str
) -> None:
    said = describe_verdict([row(place, *model) for place, model in enumerate(models, 1)], votes)
    assert (said.headline, said.sentence) == (headline, sentence)


def test_without_classes_intervals_decide() -> None:
    rows = [
        row(place, name, score, None).model_copy(update={"lower": score - 20.0, "upper": score + 20.0})
        for place, (name, score) in enumerate({"a": 1100.0, "b": 1070.0, "c": 1059.0}.items(), 1)
    ]
    assert describe_verdict(rows, 9).headline == "a leads, level with b"
