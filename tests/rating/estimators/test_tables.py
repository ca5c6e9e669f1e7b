"""Votes in the caller's table: every kind gives the same result; what is wrong with a table is said."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from app.rating.errors import VotesError
from app.rating.estimators.tables import read_table
from stable_arena import AmElo, BradleyTerry
from tests.fixtures.errors import having

pytestmark = pytest.mark.filterwarnings("ignore::app.rating.errors.RatingWarning")


def to_pandas(votes: pl.DataFrame, **options: Any) -> pd.DataFrame:
    return pd.DataFrame(votes.to_dict(as_series=False), **options)


def beside_others(names: pl.Series) -> pl.Series:
    """Return names as categories whose numbers have gaps, and are not in the order of the names."""
    others = pl.Series(names.name, ["zebra", "", *names.unique().sort(descending=True)])
    return pl.concat([others, names]).cast(pl.Categorical).tail(len(names))


KINDS: dict[str, tuple[Callable[[pl.DataFrame], Any], type]] = {
    "polars": (lambda votes: votes, pl.DataFrame),
    "polars lazy": (lambda votes: votes.lazy(), pl.DataFrame),
    "polars categories": (lambda votes: votes.with_columns(pl.all().cast(pl.Categorical)), pl.DataFrame),
    "polars enums": (
        lambda votes: votes.with_columns(pl.col(name).cast(pl.Enum(votes[name].unique())) for name in votes.columns),
        pl.DataFrame,
    ),
    "polars categories beside others": (
        lambda votes: votes.with_columns(beside_others(votes[name]) for name in votes.columns),
        pl.DataFrame,
    ),
    "one column of categories": (
        lambda votes: votes.with_columns(pl.col("model_b").cast(pl.Categorical)),
        pl.DataFrame,
    ),
    "pandas": (to_pandas, pd.DataFrame),
    "pandas objects": (lambda votes: to_pandas(votes, dtype=object), pd.DataFrame),
    "pandas categories": (lambda votes: to_pandas(votes, dtype="category"), pd.DataFrame),
    "pandas, odd index": (
        lambda votes: to_pandas(votes, index=[7] * len(votes)),
        pd.DataFrame,
    ),
    "arrow": (lambda votes: pa.table(votes.to_dict(as_series=False)), pa.Table),
    "arrow categories": (
        lambda votes: pa.table({name: votes[name].to_arrow().dictionary_encode() for name in votes.columns}),
        pa.Table,
    ),
    "lists": (lambda votes: votes.to_dict(as_series=False), pl.DataFrame),
    "arrays": (lambda votes: {name: votes[name].to_numpy() for name in votes.columns}, pl.DataFrame),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_result_in_tables_of_its_kind(votes: pl.DataFrame, kind: str) -> None:
    convert, returned = KINDS[kind]
    expected, fitted = AmElo().fit(votes), AmElo().fit(convert(votes))
    for wanted, table in (
        (expected.leaderboard, fitted.leaderboard),
        (expected.annotators, fitted.annotators),
        (expected.rank_sets(), fitted.rank_sets()),
        (expected.flags(), fitted.flags()),
    ):
        assert type(table) is returned
        assert pl.DataFrame(table).rows() == wanted.rows()


def test_the_type_of_a_column_does_not_depend_on_what_is_missing(votes: pl.DataFrame) -> None:
    honest = votes.filter(pl.col("annotator").str.starts_with("honest"))
    none_flagged, without_intervals = AmElo(evidence_ratio=1e9), AmElo(interval="none")
    assert none_flagged.fit(honest).flags().is_empty()
    assert none_flagged.flags().schema == AmElo().fit(votes).flags().schema
    assert without_intervals.fit(votes).leaderboard["lower"].null_count() == 6
    assert without_intervals.leaderboard.schema == AmElo().fit(votes).leaderboard.schema


def test_names_that_are_numbers_stay_numbers(votes: pl.DataFrame) -> None:
    numbered = votes.with_columns(pl.col("model_a", "model_b", "annotator").str.extract(r"(\d+)$").cast(pl.Int16))
    fitted, named = AmElo().fit(numbered), AmElo().fit(votes)
    assert [f"model {i}" for i in fitted.leaderboard["model"]] == named.leaderboard["model"].to_list()
    assert fitted.leaderboard["score"].to_list() == pytest.approx(named.leaderboard["score"].to_list(), rel=1e-12)
    assert fitted.annotators.schema["annotator"] == pl.Int64
    assert fitted.win_probability(0, 3) == pytest.approx(named.win_probability("model 0", "model 3"), rel=1e-12)


def test_outcomes_are_words_or_numbers(votes: pl.DataFrame) -> None:
    numbers = votes.with_columns(pl.col("winner").replace_strict({"model_a": 1.0, "model_b": 0.0, "tie": 0.5}))
    bad = votes.with_columns(pl.col("winner").replace({"tie": "tie (bothbad)"}))
    expected = AmElo().fit(votes).leaderboard
    assert AmElo().fit(numbers).leaderboard.equals(expected)
    assert AmElo().fit(bad).leaderboard.equals(expected)


GOOD = {
    "annotator": ["k", "k", "l"], "model_a": ["x", "y", "x"], "model_b": ["y", "x", "y"],
    "winner": ["model_a", "tie", "model_b"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_b": None, "winner": None, "k": []}, "missing columns: model_b, winner (found: annotator, model_a, k"),
        ({"annotator": None}, "AmElo needs the column annotator to estimate abilities"),
        ({name: [] for name in GOOD}, "no votes: the table has no rows"),
        ({"winner": ["model_a", "won", "lost"]}, "unknown winner 'lost', 'won'; known are model_a, model_b, tie"),
        ({"winner": [1.0, 0.25, 2.0]}, "unknown winner 0.25, 2.0; known are model_a, model_b, tie, both_bad"),
        ({"winner": [*"cdefgh"][:3]}, "unknown winner 'c', 'd', 'e'"),
        ({"winner": ["model_a", None, "tie"]}, "winner is missing in 1 row, the first is row 1"),
        ({"winner": [1.0, np.nan, np.nan]}, "winner is missing in 2 rows, the first is row 1"),
        ({"winner": [True, False, True]}, "winner cannot be Boolean"),
        ({"winner": np.array(["tie", 1.0, 0.0], dtype=object)}, "winner mixes kinds of values; it must be"),
        ({"model_a": ["x", None, "y"]}, "model_a is missing in 1 row, the first is row 1"),
        ({"model_b": ["x", "y", ""]}, "model_b is empty in 1 row, the first is row 2"),
        ({"model_a": ["", "y", ""]}, "model_a is empty in 2 rows, the first is row 0"),
        ({"model_a": ["y", "y", "x"]}, "a model against itself (row 0)"),
        ({"model_a": [1.5, 2.5, 3.5]}, "model_a must be text or whole numbers, is Float64"),
        ({"model_a": [1, 2, 1]}, "model_a and model_b differ in kind: one is text, the other numbers"),
        ({"annotator": [None, "k", "l"]}, "annotator is missing in 1 row, the first is row 0"),
        ({"annotator": ["k", "l"]}, "the columns differ in length: annotator 2, model_a 3, model_b 3, winner 3"),
        ({"annotator": [["k"], ["l"], ["m"]]}, "annotator must have one dimension, has 2"),
        ({"weight": [1.0, np.nan, 1.0]}, "weight is missing in 1 row, the first is row 1"),
        ({"weight": [1.0, -1.0, 1.0]}, "weight is not a positive number (row 1)"),
        ({"weight": [1.0, 0.0, 1.0]}, "weight is not a positive number (row 1)"),
        ({"weight": [1.0, np.inf, 1.0]}, "weight is not a positive number (row 1)"),
        ({"weight": ["1", "2", "3"]}, "weight cannot be String"),
        ({"n": [1, 2, 3]}, "n may say how many votes a row stands for: name the column weight, or leave it out"),
        ({"Weight": [1, 2, 3]}, "Weight may say how many votes a row stands for"),
        ({"battle_id": ["b", "b", "b"]}, "battle_id repeats a vote of the same annotator in 2 rows, the first"),
        ({"battle_id": ["b", "c", "b"]}, "no vote is left: no annotator has more than 50 votes"),
        ({"battle_id": [None, None, "b"]}, "no vote is left: no annotator has more than 50 votes"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_table_is_said(change: dict[str, Any], message: str) -> None:
    table = {name: values for name, values in {**GOOD, **change}.items() if values is not None}
    with pytest.raises(VotesError, match=re.escape(message)) as error:
        AmElo().fit(table)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(
    "prompts",
    [
        ["¿Qué?", None, "¿Qué?"],
        [5, None, 5],
        [5.0, np.nan, 5.0],
        [["a", "b"], None, ["a", "b"]],
        pl.Series(["b", "", "b"], dtype=pl.Categorical),
        ["x" * 100_000, None, "x" * 100_000],
    ],
)
def test_prompts_are_told_apart_whatever_they_are(prompts: Any) -> None:
    found = read_table(pl.DataFrame({**GOOD, "prompt": prompts})).votes.prompt
    assert found is not None
    assert found[0] == found[2] >= 0
    assert found[1] == -1
    in_pandas = read_table(pd.DataFrame({**GOOD, "prompt": list(prompts)})).votes.prompt
    assert in_pandas is not None
    assert in_pandas[0] == in_pandas[2] != in_pandas[1]
    assert read_table(pl.DataFrame(GOOD)).votes.prompt is None
    assert read_table(pl.DataFrame({**GOOD, "prompt": [None] * 3})).votes.by_prompt() is None


def test_many_unknown_outcomes_are_not_all_listed() -> None:
    table = {name: np.repeat(values, 3) for name, values in GOOD.items()}
    with pytest.raises(VotesError, match="unknown winner 'c', 'd', 'e', 'f', 'g' and 4 more"):
        BradleyTerry().fit({**table, "winner": [*"cdefghijk"]})


def test_missing_and_mixed_values_are_found_in_pandas_tables() -> None:
    table = pd.DataFrame(GOOD)
    with pytest.raises(VotesError, check=having(code="value")):
        BradleyTerry().fit(table.assign(model_a=["x", "y", np.nan]))
    with pytest.raises(VotesError, check=having(code="type")):
        BradleyTerry().fit(table.assign(model_a=["x", "y", 3]))
    with pytest.raises(ValueError, match="'winner' 2 times"):
        BradleyTerry().fit(pd.concat([table, table[["winner"]]], axis=1))


@pytest.mark.parametrize("thing", [[("k", "x", "y", "tie")], np.zeros((3, 4)), "votes.csv", None])
def test_what_is_no_table_is_a_type_error(thing: Any) -> None:
    with pytest.raises(TypeError, match="votes must be a pandas, polars or Arrow table, or a mapping"):
        AmElo().fit(thing)
