import numpy as np

from app.rating.arrays import finite
from app.rating.settings import LoopSettings
from app.rating.verdict.round import run_round
from app.rating.verdict.rows import count, model_rows
from app.rating.votes.cells import aggregate


def test_numbers_json_does_not_have_are_null() -> None:
    assert [finite(x) for x in (1.5, np.nan, np.inf, -np.inf)] == [1.5, None, None, None]


def test_whole_counts_are_whole_numbers() -> None:
    assert (count(3.0), count(2.5)) == (3, 2.5)
    assert isinstance(count(3.0), int)


def test_a_model_without_counted_votes_is_left_out() -> None:
    cells = aggregate(
        np.array([0, 0, 1]), np.array([0, 1, 2]), np.array([1, 0, 0]), np.array([1.0, 1.0, 0.5]),
        n_annotators=2, n_models=3,
    )  # fmt: skip
    rating = run_round(cells, LoopSettings(method="m-elo", min_votes=1))
    rows = model_rows(rating, ["a", "b", "c"])
    assert [(row["model"], row["votes"]) for row in rows] == [("a", 2), ("b", 2)]
