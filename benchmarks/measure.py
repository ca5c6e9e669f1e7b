"""How the benchmarks measure and print: medians of five, ratios within one run, the floor beside them."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.rating.votes.cells import Cells
from benchmarks.size import sized

RUNS = sized(5, 1)
ROOT = Path(__file__).resolve().parent.parent


def seconds(work: Callable[[], object], *, runs: int = RUNS, warm: bool = True) -> float:
    """Median time of the runs, after one that is not counted where something is compiled in it (`warm`)."""
    if warm:
        work()
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def floor(cells: Cells) -> float:
    """Time of one bare pass computing as many exponentials as there are cells, in numpy, on one thread."""
    x = np.random.default_rng(0).normal(0.0, 1.0, len(cells.n))
    out = np.empty_like(x)
    return seconds(lambda: np.exp(x, out=out))


@dataclass(frozen=True)
class Row:
    """One line of the table: a time against another, which of the two is the product being said by `work`.

    Attributes
    ----------
    target : what ours / theirs should not exceed (or, with `at_least`, theirs / ours should reach)
    floor : seconds of a bare pass over the same cells
    """

    work: str
    ours: float
    peer: str
    theirs: float
    target: float
    floor: float
    at_least: bool = False

    def __str__(self) -> str:
        ratio = self.theirs / self.ours if self.at_least else self.ours / self.theirs
        reached = ratio >= self.target if self.at_least else ratio <= self.target
        sign = "≥" if self.at_least else "≤"
        verdict = f"{ratio:8.4f} ×  {sign} {self.target:<6g} {'yes' if reached else 'NO':<4}"
        return (
            f"{self.work:<46}{self.ours:9.4f} s  {self.peer:<36}{self.theirs:10.4f} s  {verdict}"
            f"{self.ours / self.floor:8.0f} floors"
        )


Rows = dict[str, Callable[[], Iterator[Row]]]


def print_rows(rows: Rows) -> None:
    """Print the rows that the command's arguments name, or all."""
    for name in sys.argv[1:] or rows:
        for row in rows[name]():
            print(row, flush=True)


@contextmanager
def one_processor() -> Iterator[None]:
    """Keep this thread, and with it the rating engine's passes, on one processor."""
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(all_of_them)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_of_them)


def in_fresh_process(module: str, *arguments: str) -> dict[str, float]:
    """Run a module that prints one JSON object, and return that."""
    done = subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured
