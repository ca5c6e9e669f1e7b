import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

RunCli = Callable[..., Any]


@pytest.fixture
def arena(on_database: None, vote_file: Path, run_cli: RunCli) -> None:
    """A published board of the vote file."""
    assert run_cli("import", vote_file).exit_code == 0
    assert run_cli("refit").exit_code == 0


def test_a_published_board_in_every_format(arena: None, run_cli: RunCli, tmp_path: Path) -> None:
    names = [row["model"] for row in json.loads(run_cli("leaderboard", "--format", "json").stdout)["models"]]
    compared = json.loads(run_cli("leaderboard", "--format", "json", "--compare", "m-elo").stdout)["models"]
    plain = json.loads(run_cli("leaderboard", "--format", "json", "--method", "m-elo").stdout)["models"]
    ranks = {row["model"]: row["rank"] for row in plain}
    assert {row["model"]: row["compared"]["m-elo"]["rank"] for row in compared} == ranks
    side_by_side = run_cli("leaderboard", "--compare", "m-elo").stdout.split("Side by side")[1]
    assert all(name in side_by_side for name in names)

    catalog = json.loads(run_cli("leaderboard", "--format", "arena-catalog").stdout)
    assert set(catalog["full"]) == set(names)
    file = tmp_path / "board.parquet"
    assert run_cli("leaderboard", "--output", file).stdout == ""
    assert pl.read_parquet(file)["model"].to_list() == names
    assert pl.read_csv(io.StringIO(run_cli("export", "leaderboard").stdout))["method"].unique().to_list() == ["am-elo"]

    for arguments, status, said in (
        (["leaderboard", "--tag", "nothing"], 1, "no leaderboard of the tag 'nothing'"),
        (["leaderboard", "--compare", "m-elo,pagerank"], 2, "'pagerank' is none of am-elo"),
        (["leaderboard", "--output", tmp_path], 2, "is a folder"),
        (["leaderboard", "--output", tmp_path / "b.xlsx"], 2, ".xlsx is none of the known endings"),
        (["export", "leaderboard", "--tag", "nothing"], 1, "no leaderboard of the tag 'nothing'"),
    ):
        refused = run_cli(*arguments)
        assert (refused.exit_code, refused.stdout) == (status, "")
        assert said in refused.stderr
