"""A row of weight w is w equal rows of the same annotator: in scores, intervals, ranks, abilities and flags."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.rating.errors import RatingError, VotesError
from stable_arena import AmElo, BradleyTerry, Elo

pytestmark = pytest.mark.filterwarnings("ignore::app.rating.errors.RatingWarning")

ESTIMATORS = [
    AmElo(min_votes=0), AmElo(min_votes=4, flag_rule="threshold", exclude=True), BradleyTerry(),
    BradleyTerry(interval="information"), BradleyTerry(interval="sandwich"), Elo(shuffles=3, min_votes=3),
]  # fmt: skip
VOTE = st.tuples(
    st.sampled_from("klmn"), st.sampled_from(["xy", "yx", "yz", "zx"]), st.sampled_from([1.0, 0.5, 0.0]),
    st.integers(1, 4),
)  # fmt: skip


def fitted(estimator: Any, votes: pl.DataFrame) -> list[pl.DataFrame] | str:
    """Return every table of an estimator, or the error."""
    try:
        estimator.fit(votes)
    except (RatingError, VotesError) as error:
        return f"{type(error).__name__} {getattr(error, 'code', '')}"
    names = ["leaderboard", *(["annotators"] if isinstance(estimator, AmElo) else [])]
    tables = [getattr(estimator, name) for name in names]
    return tables if isinstance(estimator, Elo) else [*tables, estimator.rank_sets()]


def assert_same(found: list[pl.DataFrame] | str, wanted: list[pl.DataFrame] | str) -> None:
    if isinstance(found, str) or isinstance(wanted, str):
        assert found == wanted
        return
    for one, other in zip(found, wanted, strict=True):
        for name in other.columns:
            column, expected = one[name], other[name]
            if expected.dtype.is_float():
                mine, theirs = (values.fill_null(np.nan).to_numpy() for values in (column, expected))
                np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-4, err_msg=name)
            else:
                assert column.to_list() == expected.to_list(), name


@settings(max_examples=12)
@given(votes=st.lists(VOTE, min_size=3, max_size=14), data=st.data())
def test_a_weight_is_so_many_equal_rows(votes: list[tuple[str, str, float, int]], data: st.DataObject) -> None:
    rows = [(who, pair[0], pair[1], won, weight) for who, pair, won, weight in votes]
    names = ["annotator", "model_a", "model_b", "winner", "weight"]
    weighted = pl.DataFrame(rows, schema=names, orient="row")
    repeated = weighted.select(pl.exclude("weight").repeat_by("weight").explode())
    estimator = data.draw(st.sampled_from(ESTIMATORS))
    assert_same(fitted(estimator, weighted), fitted(estimator, repeated))


def test_a_weight_of_two_is_the_row_twice_for_the_evidence(votes: pl.DataFrame) -> None:
    part = votes.head(1000)
    weighted = votes.with_row_index().with_columns(weight=pl.when(pl.col("index") < 1000).then(2).otherwise(1))
    expected = AmElo().fit(pl.concat([votes, part]))
    found = AmElo().fit(weighted)
    assert_same([found.leaderboard, found.annotators, found.flags()],
                [expected.leaderboard, expected.annotators, expected.flags()])  # fmt: skip
    assert "side" in found.flags()["reason"], "the sides are tested too"


def test_weights_beside_features(votes: pl.DataFrame) -> None:
    twice = pl.concat([votes, votes])
    found = AmElo(features=("side",)).fit(votes.with_columns(weight=2))
    expected = AmElo(features=("side",)).fit(twice)
    assert_same([found.leaderboard, found.style], [expected.leaderboard, expected.style])


def test_fractions_of_votes_are_not_rounded(votes: pl.DataFrame) -> None:
    whole = BradleyTerry().fit(votes).leaderboard
    halved = BradleyTerry().fit(votes.with_columns(weight=0.5)).leaderboard
    assert_same([halved.select("model", "score")], [whole.select("model", "score")])
    assert halved["votes"].to_list() == [votes / 2 for votes in whole["votes"]]
    assert halved["votes"].dtype == pl.Float64


def test_what_takes_votes_one_by_one_needs_whole_weights(votes: pl.DataFrame) -> None:
    with pytest.raises(VotesError, match=r"needs whole weights \(row 0\)"):
        Elo(shuffles=2).fit(votes.with_columns(weight=1.5))
    with pytest.raises(VotesError, match="at most 10,000,000 are taken one by one"):
        Elo(shuffles=2).fit(votes.with_columns(weight=1_000_000))
