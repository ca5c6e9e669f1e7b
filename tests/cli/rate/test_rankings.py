"""Files of rankings: a vote for each pair, and one ballot for δ."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

RunCli = Callable[..., Result]


def write(path: Path, rankings: int, *, repeated: int = 0) -> Path:
    """Two annotators who order four answers of each item, the second one in the opposite way every third time."""
    order = ["a", "b", "c", "d"]
    lines = [
        {"annotator": who, "item": i, "ranking": [[name] for name in (order[::-1] if i % period == 0 else order)]}
        for who, period in (("ann", 100), ("bob", 3))
        for i in range(1, rankings + 1)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines + lines[:repeated]))
    return path


@pytest.mark.parametrize("method", ["am-elo", "m-elo", "elo"])
def test_a_ranking_counts_once_for_the_limit_of_votes(run_cli: RunCli, tmp_path: Path, method: str) -> None:
    path = write(tmp_path / "rankings.jsonl", 8, repeated=3)
    arguments = ("rate", path, "--method", method, "--format", "json", "--min-votes")
    document = json.loads(run_cli(*arguments, 7).stdout)
    counts = document["votes"]
    assert (counts["read"], counts["used"], counts["duplicates"]) == (19, 96, 3)
    assert [counts[name] for name in ("rankings", "votes_used", "pairs_read")] == [16, 16, 96]
    each = counts["votes_per_annotator"]
    assert (each["median"], counts["per"]["annotator"]["median"]) == (8, 48), "in votes, and in pairs"
    shown = run_cli("rate", path, "--method", method, "--min-votes", 7).stdout
    assert "19 votes read, 16 used, as 96 of 96 pairs" in shown
    assert "votes per annotator 8.0 (median 8, 8 to 8); pairs per annotator 48.0" in " ".join(shown.split())
    assert {row["annotator"]: row["votes"] for row in document["annotators"]} == {"ann": 8, "bob": 8}
    assert [row["model"] for row in document["models"]] == ["a", "b", "c", "d"]
    refused = run_cli(*arguments, 8)
    assert refused.exit_code == 2


def test_the_rankings_of_wmt(run_cli: RunCli, data_folder: Path) -> None:
    path = data_folder / "wmt16_tur-eng_rankings.jsonl"
    document = json.loads(run_cli("rate", path, "--min-votes", 2, "--format", "json").stdout)
    assert document["votes"]["read"] == 970
    assert sum(row["votes"] for row in document["annotators"]) == 970 - 46  # second rankings of an item
    ranks = [(row["model"].split(".")[1], row["best_rank"], row["worst_rank"]) for row in document["models"]]
    assert {name for name, _, worst in ranks if worst <= 4} == {"online-A", "online-B", "online-G"}
    assert {name for name, best, _ in ranks if best >= 7} == {"jhu-pbmt", "jhu-syntax", "ParFDA"}
