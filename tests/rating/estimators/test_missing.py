"""Whole numbers that may be missing, in every table of every kind, beside a model without a score."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from stable_arena import AmElo, BradleyTerry, Elo

pytestmark = pytest.mark.filterwarnings("ignore::app.rating.errors.RatingWarning")

TO_KIND: dict[str, Callable[[pl.DataFrame], Any]] = {
    "pandas": lambda votes: pd.DataFrame(votes.to_dict(as_series=False)),
    "pandas of arrow": lambda votes: pd.DataFrame(votes.to_dict(as_series=False)).convert_dtypes(
        dtype_backend="pyarrow"
    ),
    "arrow": lambda votes: pa.table(votes.to_dict(as_series=False)),
    "lists": lambda votes: votes.to_dict(as_series=False),
}
RANKS = ("rank", "best_rank", "worst_rank", "rank_set_best", "rank_set_worst", "class_rank")


@pytest.fixture(scope="module")
def unscored(votes: pl.DataFrame) -> pl.DataFrame:
    """Votes with a model that only won, and an annotator who voted on it alone."""
    won = {"model_a": "winner", "model_b": "model 0", "winner": "model_a", "annotator": ["new", "new", "honest 1"]}
    return pl.concat([votes, pl.DataFrame(won).select(votes.columns)])


@pytest.fixture(scope="module")
def wanted(unscored: pl.DataFrame) -> dict[str, Any]:
    """The tables of a table of polars, the kind the estimators work with."""
    return tables(unscored)


def tables(votes: Any) -> dict[str, Any]:
    """Return every table that the estimators give, by name."""
    fitted, styled = AmElo().fit(votes), AmElo(features=("side",)).fit(votes)
    found = {"leaderboard": fitted.leaderboard, "annotators": fitted.annotators, "flags": fitted.flags()}
    found |= {"rank_sets": fitted.rank_sets(), "decided": fitted.decided().models}
    found |= {"styled": styled.leaderboard, "style": styled.style, "leans": styled.leans}
    found |= {"without intervals": AmElo(interval="none").fit(votes).leaderboard}
    found |= {"m-elo": BradleyTerry().fit(votes).leaderboard, "m-elo sets": BradleyTerry().fit(votes).rank_sets()}
    return found | {"elo": Elo(shuffles=2).fit(votes).leaderboard}


def test_a_model_without_a_score_has_none_in_its_row(wanted: dict[str, Any]) -> None:
    row = wanted["leaderboard"].row(by_predicate=~pl.col("identified"), named=True)
    assert (row["score"], row["se"], row["upper"]) == (None, None, None)


@pytest.mark.parametrize("kind", TO_KIND)
def test_every_table_has_a_model_without_a_score(unscored: pl.DataFrame, wanted: dict[str, Any], kind: str) -> None:
    for name, table in tables(TO_KIND[kind](unscored)).items():
        as_polars = pl.DataFrame(table)
        assert as_polars.schema == wanted[name].schema, name
        assert as_polars.rows() == wanted[name].rows(), name


def test_pandas_has_whole_numbers_with_missing_ones(votes: pl.DataFrame, unscored: pl.DataFrame) -> None:
    for estimator, given in ((AmElo(), votes), (AmElo(interval="none"), unscored)):  # whether or not one is missing
        board = estimator.fit(TO_KIND["pandas"](given)).leaderboard
        assert {str(board[name].dtype) for name in RANKS} == {"Int64"}
        assert {str(board[name].dtype) for name in ("votes", "wins", "component")} == {"int64"}
    assert board["class_rank"].isna().all()
