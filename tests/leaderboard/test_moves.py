"""The sentences about a model in two leaderboards: no move across components, and every lost score."""

from app.leaderboard.diff.schemas import RowChange
from app.leaderboard.diff.sentences import describe_moves
from app.leaderboard.diff.service import compare_leaderboards, find_comparable
from app.leaderboard.schemas import LeaderboardRow

Row = tuple[str, int, float | None]


def board(*rows: Row) -> dict[str, LeaderboardRow]:
    """Make a board of models by component and score; its intervals are 50 points wide."""
    made = {}
    for model, component, score in rows:
        above = sum(1 for _, other, points in rows if other == component and (points or 0.0) > (score or 0.0))
        made[model] = LeaderboardRow(
            model=model, score=score, se=None, rank=None if score is None else above + 1, best_rank=None,
            worst_rank=None, rank_set_best=None, rank_set_worst=None, class_rank=None,
            votes=10, wins=0, ties=10, losses=0, component=component,
            identified=score is not None, organization=None, license=None, link=None,
            lower=score and score - 25.0, upper=score and score + 25.0,
        )  # fmt: skip
    return made


def compare(old: list[Row], new: list[Row]) -> tuple[dict[str, RowChange], list[str]]:
    models = list(compare_leaderboards(board(*old), board(*new)))
    return {one.model: one for one in models}, list(describe_moves(models))


ONE: list[Row] = [("a", 0, 1100.0), ("b", 0, 1050.0), ("y", 0, 950.0), ("z", 0, 900.0)]
TWO: list[Row] = [("a", 0, 1025.0), ("b", 0, 975.0), ("y", 1, 1025.0), ("z", 1, 975.0)]


def test_a_leaderboard_that_splits_has_no_moves() -> None:
    models, words = compare(ONE, TWO)
    for one in models.values():
        assert (one.comparable, one.change, one.beyond_interval) == (False, None, None)
        assert None not in (one.score_before, one.score_after)
    assert [(models[m].component_before, models[m].component_after) for m in "az"] == [(0, 0), (0, 1)]
    assert words == [
        f"{pair} are now compared with other models: their ranks and points do not compare with those before."
        for pair in ("a and b", "y and z")
    ]
    assert [one.comparable for one in compare(TWO, ONE)[0].values()] == [False] * 4, "nor has one that joins"


def test_a_model_that_changes_its_component_is_named_alone() -> None:
    models, words = compare([*TWO, ("c", 0, 990.0)], [*TWO, ("c", 1, 990.0)])
    assert not any(one.comparable for one in models.values())
    assert len(words) == 2
    _, words = compare(
        [("a", 0, 1000.0), ("b", 0, 990.0), ("c", 0, 980.0)], [("a", 0, 1.0), ("b", 0, 2.0), ("c", 1, 3.0)]
    )
    assert words[1].startswith("c is now compared with other models: its rank")


def test_of_many_models_a_few_are_named_and_the_rest_counted() -> None:
    old: list[Row] = [(f"m{i}", 0, 1000.0 + i) for i in range(9)]
    _, words = compare(old, [(name, int(name == "m8"), score) for name, _, score in old])
    assert words[0].startswith("m0, m1, m2, m3, m4 and 3 more are now compared with other models")


def test_numbers_of_components_do_not_matter() -> None:
    swapped: list[Row] = [("y", 0, 1025.0), ("z", 0, 1035.0), ("a", 1, 1025.0), ("b", 1, 975.0)]
    models, words = compare(TWO, swapped)
    assert all(one.comparable for one in models.values())
    assert (models["z"].change, models["z"].beyond_interval) == (60.0, True)
    assert words == [
        "z rose from rank 2 to 1 in its component, +60.0 points, beyond its interval.",
        "y fell from rank 1 to 2 in its component, within its interval.",
    ]


def test_models_that_enter_or_leave_do_not_part_the_others() -> None:
    models, words = compare([*ONE, ("old", 0, 800.0)], [*ONE, ("new", 0, 1075.0), ("open", 0, None)])
    assert models["b"].comparable
    assert words == [
        "b fell from rank 2 to 3, within its interval.",
        "y fell from rank 3 to 4, within its interval.",
        "z fell from rank 4 to 5, within its interval.",
        "new is new, at rank 2.",
        "open is new, without a score.",
        "old is no longer on the leaderboard; it was at rank 5.",
    ]
    _, words = compare(ONE, [*ONE, ("new", 1, 1000.0)])
    assert words == ["new is new, at rank 1 in its component."]


def test_a_score_lost_or_found_is_said_and_is_no_move() -> None:
    without: list[Row] = [*ONE[:3], ("z", 0, None)]
    models, words = compare(ONE, without)
    assert (models["z"].identified_before, models["z"].identified_after, models["z"].change) == (True, False, None)
    assert words == ["z no longer has a score."]
    assert compare(without, ONE)[1] == ["z now has a score: 900.0 points, at rank 4."]
    assert compare(ONE, [*TWO[:3], ("z", 1, None)])[1][0] == "z no longer has a score.", "whatever its component"
    assert compare(without, without)[1][0].startswith("No model changed its rank")


def test_a_model_without_a_score_comes_and_goes_without_a_rank() -> None:
    unscored: list[Row] = [*ONE, ("last", 0, None)]
    assert "last is new, without a score." in compare(ONE, unscored)[1]
    assert "last is no longer on the leaderboard; it was without a score." in compare(unscored, ONE)[1]


def test_only_models_on_both_leaderboards_decide_what_compares() -> None:
    assert find_comparable({"a": 0, "b": 0, "gone": 0}, {"a": 3, "b": 3, "new": 3}) == {"a", "b"}
    assert find_comparable({"a": 0, "b": 0, "c": 1}, {"a": 0, "b": 1, "c": 2}) == {"c"}
    assert find_comparable({"a": 0}, {}) == set()
