"""The estimators for notebooks give the leaderboards of `rate`."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from app.cli.command import application
from app.imports.formats.whole import read_vote_file
from stable_arena import AmElo, BradleyTerry, Elo, read_votes
from tests.fixtures.crowds import crowd_votes

pytestmark = pytest.mark.filterwarnings("ignore::app.rating.errors.RatingWarning")


@pytest.fixture(scope="module")
def votes() -> pl.DataFrame:
    """The votes of 22 annotators on 6 models; 2 of them have too few to count."""
    crowd = pl.DataFrame(crowd_votes(honest=20, flip=2))
    few = pl.col("annotator").is_in(["honest 3", "honest 4"])
    return pl.concat([crowd.filter(~few), crowd.filter(few).head(40)])


def rate(path: Path, *options: str) -> dict[str, Any]:
    result = CliRunner().invoke(application, ["rate", str(path), "--format", "json", *options])
    assert result.exit_code == 0, result.output
    rating: dict[str, Any] = json.loads(result.stdout)
    return rating


@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        (AmElo(), []),
        (AmElo(exclude=True, base=0.0, min_votes=30), ["--exclude", "--base", "0", "--min-votes", "30"]),
        (
            AmElo(flag_rule="threshold", anchor=("model 2", 1200)),
            ["--flag-rule", "threshold", "--anchor", "model 2=1200"],
        ),
        (BradleyTerry(min_votes=50, interval="sandwich"), ["--method", "m-elo", "--interval", "sandwich"]),
        (Elo(min_votes=50, shuffles=9, random_state=4), ["--method", "elo", "--shuffles", "9", "--seed", "4"]),
    ],
    ids=["am-elo", "exclude", "threshold", "m-elo", "elo"],
)
def test_the_leaderboard_is_that_of_rate(
    votes: pl.DataFrame, tmp_path: Path, estimator: Any, options: list[str]
) -> None:
    path = tmp_path / "votes.csv"
    votes.write_csv(path)
    rating = rate(path, *options)
    fitted = estimator.fit(read_votes(path))
    assert fitted.leaderboard.to_dicts() == rating["models"]
    if isinstance(estimator, AmElo):
        assert fitted.annotators.to_dicts() == rating["annotators"]


def test_a_file_of_another_arena_is_read_as_by_rate(votes: pl.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "evalica.csv"
    words = {"model_a": "left", "model_b": "right", "tie": "tie"}
    evalica = votes.select(worker="annotator", left="model_a", right="model_b", winner=pl.col("winner").replace(words))
    evalica.write_csv(path)
    assert AmElo().fit(read_vote_file(path).table()).leaderboard.to_dicts() == rate(path)["models"]
