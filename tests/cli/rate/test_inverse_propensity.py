"""rate --inverse-propensity: the column is read from every kind of file, and the scores are the estimator's."""

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from typer.testing import Result

from app.rating.errors import RatingWarning
from stable_arena import AmElo, read_votes

RunCli = Callable[..., Result]
OPTIONS = ("--inverse-propensity", "--min-votes", 0, "--format", "json")


@pytest.fixture
def chosen(vote_file: Path) -> pl.DataFrame:
    """The votes of the file, every fifth of a pair that was drawn eight times as often as the others."""
    return read_votes(vote_file).with_row_index().with_columns(
        propensity=pl.when(pl.col("index") % 5 == 0).then(0.4).otherwise(0.05)
    ).drop("index")  # fmt: skip


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_the_scores_are_the_estimators(run_cli: RunCli, chosen: pl.DataFrame, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"chosen.{ending}"
    {"csv": chosen.write_csv, "jsonl": chosen.write_ndjson, "parquet": chosen.write_parquet}[ending](path)
    result = run_cli("rate", path, *OPTIONS)
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["settings"]["inverse_propensity"] is True
    with pytest.warns(RatingWarning, match="always-wrong"):
        own = AmElo(min_votes=0, inverse_propensity=True).fit(read_votes(path)).leaderboard
    assert [row["score"] for row in document["models"]] == pytest.approx(own["score"].to_list())
    assert [row["se"] for row in document["models"]] == pytest.approx(own["se"].to_list())
    plain = json.loads(run_cli("rate", path, *OPTIONS[1:]).stdout)
    assert plain["settings"]["inverse_propensity"] is False
    assert [row["se"] for row in plain["models"]] != pytest.approx(own["se"].to_list())


def test_what_cannot_be_weighted(run_cli: RunCli, vote_file: Path, chosen: pl.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "chosen.csv"
    some = pl.when(pl.int_range(pl.len()) < 3).then(pl.lit("often")).otherwise(pl.col("propensity").cast(pl.String))
    chosen.with_columns(propensity=some).write_csv(path)
    for arguments, named in (
        ((vote_file, *OPTIONS), "need the column propensity"),
        ((path, *OPTIONS), "have none, or another (row 0)"),
        ((path, *OPTIONS, "--method", "elo"), "elo has no weights"),
        ((path, *OPTIONS, "--interval", "sandwich"), "needs --interval clustered or none, not sandwich"),
    ):
        refused = run_cli("rate", *arguments)
        assert refused.exit_code == 2
        assert named in " ".join(refused.stderr.split())
