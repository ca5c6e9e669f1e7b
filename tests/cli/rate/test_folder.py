"""`rate FOLDER`: Parquet files that the command itself does not read."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import Result

RunCli = Callable[..., Result]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of 30 annotators with 40 votes each, of whom each third is a coin."""
    folder, chance = tmp_path_factory.mktemp("folder"), np.random.default_rng(7)
    for number in range(2):
        rows = []
        for k in range(30 * number, 30 * number + 30):
            for _ in range(40):
                a, b = chance.choice(8, 2, replace=False)
                won = chance.random() < (0.5 if k % 3 == 0 else 1 / (1 + np.exp(0.4 * (a - b))))
                rows.append((f"k{k:02}", f"m{a}", f"m{b}", "model_a" if won else "model_b"))
        columns = ["annotator", "model_a", "model_b", "winner"]
        pl.DataFrame(rows, schema=columns, orient="row").write_parquet(folder / f"{number}.parquet")
    return folder


def test_a_folder_counts_as_its_files_do(run_cli: RunCli, folder: Path, tmp_path: Path) -> None:
    rate = ("--min-votes", "10", "--annotators")
    files = json.loads(run_cli("rate", *sorted(folder.iterdir()), *rate, "--format", "json").stdout)
    found = json.loads(run_cli("rate", folder, *rate, "--format", "json").stdout)
    for table in ("models", "annotators"):
        for one, other in zip(found[table], files[table], strict=True):
            assert one == {name: pytest.approx(value, abs=1e-4) for name, value in other.items()}
    assert found["votes"] == files["votes"]
    standings = [row["standing"] for row in files["annotators"]]
    assert found["standings"] == {name: standings.count(name) for name in sorted(set(standings))}
    assert found["standings"]["flagged"] > 0
    assert files["settings"].items() >= found["settings"].items()
    shown = run_cli("rate", folder, "--min-votes", "10").stdout.splitlines()
    assert shown[:-1] == run_cli("rate", *sorted(folder.iterdir()), "--min-votes", "10").stdout.splitlines()[:-1]
    run_cli("rate", folder, *rate, "--output", tmp_path / "annotators.parquet")
    rows = pl.read_parquet(tmp_path / "annotators.parquet")
    assert rows["annotator"].to_list() == [row["annotator"] for row in files["annotators"]]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--plain",), "prior"), (("--style", "side"), "--style"), (("--method", "m-elo"), "am-elo"),
        (("--interval", "sandwich"), "--interval"), (("--where", "a=b"), "--where"), (("--soft",), "--soft"),
    ],
)  # fmt: skip
def test_what_a_folder_cannot_do_is_refused(run_cli: RunCli, folder: Path, options: tuple[str, ...], word: str) -> None:
    result = run_cli("rate", folder, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert word in result.stderr
