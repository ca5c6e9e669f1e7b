"""Time and memory of am-ELO with clustered intervals on votes from a file: one process, one JSON object."""

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import simulate_votes
from app.rating.verdict.round import run_round
from app.rating.votes.cells import aggregate
from benchmarks.measure import RUNS
from benchmarks.worlds import cells_of

AM_ELO = LoopSettings(min_votes=0, flag_rule="threshold")


def peak() -> int:
    """Return the most memory this process ever held, bytes; Linux only.

    Not ru_maxrss: a child begins with what its parent held when it started it.
    """
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    return int(status["VmHWM"].split()[0]) * 1024


def measure(file: str) -> dict[str, float]:
    run_round(cells_of(simulate_votes(0)), AM_ELO)  # compiles
    before = peak()
    with np.load(file) as saved:
        columns = [saved[name] for name in ("annotator", "model_a", "model_b", "outcome")]
        n_annotators, n_models = int(saved["n_annotators"]), int(saved["n_models"])
    given, times = peak(), []
    for _ in range(RUNS):
        began = time.perf_counter()
        _ = run_round(aggregate(*columns, n_annotators=n_annotators, n_models=n_models), AM_ELO).models
        times.append(time.perf_counter() - began)
    return {"seconds": statistics.median(times), "before": before, "given": given, "peak": peak()}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
