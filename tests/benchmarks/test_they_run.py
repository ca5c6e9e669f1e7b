"""Every benchmark runs, small, and prints its figures; beside its peers none runs here: their packages are missing."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIGURES = {
    "at_scale": r"restore, with its check by a refit +\d",
    "beyond": r"files by annotator, joined( +[\d.]+){4}",
    "impact": r"later impact: [\d.]+ s",
    "imports": r"with battle_id +[\d.]+ s",
    "ingest": r"batches of 10, 4 at once +[\d,]+ +[\d.]+ +[\d.]+\nsingle votes over one INSERT each: ([\d.]+|nan) ×",
    "pages": r"/console/health +200 +[\d.]+ ms",
    "quick": r"a vote, 4 at once +[\d.]+ ms",
    "rating": r"am-ELO \+ clustered, four features, 1M +[\d.]+ s",
    "readers": r"memory of the server: \d+ MiB",
    "reading": r"and at most 10 a day +[\d.]+ s",
    "refit_load": r"p99 during a refit over idle: [\d.]+ ×",
    "rest": r"a webhook's message +\d+ ms, at most \d+ ms",
    "scheduler": r"dask +[\d.]+ s",
    "strangers": r"p99, attack on it over calm: [\d.]+ ×",
    "voting": r"p99 of a vote, with over without: [\d.]+ ×",
}
OTHERS = {"beside_peers", "run", "one_fit", "ingest_services"}
"""Those with packages of their own, what runs them, and parts of `rating` and `ingest`."""


def test_every_benchmark_is_known() -> None:
    files = (ROOT / "benchmarks").glob("*.py")
    assert {file.stem for file in files if "__main__" in file.read_text()} == {*FIGURES, *OTHERS}


@pytest.mark.benchmark
@pytest.mark.parametrize("name", FIGURES)
def test_a_benchmark_runs(name: str) -> None:
    if name == "ingest" and shutil.which("wrk") is None:
        pytest.skip("wrk is missing")
    command = [sys.executable, "-m", f"benchmarks.{name}"]
    small = {**os.environ, "SMALL": "1"}
    done = subprocess.run(command, cwd=ROOT, env=small, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(FIGURES[name], done.stdout), done.stdout
